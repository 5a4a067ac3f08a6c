"""NumPy arrays: large ones out of band, views as views of the same memory."""

from __future__ import annotations

import array
import math
import sys
import warnings
from typing import Any

from ..loading import current
from ..pickler import LARGE, StatePickler, for_library, reducer
from ..records import Refused
from ..stream.incoming import CaptureMemory
from . import torch

#: Objects other than arrays whose memory an array can be a view of, and that can be carried.
_EXPORTERS = (bytes, bytearray, array.array)


@for_library("numpy")
def install() -> None:
    """Install the reducers."""
    import numpy as np

    reducer(np.ndarray)(reduce_array)
    reducer(np.memmap)(_refuse_memmap)
    reducer(_Plain)(lambda pickler, plain: reduce_memory(pickler, plain.array))
    reducer(np.finfo, np.iinfo)(lambda _, limits: (type(limits), (limits.dtype,)))


def _refuse_memmap(_pickler: StatePickler, mapped: Any) -> Any:
    raise Refused(
        f"an array mapped to the file {getattr(mapped, 'filename', None)}",
        "Delete it before the move and map the file again after it.",
        mapped,
    )


class _Plain:
    """Stands for an array of a subclass, as a plain array."""

    def __init__(self, of: Any) -> None:
        self.array = of


def reduce_array(pickler: StatePickler, of: Any) -> Any:
    """Reduce an array; one of a subclass with pickling of its own is left to that."""
    import numpy as np

    kind = type(of)
    if kind is np.ndarray:
        return reduce_memory(pickler, of)
    if not _pickles_as_array(kind) or of.dtype.char == "T":
        return NotImplemented
    state = dict(getattr(of, "__dict__", {}))
    return _as_subclass, (_Plain(of), kind), state, None, None, _set_dict


def _pickles_as_array(kind: Any) -> bool:
    import numpy as np

    plain: Any = np.ndarray
    return kind.__reduce__ is plain.__reduce__ and kind.__reduce_ex__ is plain.__reduce_ex__


def _as_subclass(plain: Any, kind: type) -> Any:
    return plain.view(kind)


def _set_dict(obj: Any, state: dict[str, Any]) -> None:
    if state:
        obj.__dict__.update(state)


def reduce_memory(pickler: StatePickler, of: Any) -> Any:
    """Reduce an array by its memory: as a view of what owns it, or as the owner."""
    if of.dtype.hasobject or of.dtype.char == "T":
        return _reduce_objects(of)
    owner = _owner(of)
    if owner is not None:
        offset = _address(of) - _address(owner)
        arguments = (owner, offset, of.shape, of.strides, of.dtype, bool(of.flags.writeable))
        return _view, arguments
    if of.base is not None and of.size and not isinstance(_exporter(of), CaptureMemory):
        pickler.note(f"An array is a copy now, and no more a view of a {type(of.base).__name__}.")
    return _reduce_owner(pickler, of)


def _owner(of: Any) -> Any:
    """Return what owns the memory of a view, if views of it can be made again."""
    import numpy as np

    owner = _exporter(of)
    if owner is None or of.size == 0 or isinstance(owner, CaptureMemory):
        return None
    if isinstance(owner, _EXPORTERS):
        return owner if len(owner) else None
    if _is_host_tensor(owner):
        return owner
    if not isinstance(owner, np.ndarray):
        _refuse_foreign(owner)
        return None
    if _pickles_as_array(type(owner)):
        flags = owner.flags
        if flags.c_contiguous or flags.f_contiguous:
            return None if owner.dtype.hasobject or owner.dtype.char == "T" else owner
    return None


def _exporter(of: Any) -> Any:
    owner = of.base
    while isinstance(owner, memoryview) or type(owner).__name__ == "DummyArray":
        # NumPy's DummyArray stands between an array and a view of it with strides of its own.
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    return owner


def _is_host_tensor(owner: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(owner, torch.Tensor) and owner.device.type == "cpu"


def _refuse_foreign(owner: Any) -> None:
    if type(owner).__module__ == "mmap":
        raise Refused(
            "an array in memory that is mapped to a file or shared with other processes",
            "Copy it (numpy.array(x)) or delete it before the move.",
            owner,
        )


def _address(of: Any) -> int:
    import numpy as np

    if not isinstance(of, np.ndarray):
        of = _bytes_of(of)
    address: int = of.__array_interface__["data"][0]
    return address


def _bytes_of(owner: Any) -> Any:
    """Return the memory of an owner as a flat array of bytes, not copied."""
    import numpy as np

    if _is_host_tensor(owner):
        return torch.host_memory(owner.untyped_storage())
    if not isinstance(owner, np.ndarray):
        return np.frombuffer(owner, np.uint8)
    plain = owner.view(np.ndarray)
    if not plain.flags.c_contiguous:
        plain = plain.T
    return plain.reshape(-1).view(np.uint8)


def _view(
    owner: Any, offset: int, shape: tuple[int, ...], strides: Any, dtype: Any, writeable: bool
) -> Any:
    import numpy as np

    view = np.ndarray(shape, dtype, _bytes_of(owner), offset, strides)
    if view.flags.writeable != writeable:
        current().finally_do.append(lambda: view.setflags(write=writeable))
    return view


def _reduce_owner(pickler: StatePickler, of: Any) -> Any:
    import numpy as np

    if not (of.flags.c_contiguous or of.flags.f_contiguous):
        # Axes in the order of their strides: a copy in "keep" order is contiguous that way.
        axes = tuple(sorted(range(of.ndim), key=lambda axis: -of.strides[axis]))
        turned = of.transpose(axes)
        if not turned.flags.c_contiguous:
            turned = np.ascontiguousarray(turned)
        back = tuple(int(axis) for axis in np.argsort(axes))
    else:
        turned, back = of, None
    order = "C" if turned.flags.c_contiguous else "F"
    writeable = bool(of.flags.writeable)
    content: Any
    if turned.nbytes >= LARGE:
        content = pickler.sink.buffer(memoryview(_bytes_of(turned)))
    else:
        content = turned.tobytes(order)
    return _array, (turned.dtype, turned.shape, order, writeable, back, content)


def _array(
    dtype: Any, shape: tuple[int, ...], order: Any, writeable: bool, back: Any, content: Any
) -> Any:
    import numpy as np

    if isinstance(content, bytes):
        array = np.empty(shape, dtype, order)
        if content:
            _bytes_of(array)[:] = np.frombuffer(content, np.uint8)
    else:
        array = _large_array(dtype, shape, order)
    if back is not None:
        array = array.transpose(back)
    if not writeable:
        # Views of it that may be written to are made before.
        current().finally_do.append(lambda: array.setflags(write=False))
    return array


def _large_array(dtype: Any, shape: tuple[int, ...], order: Any) -> Any:
    import numpy as np

    memory = current().buffers.take(math.prod(shape) * dtype.itemsize)
    if not (isinstance(memory, np.ndarray) and memory.flags.owndata):
        return np.ndarray(shape, dtype, memory, order=order)
    # The array that received the bytes becomes the one meant: it owns its memory, so that
    # its ``resize`` works.
    array: Any = memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there is no other way
        array.dtype = dtype
        array.shape = shape if order == "C" else shape[::-1]
        if order != "C":
            array.shape, array.strides = shape, array.strides[::-1]
    return array


def _reduce_objects(of: Any) -> Any:
    import numpy as np

    owner = of.base
    same = type(owner) is np.ndarray and owner.dtype == of.dtype == np.dtype(object)
    if not same or not (owner.flags.c_contiguous or owner.flags.f_contiguous) or not of.size:
        return NotImplemented
    start, rest = divmod(_address(of) - _address(owner), of.itemsize)
    if rest:
        return NotImplemented
    return _view_of_objects, (owner, start, of.shape, of.strides)


def _view_of_objects(owner: Any, start: int, shape: Any, strides: Any) -> Any:
    import numpy as np

    flat = (owner if owner.flags.c_contiguous else owner.T).reshape(-1)
    return np.lib.stride_tricks.as_strided(flat[start:], shape, strides)


@reducer(memoryview)
def reduce_memoryview(_pickler: StatePickler, view: memoryview) -> Any:
    """Reduce a memoryview as one of the same object."""
    owner = view.obj
    numpy = sys.modules.get("numpy")
    if view.nbytes and view.contiguous and isinstance(owner, _EXPORTERS) and numpy is not None:
        flat = numpy.frombuffer(view.cast("B") if view.ndim else view, numpy.uint8)
        arguments = (owner, _address(flat) - _address(owner), view.nbytes, view.format, view.shape)
        return _memoryview, (*arguments, view.readonly)
    whole = isinstance(owner, _EXPORTERS) and view.contiguous
    if whole and view.nbytes == memoryview(owner).nbytes:
        return _memoryview, (owner, 0, view.nbytes, view.format, view.shape, view.readonly)
    raise Refused(
        f"a memoryview of {type(owner).__name__}",
        "Keep the object itself, and make the view again after the move.",
        view,
    )


def _memoryview(
    owner: Any, start: int, size: int, form: str, shape: tuple[int, ...], readonly: bool
) -> memoryview:
    view = memoryview(owner).cast("B")[start : start + size]
    if form != "B" or len(shape) != 1:
        view = view.cast(form, shape)  # type: ignore[call-overload]
    return view.toreadonly() if readonly else view
