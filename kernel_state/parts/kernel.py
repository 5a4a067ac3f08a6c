"""What a kernel is besides its variables: history, environment, folder, random numbers."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import random
import sys
from collections.abc import Iterator
from typing import Any

from ..loading import Loading
from ..types import torch
from . import settings
from .history import reopen_history

#: Environment variables that belong to a host or a server, not to the person.
_HOSTS_OWN = (
    "JUPYTERHUB_", "JUPYTER_SERVER", "JPY_", "DEVCLUSTER_", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "NVIDIA_", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "KUBERNETES_", "HOSTNAME", "INVOCATION_ID",
)  # fmt: skip

#: Environment and sys.path as they were before the person changed them, once recorded.
_baseline: dict[str, Any] = {}


def record_baseline() -> None:
    """Remember environment and ``sys.path`` as they are before the person's first cell."""
    _baseline.setdefault("environ", dict(os.environ))
    _baseline.setdefault("path", list(sys.path))


def _initial_environment() -> dict[str, str] | None:
    if "environ" in _baseline:
        environment: dict[str, str] = _baseline["environ"]
        return environment
    try:
        # What the process was started with; Linux keeps it whatever is changed later.
        with open("/proc/self/environ", "rb") as file:
            pairs = [pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair]
    except OSError:
        return None
    return {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}


def _is_hosts_own(name: str) -> bool:
    return name.startswith(_HOSTS_OWN)


def environment_changes() -> dict[str, str | None]:
    """Return what was changed in the environment since the start; None for what was removed."""
    before = _initial_environment()
    if before is None:
        return {}
    now = dict(os.environ)
    changes: dict[str, str | None] = {
        name: value for name, value in now.items() if before.get(name) != value
    }
    changes |= {name: None for name in before if name not in now}
    return {name: value for name, value in changes.items() if not _is_hosts_own(name)}


def pack_place() -> dict[str, Any]:
    """Return where the kernel works: folder, path, environment. Loaded before any variable."""
    parts: dict[str, Any] = {
        "environ": environment_changes(),
        "path": list(map(str, sys.path)),
        "path-before": _baseline.get("path"),
    }
    with contextlib.suppress(OSError):  # a folder that was deleted
        parts["cwd"] = os.getcwd()
    return parts


def pack_kernel(session: Any, modules: set[str], recursion_limit: int) -> dict[str, Any]:
    """Return the rest of the kernel's own state, as plain values that always pickle."""
    parts: dict[str, Any] = {
        "submodules": _submodules(modules),
        "random": random.getstate(),
        "order": list(session.variables()),
    }
    if session.shell is not None:
        parts["settings"] = settings.pack(session.shell, recursion_limit)
    legacy = sys.modules.get("numpy.random.mtrand")
    if legacy is not None:
        parts["numpy-random"] = legacy._rand.get_state()
    parts["torch-random"] = torch.pack_random()
    if session.history is not None:
        parts["history"] = _pack_history(session)
    return parts


def _submodules(modules: set[str]) -> list[str]:
    """Return loaded submodules of the packages that the session names."""
    tops = {name.partition(".")[0] for name in modules}
    return [
        name
        for name, module in list(sys.modules.items())
        if "." in name
        and name.partition(".")[0] in tops
        and getattr(module, "__spec__", None) is not None
    ]


def _pack_history(session: Any) -> dict[str, Any]:
    shell, history = session.shell, session.history
    hook = shell.displayhook
    with contextlib.suppress(Exception):
        history.writeout_cache()  # so that the database on disk has every cell
    by_object = {id(value): number for number, value in history.output_hist.items()}
    return {
        "count": shell.execution_count,
        "parsed": list(history.input_hist_parsed),
        "raw": list(history.input_hist_raw),
        "inputs": [getattr(history, name) for name in ("_i00", "_i", "_ii", "_iii")],
        "reprs": dict(history.output_hist_reprs),
        "displays": _picklable(dict(getattr(history, "outputs", {}))),
        "folders": [str(folder) for folder in history.dir_hist],
        "lasts": [by_object.get(id(getattr(hook, name, ""))) for name in ("_", "__", "___")],
        "unders": [name in session.namespace for name in ("_", "__", "___")],
        "session": history.session_number,
        "hidden": [name for name in session.variables() if name in shell.user_ns_hidden],
    }


def _picklable(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        return None


@contextlib.contextmanager
def unpacked_place(parts: dict[str, Any]) -> Iterator[None]:
    """Set folder, path and environment, and set them back if what follows fails."""
    environment, path = dict(os.environ), list(sys.path)
    folder = None
    with contextlib.suppress(OSError):
        folder = os.getcwd()
    try:
        _unpack_place(parts)
        yield
    except BaseException:
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
        sys.path[:] = path
        if folder is not None:
            os.chdir(folder)
        raise


def _unpack_place(parts: dict[str, Any]) -> None:
    for name, value in parts["environ"].items():
        if _is_hosts_own(name):
            continue
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _unpack_path(parts["path"], parts["path-before"])
    with contextlib.suppress(OSError):
        os.chdir(parts.get("cwd", "."))


def _unpack_path(path: list[str], before: list[str] | None) -> None:
    known = set(sys.path)
    first = next((at for at, entry in enumerate(path) if entry in known), len(path))
    new = [entry for entry in path if entry not in known]
    sys.path[:0] = [entry for entry in path[:first] if entry in new]
    sys.path += [entry for entry in path[first:] if entry in new]
    for entry in before or ():
        if entry not in path and entry in sys.path:
            sys.path.remove(entry)


def unpack_after(load: Loading, parts: dict[str, Any], outputs: dict[int, Any]) -> None:
    """Set the rest: submodules, random numbers, history, settings."""
    for name in parts["submodules"]:
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    random.setstate(parts["random"])
    if "numpy-random" in parts:
        with contextlib.suppress(ImportError):
            from numpy.random import mtrand

            mtrand._rand.set_state(parts["numpy-random"])
    torch.unpack_random(parts["torch-random"])
    if load.session.history is not None and "history" in parts:
        _unpack_history(load.session, parts["history"], outputs)
    if load.session.shell is not None and "settings" in parts:
        settings.unpack(load.session.shell, parts["settings"])


def _unpack_history(session: Any, parts: dict[str, Any], outputs: dict[int, Any]) -> None:
    shell, history, names = session.shell, session.history, session.namespace
    history.input_hist_parsed[:] = parts["parsed"]
    history.input_hist_raw[:] = parts["raw"]
    history.dir_hist[:] = parts["folders"]
    history.output_hist.clear()
    history.output_hist.update(outputs)
    history.output_hist_reprs.clear()
    history.output_hist_reprs.update(parts["reprs"])
    if parts["displays"] is not None and hasattr(history, "outputs"):
        history.outputs.clear()
        history.outputs.update(pickle.loads(parts["displays"]))
    for name, value in zip(("_i00", "_i", "_ii", "_iii"), parts["inputs"], strict=True):
        setattr(history, name, value)
    own: dict[str, Any] = {f"_i{n}": raw for n, raw in enumerate(parts["raw"]) if n}
    own |= {"_i": history._i, "_ii": history._ii, "_iii": history._iii}
    own |= {f"_{n}": value for n, value in outputs.items()}
    lasts = zip(("_", "__", "___"), parts["lasts"], parts["unders"], strict=True)
    for name, number, present in lasts:
        value = outputs.get(number, "")
        setattr(shell.displayhook, name, value)
        if present:
            own[name] = value
    own = {name: value for name, value in own.items() if name not in names}
    names.update(own)
    shell.user_ns_hidden.update(own)
    hidden = parts["hidden"]
    shell.user_ns_hidden.update({name: names[name] for name in hidden if name in names})
    shell.execution_count = parts["count"]
    reopen_history(shell, parts["session"])
