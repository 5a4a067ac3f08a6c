"""Which modules are worth importing on a target before the state arrives, and doing so."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import sysconfig
import warnings
from pathlib import Path

#: What a kernel imports by itself.
_KERNELS_OWN = {
    "IPython", "ipykernel", "ipykernel_launcher", "zmq", "tornado", "traitlets", "comm", "debugpy",
    "jupyter_client", "jupyter_core", "devcluster", "cloudpickle", "matplotlib_inline", "pygments",
    "prompt_toolkit", "wcwidth", "jedi", "parso", "decorator", "executing", "asttokens",
    "pure_eval", "stack_data", "psutil", "platformdirs", "dateutil", "six", "pip", "setuptools",
    "pkg_resources", "nest_asyncio", "nest_asyncio2", "packaging", "typing_extensions", "pexpect",
    "ptyprocess", "backcall", "pickleshare", "colorama", "exceptiongroup",
}  # fmt: skip


def is_installed(module: object) -> bool:
    """Whether a module is the standard library's or an installed package's, not the person's."""
    name = str(getattr(module, "__name__", ""))
    if name.partition(".")[0] in sys.stdlib_module_names | {"devcluster"}:
        return True
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if not origin or origin in ("built-in", "frozen"):
        return True  # a namespace package, or part of the interpreter
    return bool(_FOLDERS.intersection(Path(origin).resolve().parents))


#: Where installed packages and the standard library lie.
_FOLDERS = {Path(folder).resolve() for folder in sysconfig.get_paths().values()} - {
    Path(sys.prefix).resolve(),
    Path(sys.base_prefix).resolve(),
}


def modules() -> list[str]:
    """Return the installed top-level modules that this kernel has imported beyond its own.

    Modules of the person's home are not among them: importing runs their code, and
    they come over with the home only.
    """
    found = []
    for name, module in list(sys.modules.items()):
        if "." in name or name.startswith("_") or name in _KERNELS_OWN:
            continue
        if name in sys.stdlib_module_names:
            continue
        if getattr(module, "__spec__", None) is not None and is_installed(module):
            found.append(name)
    return sorted(found)


def warm(names: list[str]) -> list[str]:
    """Import modules quietly and return those that are imported now.

    One that is not installed here, or fails, is left out: that is no reason to stop.
    """
    done = []
    for name in names:
        silence = io.StringIO()
        try:
            with (
                warnings.catch_warnings(),
                contextlib.redirect_stdout(silence),
                contextlib.redirect_stderr(silence),
            ):
                warnings.simplefilter("ignore")
                importlib.import_module(name)
            done.append(name)
        except BaseException:  # noqa: S110  (a module's code may do anything, sys.exit() too)
            pass
    return done
