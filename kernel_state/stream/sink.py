"""Where a pickler writes to: a counter, or a capture on its way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .. import memory as own_memory
from ..records import Record
from .blocks import Kind, Memory
from .writer import Background, BlockWriter

#: A string of bytes of this size in the pickle is put apart.
APART = 1 << 20


class NullSink:
    """Counts what would be written."""

    #: Whether buffers are only counted, so that there is no need to copy them here.
    dry = True

    def __init__(self, check: Callable[[int], None]) -> None:
        self.bytes = 0
        self._check = check
        self._start = self._inline = 0
        self._taken = 0

    def begin(self) -> None:
        """Begin to count for another variable."""
        self._start = self._inline

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""
        size = len(data)
        self.bytes += size
        if size < APART:
            self._inline += size
        self._check(self._inline - self._start)
        return size

    def buffer(self, memory: Any, kind: Memory = Memory.PLAIN) -> int:
        """Take a large buffer."""
        self.bytes += memory.nbytes
        self._taken += 1
        return self._taken - 1


class CaptureSink(NullSink):
    """Keeps the pickle in memory, and has large buffers written while it grows.

    Each buffer's object is kept until the end, so that no other can take its address: by
    address and length the sink knows what it has already.
    """

    dry = False

    def __init__(self, writer: BlockWriter, check: Callable[[int], None]) -> None:
        super().__init__(check)
        self._writer = writer
        self._background = Background("devcluster-capture")
        self._kept: dict[tuple[int, int], tuple[int, Any]] = {}
        self.begin_again()

    def begin_again(self) -> None:
        """Forget the pickle, and no buffer that was written."""
        self.bytes = self._start = self._inline = 0
        self._chunks: list[Any] = []
        self._length = 0
        self._apart: list[tuple[int, int]] = []
        self._order: list[int] = []

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""
        size = super().write(data)
        if size >= APART:
            self._apart.append((self._length, len(self._order)))
            self.buffer(memoryview(data))
            self.bytes -= size  # counted by write() already
        else:
            self._chunks.append(data if type(data) is bytes else bytes(data))
            self._length += size
        return size

    def buffer(self, memory: Any, kind: Memory = Memory.PLAIN) -> int:
        """Take a large buffer, whose bytes are read in another thread."""
        view = memoryview(memory).cast("B")
        key = (own_memory.address_of(view), len(view))
        if key not in self._kept:
            self._kept[key] = (self._new_number(key), view)
            number = self._kept[key][0]
            self._background.do(lambda: self._send(number, key, view, kind))
        self._order.append(self._kept[key][0])
        self.bytes += len(view)
        return len(self._order) - 1

    def finish(self, records: list[Record], witness: Any = None) -> None:
        """Write the rest of the capture."""
        self._background.finish()
        self._writer.write(Kind.PICKLE, b"".join(self._chunks))
        trailer = {
            "variables": [record.to_json() for record in records],
            "order": self._order,
            "apart": self._apart,
            "witness": witness,
        }
        self._writer.write(Kind.TRAILER, json.dumps(trailer).encode())
        self._writer.end()

    def abandon(self) -> None:
        """Write no more."""
        self._background.abandon()

    def _new_number(self, key: tuple[int, int]) -> int:
        return len(self._kept)

    def _send(self, number: int, key: tuple[int, int], view: memoryview, kind: Memory) -> None:
        self._writer.write(Kind.BUFFER, view, number=number, memory=kind)
