"""PyTorch tensors: storages shared as they were; those of devices go through host memory.

Nothing here imports torch unless the kernel has: see :func:`.pickler.for_library`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..loading import current
from ..pickler import LARGE, StatePickler, for_library, reducer
from ..records import Refused


def _torch() -> Any:
    """Return torch, imported if a capture on load asks for it; no stubs are asked for."""
    return importlib.import_module("torch")


@for_library("torch")
def install() -> None:
    """Install the reducers."""
    torch = _torch()

    reducer(torch.Tensor)(reduce_tensor)
    reducer(_Storage)(_reduce_storage)


class _Storage:
    """Stands for a storage, of which torch makes a new Python object at each look."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage


class _Nominal:
    """Memory that a plan only counts."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def reduce_tensor(pickler: StatePickler, tensor: Any) -> Any:
    """Reduce a tensor as a window on its storage."""
    torch = _torch()

    if tensor.grad_fn is not None:
        raise Refused(
            "a tensor within an autograd graph",
            "Keep x.detach() instead, or run backward() and compute it again after the move.",
            tensor,
        )
    plain = tensor.layout == torch.strided and not tensor.is_quantized
    if not plain or tensor.is_conj() or tensor.is_neg():
        return NotImplemented
    if tensor._backward_hooks:
        pickler.note("Hooks on a tensor's gradient are not carried.")
    storage = tensor.untyped_storage()
    key = ("storage", storage._cdata)
    if key not in pickler.memory:
        pickler.memory[key] = _Storage(storage)
    shape = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    arguments = (pickler.memory[key], tensor.dtype, shape, tensor.requires_grad, type(tensor))
    state = {"grad": tensor.grad if tensor.is_leaf else None, "dict": dict(tensor.__dict__)}
    return _tensor, arguments, state, None, None, _fill_tensor


def _tensor(storage: Any, dtype: Any, shape: Any, requires_grad: bool, kind: type) -> Any:
    torch = _torch()

    plain = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, *shape)
    if kind is torch.Tensor:
        return plain.requires_grad_(requires_grad)
    return torch.Tensor._make_subclass(kind, plain, requires_grad)


def _fill_tensor(tensor: Any, state: dict[str, Any]) -> None:
    tensor.__dict__.update(state["dict"])
    if state["grad"] is not None:
        tensor.grad = state["grad"]


def _reduce_storage(pickler: StatePickler, stand_in: _Storage) -> Any:
    storage = stand_in.storage
    device, size = str(storage.device), storage.nbytes()
    if device == "meta":
        return _storage, (size, device, None)
    if device != "cpu":
        pickler.note(
            f"It is on {device} now; it goes through host memory, onto the device that the target "
            "has."
        )
    content: Any
    if pickler.sink.dry:
        content = pickler.sink.buffer(_Nominal(size)) if size >= LARGE else bytes(size)
    elif size >= LARGE:
        content = pickler.sink.buffer(memoryview(host_memory(storage)))
    else:
        content = host_memory(storage).tobytes()
    return _storage, (size, device, content)


def host_memory(storage: Any) -> Any:
    """Return a storage's bytes as a NumPy array: a view on the CPU, a copy from elsewhere."""
    torch = _torch()

    on_host = storage if storage.device.type == "cpu" else storage.cpu()
    return torch.empty(0, dtype=torch.uint8).set_(on_host).numpy()


def _storage(size: int, device: str, content: Any) -> Any:
    import numpy as np

    torch = _torch()

    if device == "meta":
        return torch.empty(size, dtype=torch.uint8, device="meta").untyped_storage()
    storage = torch.UntypedStorage(size)
    if isinstance(content, bytes):
        if content:
            host_memory(storage)[:] = np.frombuffer(content, np.uint8)
    else:
        current().buffers.read_into(memoryview(host_memory(storage)))
    place = place_for(device)
    return storage if place == "cpu" else storage.to(device=torch.device(place))


def place_for(device: str) -> str:
    """Return where what was on a device goes: the same, else the first of its kind, else cpu."""
    torch = _torch()

    kind, _, index = device.partition(":")
    module = getattr(torch, kind, None)
    if kind == "cpu" or module is None or not module.is_available():
        return "cpu"
    return device if int(index or 0) < module.device_count() else f"{kind}:0"
