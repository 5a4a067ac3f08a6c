"""Progress bars of tqdm: they go on from where they were, in the output of the next cell."""

from __future__ import annotations

import importlib
from typing import Any

from ..pickler import StatePickler, for_library, reducer


@for_library("tqdm")
def install() -> None:
    """Install the reducers."""
    reducer(importlib.import_module("tqdm.std").tqdm)(_reduce_bar)
    reducer(importlib.import_module("tqdm.utils").ObjectWrapper)(_reduce_wrapper)


def _reduce_bar(pickler: StatePickler, bar: Any) -> Any:
    kind = type(bar)
    # Those that are drawn share the screen's lines; a bar that is closed has left them.
    drawn = bar in getattr(kind, "_instances", ())
    if drawn:
        pickler.note("The bar goes on in the output of the cell that moves it next.")
    return _make_bar, (kind, drawn), dict(vars(bar)), None, None, _fill_bar


def _make_bar(kind: Any, drawn: bool) -> Any:
    return kind.__new__(kind) if drawn else object.__new__(kind)


def _fill_bar(bar: Any, state: dict[str, Any]) -> None:
    vars(bar).update(state)


def _reduce_wrapper(_pickler: StatePickler, wrapper: Any) -> Any:
    # It hands all questions on to the stream that it wraps, that for its state too.
    state = dict(object.__getattribute__(wrapper, "__dict__"))
    return object.__new__, (type(wrapper),), state, None, None, _fill_wrapper


def _fill_wrapper(wrapper: Any, state: dict[str, Any]) -> None:
    object.__getattribute__(wrapper, "__dict__").update(state)
