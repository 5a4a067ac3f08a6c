"""ctypes: plain structures, arrays and numbers by their bytes; what holds addresses is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, cast

from ..pickler import StatePickler, reducer, refuse
from ..records import Refused

_AGAIN = "Keep its values in Python objects, and make it again after the move."
#: The common base of ctypes' structures, arrays, pointers and functions has no name there.
_Data = cast(type, ctypes.Structure.__base__)
#: The codes of simple types that hold addresses: pointers to text, void, and objects.
_ADDRESSES = "zZPO"

reducer(ctypes.CDLL, ctypes.LibraryLoader)(
    refuse("a native library (ctypes)", "Load it again after the move.")
)


@reducer(_Data)
def _data(_pickler: StatePickler, data: Any) -> Any:
    kind = type(data)
    if any(holds_addresses(kind)) or not isinstance(
        data, ctypes.Structure | ctypes.Union | ctypes.Array | ctypes._SimpleCData
    ):
        raise Refused("native memory with addresses in it (ctypes)", _AGAIN, data)
    if data._b_base_ is not None or data._b_needsfree_ == 0:
        raise Refused("a part of other native memory (ctypes)", _AGAIN, data)
    state = dict(getattr(data, "__dict__", {}))
    return _make_data, (kind, bytes(memoryview(data).cast("B"))), state, None, None, _update


def _make_data(kind: Any, content: bytes) -> Any:
    return kind.from_buffer_copy(content)


def _update(data: Any, attributes: dict[str, Any]) -> None:
    if attributes:
        data.__dict__.update(attributes)


def holds_addresses(kind: Any) -> Iterator[bool]:
    """Yield for each part of a type of native memory whether it is an address."""
    if issubclass(kind, ctypes.Array):
        yield from holds_addresses(kind._type_)
    elif issubclass(kind, ctypes.Structure | ctypes.Union):
        for base in kind.__mro__:
            for field in vars(base).get("_fields_", ()):
                yield from holds_addresses(field[1])
    else:
        yield not issubclass(kind, ctypes._SimpleCData) or str(kind._type_) in _ADDRESSES


def reduce_type(kind: Any) -> Any:
    """Reduce a type of native memory that the notebook defines, or refuse it."""
    if issubclass(kind, ctypes.Array) and not vars(kind).get("__annotations__"):
        return _make_array, (kind._type_, kind._length_)
    if not issubclass(kind, ctypes.Structure | ctypes.Union) or "_fields_" not in vars(kind):
        raise Refused("a type of native memory (ctypes)", "Define it again after the move.", kind)
    given = {
        name: value
        for name, value in vars(kind).items()
        if name not in ("__dict__", "__weakref__") and not _is_field(value)
    }
    fields = given.pop("_fields_")
    layout = {name: given.pop(name) for name in ("_pack_", "_anonymous_") if name in given}
    start = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    arguments = (kind.__name__, kind.__bases__, start)
    return _make_type, arguments, (layout, fields, given), None, None, _fill_type


def _is_field(value: Any) -> bool:
    return type(value).__name__ == "CField"


def _make_array(kind: Any, length: int) -> Any:
    return kind * length


def _make_type(name: str, bases: tuple[type, ...], start: dict[str, str]) -> Any:
    meta: Any = type(bases[0])  # of ctypes' own, which has no name to find it by
    return meta(name, bases, dict(start))


def _fill_type(kind: Any, state: tuple[dict[str, Any], Any, dict[str, Any]]) -> None:
    layout, fields, given = state
    for name, value in [*layout.items(), ("_fields_", fields), *given.items()]:
        if name not in ("__module__", "__qualname__"):
            setattr(kind, name, value)
