"""Objects that answer for others: their state is set without asking them.

A class with a ``__getattr__`` is asked for ``__setstate__`` by pickle before it has any state,
and then recurses without end, or answers with what is no such method.
"""

from __future__ import annotations

from typing import Any

from ..pickler import StatePickler, reducer_where


def _delegates(kind: Any) -> bool:
    plain: Any = object
    return (
        hasattr(kind, "__getattr__")
        and not hasattr(kind, "__setstate__")
        and kind.__reduce_ex__ is plain.__reduce_ex__
        and kind.__reduce__ is plain.__reduce__
    )


@reducer_where(_delegates)
def _reduce(_pickler: StatePickler, obj: Any) -> Any:
    reduced: Any = object.__reduce_ex__(obj, 4)
    make, arguments, *rest = reduced
    state, items, pairs = [*rest, None, None, None][:3]
    return make, arguments, state, items, pairs, _set_state


def _set_state(obj: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        object.__getattribute__(obj, "__dict__").update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)
