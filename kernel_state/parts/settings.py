"""Settings of the process and of IPython that a session has changed and that are carried."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import sys
import warnings
from typing import Any

from ..records import Record

#: Extensions that bring no state of the person's: IPython's own, and ours.
_EVERYWHERE = ("storemagic", "IPython.extensions.storemagic", "devcluster.widgets")


def pack(shell: Any, recursion_limit: int) -> dict[str, Any]:
    """Return the settings as plain values.

    Parameters
    ----------
    recursion_limit
        The person's: a save of deep structures runs under a higher one.
    """
    umask = os.umask(0o077)  # there is no other way to read it
    os.umask(umask)
    loggers = logging.Logger.manager.loggerDict
    levels = {
        name: one.level
        for name, one in list(loggers.items())
        if isinstance(one, logging.Logger) and one.level
    }
    return {
        "umask": umask,
        "recursion": recursion_limit,
        "levels": levels,
        "root-level": logging.root.level,
        "logging-disabled": logging.root.manager.disable,
        "filters": _filters(),
        "extensions": extensions(shell),
    }


def _filters() -> bytes | None:
    # By themselves: a category that cannot be carried must not keep the session back.
    with contextlib.suppress(Exception):
        return pickle.dumps(list(warnings.filters), protocol=5)
    return None


def extensions(shell: Any) -> list[str]:
    """Return the IPython extensions that the person has loaded."""
    if shell is None:
        return []
    names = sorted(shell.extension_manager.loaded)
    return [name for name in names if not name.startswith(_EVERYWHERE)]


def records(shell: Any) -> list[Record]:
    """Tell what becomes of what is no variable but was set."""
    told = [
        Record(
            f"(extension {name})",
            "rebuilt",
            0,
            "It is loaded again; settings of its own that were made since are not carried.",
        )
        for name in extensions(shell)
    ]
    if _filters() is None:
        told.append(
            Record(
                "(warning filters)",
                "refused",
                0,
                "A filter's category cannot be pickled.",
                "Run the cell that sets the filters again after the move.",
            )
        )
    return told


def unpack(shell: Any, parts: dict[str, Any]) -> None:
    """Set everything as it was in this process, which is the shell's."""
    os.umask(parts["umask"])
    sys.setrecursionlimit(max(parts["recursion"], sys.getrecursionlimit()))
    names, before = shell.user_ns, dict(shell.user_ns)
    for name in parts["extensions"]:
        _load_extension(shell, name)
    names.clear()  # what an extension put there came over as the person left it
    names.update(before)
    for name, level in parts["levels"].items():
        logging.getLogger(name).setLevel(level)
    logging.root.setLevel(parts["root-level"])
    logging.disable(parts["logging-disabled"])
    if parts["filters"] is not None:  # last: extensions and modules add filters too
        with contextlib.suppress(Exception):
            filters = pickle.loads(parts["filters"])
            warnings.resetwarnings()  # also forgets which warnings were let pass
            warnings.filters[:] = filters  # type: ignore[index]


def _load_extension(shell: Any, name: str) -> None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            shell.extension_manager.load_extension(name)
    except Exception as error:
        print(f"The IPython extension {name} could not be loaded again: {error}", file=sys.stderr)
