"""A capture's content as an unpickler wants it."""

from __future__ import annotations

import sys
from typing import Any

from ..records import CaptureError
from .blocks import Memory
from .incoming import Room
from .reader import Content
from .sink import APART


class Replay:
    """The file of an unpickler, and its large buffers in the order in which it asks for them.

    A buffer's memory is handed on, not copied, to the first that asks for it.
    """

    def __init__(self, content: Content) -> None:
        self._pickle = memoryview(content.pickle).cast("B")
        self._order = content.order
        self._buffers = content.buffers
        self._apart = list(reversed(content.apart))
        self._uses = dict.fromkeys(content.order, 0)
        for number in content.order:
            self._uses[number] += 1
        self._at = self._next = 0

    # --- as the buffers of a load ---

    def next_size(self) -> int:
        """Return the size of the next buffer."""
        if self._next >= len(self._order):
            raise CaptureError("The capture is damaged: it has fewer buffers than it asks for.")
        return memoryview(self._buffers[self._order[self._next]]).nbytes

    def take(self, size: int) -> Any:
        """Return the next buffer's memory, to keep: pages, an array of bytes or a bytearray."""
        number = self._come_to(size)
        if not self._uses[number]:
            return self._buffers.pop(number)
        copy = Room(size, Memory.PLAIN, proven=True)
        copy.window(0, size)[:] = memoryview(self._buffers[number]).cast("B")
        return copy.take()

    def read_into(self, memory: Any) -> None:
        """Fill writable memory with the next buffer."""
        view = memoryview(memory).cast("B")
        number = self._come_to(len(view))
        _copy(self._buffers[number], view)
        if not self._uses[number]:
            del self._buffers[number]

    def _come_to(self, size: int) -> int:
        """Go to the next buffer, which must be of this size, and return its number."""
        if self.next_size() != size:
            raise CaptureError("The capture is damaged: a buffer has another size than its object.")
        number = self._order[self._next]
        self._next += 1
        self._uses[number] -= 1
        return number

    def __iter__(self) -> Replay:
        return self

    def __next__(self) -> Any:
        """Return the next buffer for an object that asks for it through pickle."""
        return memoryview(self.take(self.next_size()))

    # --- as the file of an unpickler ---

    @property
    def _here(self) -> bool:
        """Whether what comes next in the pickle was put apart."""
        return bool(self._apart) and self._apart[-1] == (self._at, self._next)

    def read(self, length: int) -> bytes:
        """Return the next bytes of the pickle."""
        if length >= APART and self._here:
            self._apart.pop()
            return bytes(self.take(length))
        piece = bytes(self._pickle[self._at : self._at + length])
        self._at += len(piece)
        return piece

    def readinto(self, memory: Any) -> int:
        """Fill memory with the next bytes of the pickle."""
        length = len(memory)
        if length >= APART and self._here:
            self._apart.pop()
            self.read_into(memory)
            return length
        piece = self.read(length)
        memory[: len(piece)] = piece
        return len(piece)

    def readline(self) -> bytes:
        """Return the next line of the pickle."""
        rest = self._pickle[self._at :]
        end = next((at + 1 for at, byte in enumerate(rest) if byte == 10), len(rest))
        return self.read(end)


def _copy(source: Any, target: memoryview) -> None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        target[:] = memoryview(source).cast("B")
    else:  # lets other threads run meanwhile
        numpy.copyto(numpy.frombuffer(target, numpy.uint8), numpy.frombuffer(source, numpy.uint8))
