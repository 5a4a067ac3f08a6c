"""What Python and NumPy make of functions: caches, vectorised functions, methods of proxies."""

from __future__ import annotations

import functools
import gc
import types
import weakref
from typing import Any

from ..pickler import StatePickler, for_library, reducer
from ..records import Refused
from .code import by_name


@reducer(functools._lru_cache_wrapper)
def _cached(pickler: StatePickler, cached: Any) -> Any:
    """Reduce a function with ``lru_cache``."""
    if by_name(cached):
        return NotImplemented
    if cached.cache_info().currsize:
        pickler.note("What a function with functools.lru_cache remembers is computed anew.")
    limits = cached.cache_parameters()
    state = {name: value for name, value in vars(cached).items() if name != "cache_parameters"}
    arguments = (cached.__wrapped__, limits["maxsize"], limits["typed"])
    return _make_cached, arguments, state, None, None, _update


def _make_cached(function: Any, size: int | None, typed: bool) -> Any:
    return functools.lru_cache(size, typed)(function)


def _update(obj: Any, attributes: dict[str, Any]) -> None:
    obj.__dict__.update(attributes)


@reducer(weakref.ProxyType, weakref.CallableProxyType)
def _proxy(_pickler: StatePickler, proxy: Any) -> Any:
    """Reduce a weak proxy, which hands every question on to what it stands for."""
    try:
        target = proxy.__reduce_ex__.__self__
    except ReferenceError:
        return _dead_proxy, ()
    return weakref.proxy, (target,)


class _Gone:
    pass


def _dead_proxy() -> Any:
    return weakref.proxy(_Gone())


@for_library("numpy")
def install() -> None:
    """Install the reducer of NumPy's functions."""
    import numpy as np

    reducer(np.ufunc)(_reduce_ufunc)


def _reduce_ufunc(_pickler: StatePickler, ufunc: Any) -> Any:
    if not ufunc.__name__.endswith(" (vectorized)"):
        return NotImplemented
    # Nothing but the garbage collector tells which function np.frompyfunc was given.
    functions = [seen for seen in gc.get_referents(ufunc) if callable(seen)]
    if len(functions) != 1 or isinstance(functions[0], types.ModuleType):
        raise Refused(
            "a NumPy function whose Python function cannot be found",
            "Make it again after the move (np.frompyfunc).",
            ufunc,
        )
    return _make_ufunc, (functions[0], ufunc.nin, ufunc.nout, ufunc.identity)


def _make_ufunc(function: Any, inputs: int, outputs: int, identity: Any) -> Any:
    import numpy as np

    if identity is None:
        return np.frompyfunc(function, inputs, outputs)
    return np.frompyfunc(function, inputs, outputs, identity=identity)
