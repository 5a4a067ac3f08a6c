"""Where the host keeps homes and captures, by the workspaces' names on disk."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

from devcluster.core.errors import BadRequest
from devcluster.core.names import object_name

from .digests import DigestCache

_CAPTURE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")


class Folders:
    """The agent's folders, and one digest cache and one lock for each home."""

    def __init__(self, data_dir: Path) -> None:
        self._data = data_dir
        self.logs = data_dir / "logs"
        self.staging = data_dir / "staging"  # on the homes' file system, so a rename is enough
        self._cache = data_dir / "digests"
        self._caches: dict[str, DigestCache] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        shutil.rmtree(self.staging, ignore_errors=True)  # of fetches that an end cut off
        for folder in (self.logs, self.staging, self._cache, data_dir / "homes", self.captures):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def captures(self) -> Path:
        """The folder of all captures."""
        return self._data / "captures"

    def home(self, workspace: str, make: bool = False) -> Path:
        """Return the folder that holds a workspace's home."""
        path = self._data / "homes" / object_name(workspace)
        if make:
            path.mkdir(exist_ok=True, mode=0o700)
        return path

    def capture(self, workspace: str, capture: str) -> Path:
        """Return the folder of one capture; refuses an id that is no plain name."""
        if not _CAPTURE.match(capture):
            raise BadRequest(
                f"{capture!r} is no capture's id: letters, digits, '.', '_' and '-', at most 128, "
                "beginning with a letter or digit."
            )
        return self.captures / object_name(workspace) / capture

    def cache(self, workspace: str) -> DigestCache:
        """Return the digest cache of a home."""
        with self._guard:
            name = object_name(workspace)
            if name not in self._caches:
                self._caches[name] = DigestCache(self._cache / f"{name}.json")
            return self._caches[name]

    def lock(self, workspace: str) -> threading.Lock:
        """Return the lock for reading or changing a home as a whole."""
        with self._guard:
            return self._locks.setdefault(object_name(workspace), threading.Lock())
