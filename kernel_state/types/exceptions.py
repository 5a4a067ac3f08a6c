"""Exceptions, with what they were raised from, and without the frames of their traceback."""

from __future__ import annotations

import types
from typing import Any

from ..pickler import StatePickler, reducer


@reducer(BaseException)
def reduce_exception(pickler: StatePickler, error: BaseException) -> Any:
    """Reduce an exception, its cause and its context; its own ``__init__`` is not run again."""
    reduced = error.__reduce_ex__(4)
    if not isinstance(reduced, tuple):
        return NotImplemented
    make, arguments, *rest = reduced
    if error.__traceback__ is not None:
        pickler.note("An exception comes over without its traceback.")
    if len(rest) > 1:  # items of a list or a dict, or a setter of its own
        return NotImplemented
    if make is type(error) and not _is_own(make, "__reduce__"):
        make, arguments = _make, (make, arguments)
    context = (error.__cause__, error.__context__, error.__suppress_context__)
    return make, arguments, (rest[0] if rest else None, context), None, None, _fill


def _make(kind: Any, arguments: tuple[Any, ...]) -> Any:
    # What Python code put between an exception and its base may want other arguments than
    # those that the exception keeps.
    new = next(base for base in kind.__mro__ if _is_native(base, "__new__"))
    init = next(base for base in kind.__mro__ if _is_native(base, "__init__"))
    error = new.__new__(kind, *arguments)
    init.__init__(error, *arguments)
    return error


def _is_native(base: type, name: str) -> bool:
    return name in vars(base) and not isinstance(
        vars(base)[name], types.FunctionType | staticmethod
    )


def _is_own(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name), types.FunctionType)


def _fill(error: Any, state: tuple[Any, tuple[Any, Any, bool]]) -> None:
    own, (cause, context, suppressed) = state
    if own is not None:
        error.__setstate__(own)
    error.__cause__, error.__context__ = cause, context
    error.__suppress_context__ = suppressed
