"""How every workspace sees its home at one and the same path, whatever host it is on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from devcluster.core.errors import BadRequest

from . import launcher

MODES = ("auto", "namespace", "link")


class Seen(NamedTuple):
    """Where the server sees its home, and what the launcher has to do for it."""

    path: Path
    #: What to mount where, or None.
    mount: tuple[str, str] | None
    #: A lock that says that this host's home is in use, or "".
    in_use: str


def can_mount() -> bool:
    """Tell whether this process may show a folder at another path to a child of its own."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        code = "import sys, runpy; runpy.run_path(sys.argv[1])['enter_namespace'](*sys.argv[2:])"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, launcher.__file__, one, two],
            capture_output=True,
            check=False,
        )
        return done.returncode == 0


def choose(mode: str) -> str:
    """Return ``namespace`` or ``link`` for the trait ``isolate``."""
    if mode not in MODES:
        raise BadRequest(f"isolate may be {', '.join(MODES)}, not {mode!r}.")
    if mode == "link":
        return mode
    if can_mount():
        return "namespace"
    if mode == "namespace":
        raise BadRequest(
            "isolate is 'namespace', but this process may not mount. Run the agent as root, "
            "allow user namespaces (sysctl user.max_user_namespaces), or use 'link'."
        )
    return "link"


class Places:
    """The folder under which all homes appear.

    With namespaces, each workspace has a private mount there. With links there is one
    link a workspace: it leads to the home that is in use, so a standby server, whose
    home is not in use yet, sees its own folder at its real path until it takes over.
    """

    def __init__(self, root: Path, mode: str) -> None:
        self._root, self.mode = root, mode

    def see(self, home: Path, object_name: str) -> Seen:
        """Prepare the path of a home before its server starts."""
        self._root.mkdir(parents=True, exist_ok=True)
        path = self._root / object_name
        if self.mode == "namespace":
            with contextlib.suppress(FileNotFoundError):
                if path.is_symlink():
                    path.unlink()
            path.mkdir(exist_ok=True, mode=0o700)
            return Seen(path, (str(home), str(path)), "")
        if not self._leads_elsewhere(home, path):
            self.take(home, object_name)
            return Seen(path, None, str(_lock_of(home)))
        return Seen(home, None, str(_lock_of(home)))

    def take(self, home: Path, object_name: str) -> None:
        """Make the link lead to this home; in one step, so the path is never missing."""
        if self.mode == "namespace":
            return
        path = self._root / object_name
        if path.is_symlink() and os.readlink(path) == str(home):
            return
        if path.is_dir() and not path.is_symlink():
            path.rmdir()  # left by namespaces; never holds anything
        hidden = self._root / f".{object_name}.{os.getpid()}"
        hidden.unlink(missing_ok=True)
        hidden.symlink_to(home)
        hidden.replace(path)

    @staticmethod
    def _leads_elsewhere(home: Path, path: Path) -> bool:
        """Tell whether the link leads to another home with a server in it."""
        if not path.is_symlink():
            return False
        there = Path(os.readlink(path))
        if there == home:
            return False
        try:
            fd = os.open(_lock_of(there), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


def _lock_of(home: Path) -> Path:
    return home.with_name(f".{home.name}.in-use")
