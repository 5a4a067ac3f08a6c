"""What ``typing`` makes by name only: new types and parameters of generics."""

from __future__ import annotations

import random
import typing
from typing import Any

from ..pickler import StatePickler, reducer
from .code import by_name


@reducer(typing.NewType)
def _new_type(_pickler: StatePickler, made: Any) -> Any:
    if by_name(made):
        return NotImplemented
    state = {"__module__": made.__module__, "__qualname__": made.__qualname__}
    return typing.NewType, (made.__name__, made.__supertype__), state, None, None, _name


def _name(made: Any, state: dict[str, str]) -> None:
    for name, value in state.items():
        setattr(made, name, value)


@reducer(typing.ParamSpec)
def _parameters(_pickler: StatePickler, made: Any) -> Any:
    if by_name(made):
        return NotImplemented
    variance = {"covariant": made.__covariant__, "contravariant": made.__contravariant__}
    return _make_parameters, (made.__name__, made.__bound__, variance)


def _make_parameters(name: str, bound: Any, variance: dict[str, bool]) -> Any:
    return _in_main(typing.ParamSpec(name, bound=bound, **variance))


@reducer(typing.TypeVarTuple)
def _types(_pickler: StatePickler, made: Any) -> Any:
    if by_name(made):
        return NotImplemented
    return _make_types, (made.__name__,)


def _make_types(name: str) -> Any:
    return _in_main(typing.TypeVarTuple(name))


def _in_main(made: Any) -> Any:
    made.__module__ = "__main__"  # it takes the module of whoever makes it
    return made


@reducer(random.SystemRandom)
def _system_random(_pickler: StatePickler, source: random.SystemRandom) -> Any:
    return type(source), ()  # it has no state; asking for it raises
