"""Writes blocks, and does so in a thread beside the pickler."""

from __future__ import annotations

import json
import os
import platform
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, BinaryIO

from ..seal import Seal
from .blocks import CHUNK, FRONT_BYTES, MAGIC, SALT_BYTES, Head, Kind, Memory, padding
from .tags import tagger


class BlockWriter:
    """Writes a capture block by block, forward only.

    Parameters
    ----------
    target
        A binary stream, or a descriptor that blocks.

    Attributes
    ----------
    position
        Bytes written so far.
    """

    def __init__(self, target: BinaryIO | int, seal: Seal | None = None) -> None:
        self.position = 0
        self._write = _writing(target)
        salt = os.urandom(SALT_BYTES) if seal else bytes(SALT_BYTES)
        self._tagger = tagger(seal, salt)
        self._put([MAGIC + bytes([seal is not None]) + salt])
        header = {"python": platform.python_version(), **(seal.identity if seal else {})}
        self.write(Kind.HEADER, json.dumps(header).encode())

    def write(
        self,
        kind: Kind,
        data: Any = b"",
        *,
        number: int = 0,
        offset: int = 0,
        memory: Memory = Memory.PLAIN,
    ) -> None:
        """Write one block; the data is any object with contiguous memory."""
        view = memoryview(data).cast("B")
        empty = padding(self.position + FRONT_BYTES, kind, len(view))
        head = Head(kind, len(view), number, offset, memory, empty).pack()
        waiting = [head + self._tagger.tag(head) + bytes(empty)]
        tags = []
        for start in range(0, len(view), CHUNK):
            chunk = view[start : start + CHUNK]
            tags.append(self._tagger.tag(chunk))
            self._put([*waiting, chunk])
            waiting = []
        self._put([*waiting, b"".join(tags)])

    def end(self) -> None:
        """Write the last block."""
        self.write(Kind.END, self._tagger.digest())

    def _put(self, parts: list[Any]) -> None:
        parts = [part for part in parts if len(part)]
        if parts:
            self.position += sum(map(len, parts))
            self._write(parts)


def _writing(target: BinaryIO | int) -> Callable[[list[Any]], None]:
    """Return what writes several pieces of memory, one after the other and whole."""
    if isinstance(target, int):
        return lambda parts: _write_vector(target, parts)
    try:
        descriptor = target.fileno()
        target.flush()
    except (AttributeError, OSError):
        return lambda parts: _write_each(target, parts)
    return lambda parts: _write_vector(descriptor, parts)


def _write_vector(descriptor: int, parts: list[Any]) -> None:
    while parts:
        written = os.writev(descriptor, parts)
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if written:
            parts[0] = memoryview(parts[0])[written:]


def _write_each(target: BinaryIO, parts: list[Any]) -> None:
    for part in parts:
        rest = memoryview(part)
        while len(rest):
            rest = rest[target.write(rest) or 0 :]


class Background:
    """Does jobs one after the other in a thread of its own; the first error ends it."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        """Have a job done. What fails shows at the end, not as a failure of who asks now."""
        self._jobs.put(job)

    def finish(self) -> None:
        """Wait until all is done; raise the error of what failed."""
        self._jobs.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Do no more than the job in hand."""
        self._error = self._error or RuntimeError("The save was given up.")
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is None:
                try:
                    job()
                except BaseException as error:
                    self._error = error
            del job  # it holds memory
