"""The stream of file contents between two agents: frames of a header and the data extents.

A frame is a 4-byte big-endian length, a JSON header of that length, then the bytes of
the header's extents, in order. The first frame has ``{"bytes": N}``: about how much
follows. A file's header is ``{"n": index, "size": S, "extents": [[offset, length], ...]}``,
or ``{"n": index, "gone": why}``. The last frame is ``{"end": true}``: without it the
stream was cut.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any, Protocol

from devcluster.core.errors import StepFailed

from .apply import Home
from .digests import extents

CHUNK = 1 << 20
MAX_HEADER = 1 << 26


def frame(header: dict[str, Any]) -> bytes:
    """Return a frame's header as bytes."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "big") + text


def send(root: str, paths: list[bytes]) -> Iterator[bytes]:
    """Yield the stream for some files of a home, in pieces of about 1 MiB."""
    with Home(root) as home:
        total = 0
        for path in paths:
            with contextlib.suppress(OSError):
                fd, name = home.parent(path)
                info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                total += min(info.st_size, info.st_blocks * 512)
        held = [frame({"bytes": total})]
        size = len(held[0])
        for index, path in enumerate(paths):
            for piece in _file(home, index, path):
                held.append(piece)
                size += len(piece)
                if size >= CHUNK:
                    yield b"".join(held)
                    held, size = [], 0
        yield b"".join([*held, frame({"end": True})])


def _file(home: Home, index: int, path: bytes) -> Iterator[bytes]:
    try:
        fd = home.open_file(path)
    except OSError as error:
        yield frame({"n": index, "gone": error.strerror or "gone"})
        return
    try:
        size = os.fstat(fd).st_size
        parts = list(extents(fd, size))
        yield frame({"n": index, "size": size, "extents": parts})
        for offset, length in parts:
            end = offset + length
            while offset < end:
                want = min(CHUNK, end - offset)
                got = os.pread(fd, want, offset)
                # A file that shrinks meanwhile is padded; its digest then tells.
                yield got if got else bytes(want)
                offset += len(got) or want
    finally:
        os.close(fd)


class Reader(Protocol):
    """Where the stream comes from."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Read up to the buffer's length; 0 at the end."""


class Receiver:
    """Reads a stream into files of a staging folder."""

    def __init__(self, source: Reader) -> None:
        self._source = source
        self._buffer = memoryview(bytearray(CHUNK))
        #: Bytes of file content received.
        self.received = 0

    def header(self) -> dict[str, Any]:
        """Read the next frame's header."""
        length = int.from_bytes(self._exactly(4), "big")
        if length > MAX_HEADER:
            raise StepFailed("The source sent a frame that is not of this protocol.")
        try:
            found = json.loads(bytes(self._exactly(length)))
        except ValueError as error:
            raise StepFailed("The source sent a frame that is not of this protocol.") from error
        if not isinstance(found, dict):
            raise StepFailed("The source sent a frame that is not of this protocol.")
        return found

    def content(self, header: dict[str, Any], path: str) -> int:
        """Write the content that follows a file's header to a new file; return its size."""
        size, at = int(header["size"]), 0
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            for offset, length in header["extents"]:
                if not at <= offset <= offset + length <= size:
                    raise StepFailed("The source sent an extent outside of its file.")
                at = offset + length
                self._extent(fd, offset, length)
        finally:
            os.close(fd)
        return size

    def _extent(self, fd: int, offset: int, length: int) -> None:
        while length:
            view = self._buffer[: min(length, CHUNK)]
            got = self._read(view)
            at = 0
            while at < got:
                at += os.pwrite(fd, view[at:got], offset + at)
            offset, length = offset + got, length - got
            self.received += got

    def _read(self, view: memoryview) -> int:
        got = self._source.readinto(view)
        if not got:
            raise StepFailed("The source ended the transfer in the middle.")
        return got

    def _exactly(self, length: int) -> memoryview:
        whole = memoryview(bytearray(length))
        at = 0
        while at < length:
            at += self._read(whole[at:])
        return whole
