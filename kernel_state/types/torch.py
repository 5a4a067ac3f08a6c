"""PyTorch tensors: storages shared as they were; those of devices go through host memory.

The devices of the source become those of the target, distinct ones distinct as far as it has
as many: the same one if it is there and not taken, else the first that is not, else the CPU.

Nothing here imports torch unless the kernel has: see :func:`.pickler.for_library`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from ..loading import current
from ..pickler import LARGE, StatePickler, for_library, reducer, refuse
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
    reducer(torch.UntypedStorage)(_reduce_untyped)
    reducer(torch.storage.TypedStorage)(_reduce_typed)
    reducer(torch.finfo, torch.iinfo)(_reduce_limits)
    reducer(torch.device)(_reduce_device)
    reducer(torch.Generator)(_reduce_generator)
    again = "Delete it before the move, or make it again after it."
    for what, kinds in {
        "a stream of work on a device": (torch.Stream, torch.cuda.Stream),
        "an event on a device": (torch.Event, torch.cuda.Event),
        "a graph of work on a device": (torch.cuda.CUDAGraph,),
    }.items():
        reducer(*kinds)(refuse(what, again))
    reducer(torch.jit.ScriptModule, torch.jit.ScriptFunction)(
        refuse("TorchScript code", "Save it before the move (torch.jit.save) and load it after it.")
    )


@for_library("torch.utils.data.dataloader")
def _install_loaders() -> None:
    loaders = importlib.import_module("torch.utils.data.dataloader")
    reducer(loaders.DataLoader)(_reduce_loader)
    reducer(loaders._BaseDataLoaderIter)(
        refuse(
            "an iterator of a DataLoader that is under way",
            "Let its epoch end and delete it; the DataLoader itself comes over.",
        )
    )


def _reduce_loader(pickler: StatePickler, loader: Any) -> Any:
    state = dict(vars(loader))
    if state.get("_iterator") is not None:  # persistent workers, which begin each epoch anew
        state["_iterator"] = None
        pickler.note("The workers of a DataLoader start anew with its next epoch.")
    return object.__new__, (type(loader),), state, None, None, _fill_loader


def _fill_loader(loader: Any, state: dict[str, Any]) -> None:
    vars(loader).update(state)


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
    lazy = torch.nn.parameter.is_lazy(tensor)
    if lazy or tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch on what of its own it means to drop
            return tensor.__reduce_ex__(4)
    for bit, lazy in (("conj", tensor.is_conj()), ("_neg_view", tensor.is_neg())):
        if lazy:  # a view that computes: the same, of the view that does not
            return _lazily, (bit, getattr(torch, bit)(tensor.detach()), tensor.requires_grad)
    storage = tensor.untyped_storage()
    if storage.nbytes() and not storage.data_ptr() and tensor.device.type != "meta":
        raise Refused(
            f"a tensor without memory of its own ({type(tensor).__name__})",
            "Keep it as a plain tensor.",
            tensor,
        )
    shape = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    arguments = (
        _stand_in(pickler, storage),
        tensor.dtype,
        shape,
        tensor.requires_grad,
        type(tensor),
    )
    state = {"grad": tensor.grad if tensor.is_leaf else None, "dict": dict(tensor.__dict__)}
    state["hooks"] = {name: hooks for name in _HOOKS if (hooks := getattr(tensor, name, None))}
    return _tensor, arguments, state, None, None, _fill_tensor


def _stand_in(pickler: StatePickler, storage: Any) -> _Storage:
    key = ("storage", storage._cdata)
    if key not in pickler.memory:
        pickler.memory[key] = _Storage(storage)
    stand_in: _Storage = pickler.memory[key]
    return stand_in


def _reduce_untyped(pickler: StatePickler, storage: Any) -> Any:
    return _same, (_stand_in(pickler, storage),)


def _same(storage: Any) -> Any:
    return storage


def _reduce_typed(pickler: StatePickler, storage: Any) -> Any:
    return _typed, (_stand_in(pickler, storage._untyped_storage), storage.dtype)


def _typed(storage: Any, dtype: Any) -> Any:
    return _torch().storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _reduce_limits(_pickler: StatePickler, limits: Any) -> Any:
    return type(limits), (getattr(_torch(), limits.dtype),)


#: Where a tensor keeps what is to be called with its gradient.
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _lazily(bit: str, plain: Any, requires_grad: bool) -> Any:
    return getattr(_torch(), bit)(plain).requires_grad_(requires_grad)


def _tensor(storage: Any, dtype: Any, shape: Any, requires_grad: bool, kind: type) -> Any:
    torch = _torch()

    plain = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, *shape)
    if kind is torch.Tensor:
        return plain.requires_grad_(requires_grad)
    return torch.Tensor._make_subclass(kind, plain, requires_grad)


def _fill_tensor(tensor: Any, state: dict[str, Any]) -> None:
    tensor.__dict__.update(state["dict"])
    for name, hooks in state["hooks"].items():
        setattr(tensor, name, hooks)
    if state["grad"] is not None:
        tensor.grad = state["grad"]


def _reduce_storage(pickler: StatePickler, stand_in: _Storage) -> Any:
    storage = stand_in.storage
    device, size = device_of(storage), storage.nbytes()
    if device == "meta":
        return _storage, (size, device, None)
    if device != "cpu":
        pickler.note(
            f"It is on {device} now; it goes through host memory, onto the device that the target "
            "has."
        )
    elif storage.is_shared():
        pickler.note("It is not shared with other processes any more.")
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
    return storage if place == "cpu" else on_device(storage, place)


def device_of(storage: Any) -> str:
    """Return the name of the device that a storage is on."""
    return str(storage.device)


def on_device(storage: Any, place: str) -> Any:
    """Return a copy of a host's storage on a device."""
    return storage.to(device=_torch().device(place))


def _reduce_device(pickler: StatePickler, device: Any) -> Any:
    if device.type not in ("cpu", "meta"):
        pickler.note(f"{device} becomes the device that the target has.")
    return _device, (str(device),)


def _device(name: str) -> Any:
    return _torch().device(name if name == "meta" else place_for(name))


def _reduce_generator(pickler: StatePickler, generator: Any) -> Any:
    torch = _torch()
    if generator is torch.default_generator:
        return getattr, (torch, "default_generator")
    if generator.device.type != "cpu":
        pickler.note(_OF_DEVICE)
    state = generator.get_state().numpy().tobytes()
    return _generator, (str(generator.device), generator.initial_seed(), state)


#: Of generators: the state of one kind of device says nothing to another kind.
_OF_DEVICE = "A random generator of a device begins at its seed where the target has no such one."


def _generator(device: str, seed: int, state: bytes) -> Any:
    torch = _torch()
    place = place_for(device)
    generator = torch.Generator(place).manual_seed(seed)
    if place.partition(":")[0] == device.partition(":")[0]:
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    return generator


def pack_random() -> dict[str, bytes]:
    """Return the states of the generators that torch has by itself, by device."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return {}
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # asking would initialise it
        for index in range(torch.cuda.device_count()):
            states[f"cuda:{index}"] = torch.cuda.get_rng_state(index)
    return {device: state.cpu().numpy().tobytes() for device, state in states.items()}


def unpack_random(states: dict[str, bytes]) -> None:
    """Set the states of torch's own generators, on the devices that there are."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    used = current().memory.get(("devices", "cuda"), {})
    done = set()
    # Those with tensors first: where several devices become one, it has one state.
    for device in sorted(states, key=lambda device: device not in used):
        place = place_for(device)
        if place in done or (place == "cpu") != (device == "cpu"):
            continue
        done.add(place)
        memory = torch.frombuffer(bytearray(states[device]), dtype=torch.uint8)
        if place == "cpu":
            torch.set_rng_state(memory)
        else:
            torch.cuda.set_rng_state(memory, place)


def place_for(device: str) -> str:
    """Return where what was on a device goes in the load in progress."""
    torch = _torch()

    kind, _, index = device.partition(":")
    module = getattr(torch, kind, None)
    if kind == "cpu" or module is None or not module.is_available():
        return "cpu"
    if not index:
        return kind
    taken: dict[str, str] = current().memory.setdefault(("devices", kind), {})
    if device not in taken:
        there = [f"{kind}:{number}" for number in range(module.device_count())]
        free = [place for place in there if place not in taken.values()]
        if device in free:
            taken[device] = device
        elif free:
            taken[device] = free[0]
        else:  # in turn, so that none gets all the rest
            taken[device] = there[len(taken) % len(there)]
    return taken[device]
