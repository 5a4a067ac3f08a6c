"""The target's side of a fetch: compare, receive, verify, and only then change anything.

Blocking, for a thread of its own; ``stop()`` makes it end soon.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from devcluster.core.calls import call
from devcluster.core.errors import NoSpace, StepFailed, Unavailable
from devcluster.core.resources import format_bytes

from .apply import Home, apply, sync_file_system
from .delta import Delta, diff
from .digests import TICK_NS, DigestCache, Known, digest
from .frames import CHUNK, Receiver
from .manifest import Entry, for_people, from_wire, scan, to_text

#: A source that sends nothing for this long is taken for gone.
SILENCE_S = 30.0
#: More files than this are made durable by one syncfs instead of one fsync each.
_FEW = 64
#: Never fill a disk to its last byte.
SPARE = 64 << 20


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuse a step before it begins if a disk cannot hold it."""
    free = shutil.disk_usage(folder).free
    if needed + SPARE > free:
        raise NoSpace(
            f"{what} needs {format_bytes(needed)}, but {folder} has {format_bytes(free)} free. "
            "Free some disk on that host, or choose another.",
            needed=needed,
            free=free,
        )


@dataclass
class HomeResult:
    """What a fetch of a home brought."""

    bytes: int = 0
    files: int = 0
    deleted: int = 0
    #: Whether the source said that nobody was writing.
    strict: bool = True
    notes: tuple[str, ...] = ()


class Source:
    """One connection to the agent that has the workspace."""

    def __init__(self, url: str, token: str) -> None:
        self._parts = urlsplit(url)
        self._token = token
        self._http: http.client.HTTPConnection | None = None
        self._stopped = threading.Event()
        self._url = url

    def stop(self) -> None:
        """End what is under way, from another thread."""
        self._stopped.set()
        held = self._http
        if held is not None and held.sock is not None:
            with contextlib.suppress(OSError):  # it was closed already
                held.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            self._http.close()

    def check(self) -> None:
        """Raise if the fetch was called off."""
        if self._stopped.is_set():
            raise StepFailed("The fetch was called off.")

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Send a request and return the 2xx answer, to be read."""
        self.check()
        kind = (
            http.client.HTTPSConnection
            if self._parts.scheme == "https"
            else http.client.HTTPConnection
        )
        if self._http is None:
            self._http = kind(self._parts.hostname or "", self._parts.port, timeout=SILENCE_S)
        encoded = None if body is None else json.dumps(body).encode()
        asked = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        try:
            self._http.request(method, self._parts.path.rstrip("/") + path, encoded, asked)
            answer = self._http.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.check()
            raise self.gone(error) from error
        if answer.status >= 300:
            call(method, path).answer(answer.status, answer.read())
        return answer

    def gone(self, error: Exception) -> Unavailable:
        """Say that the source does not answer."""
        why = str(error) or type(error).__name__
        return Unavailable(f"The source's agent at {self._url} does not answer: {why}")


class HomeFetch:
    """Makes the home at ``root`` like the one at the source.

    Parameters
    ----------
    stream_point
        Called once in the middle of receiving: a fault point.
    """

    def __init__(
        self,
        root: Path,
        staging: Path,
        cache: DigestCache,
        source: Source,
        workspace: str,
        stream_point: Callable[[], None] = lambda: None,
    ) -> None:
        self._root, self._staging, self._cache = root, staging, cache
        self._source, self._path = source, f"/v1/homes/{quote(workspace, safe='')}"
        self._point = stream_point
        self._names = 0

    def run(self, final: bool) -> HomeResult:
        """Fetch; ``final`` is the pass after which the source's home counts no more."""
        mine: list[Entry] = []
        failed: list[BaseException] = []

        def own() -> None:
            try:
                self._cache.begin()
                mine.extend(scan(str(self._root), self._cache).entries)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=own, name="scan")  # both sides scan at once
        thread.start()
        try:
            want, live, notes = self._manifest()
        finally:
            thread.join()
        if failed:
            raise failed[0]
        if live and final:
            raise StepFailed(
                "The source's processes are not frozen, so its home is not final. "
                "Capture the source first."
            )
        delta = diff(mine, want)
        result = HomeResult(deleted=len(delta.delete), strict=not live, notes=tuple(notes))
        with tempfile.TemporaryDirectory(dir=self._staging) as folder:
            staged = self._receive(delta, folder, strict=not live, result=result)
            self._make_durable(list(staged.values()), folder)
            self._source.check()
            with Home(str(self._root)) as home:
                apply(home, delta, staged, lambda: self._free_name(folder))
                if final:
                    _sync_folders(home, delta)
                else:
                    sync_file_system(home.root)
        if not final:
            self._learn(delta, staged)
        self._cache.finish()
        return result

    def _manifest(self) -> tuple[list[Entry], bool, list[str]]:
        answer = self._source.request("GET", f"{self._path}/manifest")
        try:
            body = json.loads(answer.read())
            return from_wire(body["entries"]), bool(body["live"]), list(body["notes"])
        except (OSError, http.client.HTTPException) as error:
            raise self._source.gone(error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StepFailed("The source's manifest is not of this protocol.") from error

    def _receive(
        self, delta: Delta, folder: str, strict: bool, result: HomeResult
    ) -> dict[bytes, str]:
        """Receive what is wanted into the staging folder and verify it."""
        if not delta.fetch:
            return {}
        body = {"paths": [to_text(entry.path) for entry in delta.fetch]}
        answer = self._source.request("POST", f"{self._path}/files", body)
        receiver = Receiver(answer)
        staged: dict[bytes, str] = {}
        half = len(delta.fetch) // 2
        try:
            check_space(self._staging, int(receiver.header()["bytes"]), "The home")
            while "end" not in (header := receiver.header()):
                self._source.check()
                entry = delta.fetch[int(header["n"])]
                if int(header["n"]) == half:
                    self._point()
                if "gone" in header:
                    _unless_live(strict, entry, f"is not readable: {header['gone']}")
                    continue
                path = self._free_name(folder)
                if self._verified(receiver, header, path, entry):
                    staged[entry.path] = path
                    result.files += 1
                else:
                    os.unlink(path)
                    _unless_live(strict, entry, "does not have the digest that the source told")
            answer.read()
        except (OSError, http.client.HTTPException, KeyError, IndexError) as error:
            self._source.check()
            raise self._source.gone(error) from error
        result.bytes = receiver.received
        return staged

    def _verified(
        self, receiver: Receiver, header: dict[str, Any], path: str, entry: Entry
    ) -> bool:
        size = receiver.content(header, path)
        if size != entry.size or not entry.digest:
            return False
        fd = os.open(path, os.O_RDONLY)
        try:
            return digest(fd, size) == entry.digest
        finally:
            os.close(fd)

    def _free_name(self, folder: str) -> str:
        self._names += 1
        return os.path.join(folder, str(self._names))

    @staticmethod
    def _make_durable(paths: list[str], folder: str) -> None:
        if len(paths) > _FEW:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                sync_file_system(fd)
            finally:
                os.close(fd)
            return
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _learn(self, delta: Delta, staged: dict[bytes, str]) -> None:
        """Remember what was just written, so that the final pass need not read it again.

        Nobody writes to this home before the fetch has answered; waiting for one tick
        makes sure that a later change has another ctime.
        """
        if not staged:
            return
        time.sleep(2 * TICK_NS / 1e9)
        with Home(str(self._root)) as home:
            for entry in delta.fetch:
                if entry.path in staged:
                    fd, name = home.parent(entry.path)
                    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    self._cache.put(info, Known(entry.digest, entry.xattrs))


def _unless_live(strict: bool, entry: Entry, problem: str) -> None:
    if strict:
        raise StepFailed(f"{for_people(entry.path)} {problem}; nothing was changed here.")


def _sync_folders(home: Home, delta: Delta) -> None:
    for entry in delta.meta:
        if entry.kind == "d":
            fd, name = home.parent(entry.path) if entry.path else (home.root, b".")
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def fetch_files(
    source: Source, base: str, folder: Path, stream_point: Callable[[], None] = lambda: None
) -> int:
    """Pull the files of a capture into ``folder``, which is replaced; return their bytes.

    Sizes are verified here; the content by the capture's own digests when it is loaded.
    """
    listing = json.loads(source.request("GET", base).read())
    total = sum(int(one["size"]) for one in listing)
    whole, folder = folder, folder.with_name(f".{folder.name}.part")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    check_space(folder, total, "The capture")
    view = memoryview(bytearray(CHUNK))
    stream_point()
    for one in listing:
        path = _below(folder, str(one["file"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        answer = source.request("GET", f"{base}/{quote(str(one['file']))}")
        try:
            got = _store(answer, path, int(one["size"]), view, source)
        except (OSError, http.client.HTTPException) as error:
            source.check()
            raise source.gone(error) from error
        if got != int(one["size"]):
            raise StepFailed(f"The capture's file {one['file']} came with {got} bytes only.")
    shutil.rmtree(whole, ignore_errors=True)
    folder.rename(whole)
    return total


def _store(
    answer: http.client.HTTPResponse, path: Path, size: int, view: memoryview, source: Source
) -> int:
    with open(path, "xb", buffering=0, opener=_private) as file:
        at = 0
        while got := answer.readinto(view):
            source.check()
            if file.write(view[:got]) != got:
                raise StepFailed(f"The disk took only part of {path.name}.")
            at += got
            if at > size:
                break
    return at


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _below(folder: Path, name: str) -> Path:
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise StepFailed(f"The source named a capture file {name!r}, which is not below it.")
    return folder.joinpath(*parts)
