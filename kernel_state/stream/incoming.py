"""Where a capture is read from, and the memory that its buffers are received into."""

from __future__ import annotations

import mmap
import os
import stat
import sys
from typing import Any, BinaryIO

from ..records import CaptureError
from .blocks import MAPPED, PAGE, Memory

#: Each mapping costs a file descriptor, of which a process has some 1,000.
_MAPPINGS = 128
#: Memory that is made at once for a length that nothing vouches for.
_UNPROVEN = 64 << 20


class CaptureMemory(mmap.mmap):
    """A buffer's pages of a capture's file: memory of this process alone."""


class Source:
    """A binary stream, read forward; of a file, also its size and its pages.

    Attributes
    ----------
    position
        Bytes read so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.position = 0
        self._stream: Any = stream
        self._mappings = 0
        self._size = self._begin = None
        try:
            about = os.fstat(stream.fileno())
            if stat.S_ISREG(about.st_mode):
                self._size, self._begin = about.st_size, stream.tell()
        except (AttributeError, OSError):
            pass

    @property
    def is_file(self) -> bool:
        """Whether its length is known."""
        return self._size is not None

    def expect(self, length: int) -> None:
        """Raise :class:`CaptureError` if there cannot be that many more bytes."""
        if self._size is None or self._begin is None:
            return
        left = self._size - self._begin - self.position
        if length > left:
            raise CaptureError(
                f"The capture is cut: {length} more bytes should be in it, not {left}."
            )

    def read(self, length: int) -> bytes:
        """Return the next bytes; use it for what is short."""
        self.expect(length)
        content = bytearray(length)
        self.read_into(memoryview(content))
        return bytes(content)

    def read_into(self, view: memoryview) -> None:
        """Fill memory with the next bytes."""
        self.position += len(view)
        while len(view):
            if hasattr(self._stream, "readinto"):
                # A kernel call moves at most 2 GiB.
                got = self._stream.readinto(view[: 1 << 30])
            else:
                content = self._stream.read(min(len(view), 1 << 26))
                view[: len(content)] = content
                got = len(content)
            if not got:
                raise CaptureError("The capture is cut: it ends too early.")
            view = view[got:]

    def skip(self, length: int) -> None:
        """Leave the next bytes out; of a file they are not read."""
        self.expect(length)
        if self.is_file:
            self._stream.seek(length, os.SEEK_CUR)
            self.position += length
            return
        while length:
            length -= len(self.read(min(length, 1 << 20)))

    def mapped(self, length: int) -> Any:
        """Return the next bytes as private pages of the file; None if they must be read."""
        if length < MAPPED or self._begin is None or self._mappings == _MAPPINGS:
            return None
        offset = self._begin + self.position
        if offset % PAGE:
            return None
        try:
            pages = CaptureMemory(
                self._stream.fileno(), length, access=mmap.ACCESS_COPY, offset=offset
            )
        except OSError:  # a file system without it, or no room for one more
            return None
        self._mappings += 1
        self.skip(length)
        return pages


class Room:
    """Memory that is filled from its beginning on, of the kind that its object is to own.

    Parameters
    ----------
    length
        In bytes.
    proven
        Whether the length can be believed; if not, memory is made as bytes arrive.
    """

    def __init__(self, length: int, kind: Memory, proven: bool) -> None:
        self.length = length
        self._filled = 0
        self._made = length if proven else min(length, _UNPROVEN)
        self._memory = _allocate(self._made, kind if proven else Memory.PLAIN)

    @property
    def is_full(self) -> bool:
        """Whether all of it was filled."""
        return self._filled == self.length

    def window(self, offset: int, length: int) -> memoryview:
        """Return the part to be filled next: it begins where others ended, or before."""
        end = offset + length
        if offset > self._filled or end > self.length:
            raise CaptureError("The capture is malformed: a piece lies outside of its buffer.")
        if end > self._made:
            self._grow(min(self.length, max(end, 2 * self._made)))
        self._filled = max(self._filled, end)
        return memoryview(self._memory).cast("B")[offset:end]

    def _grow(self, size: int) -> None:
        if isinstance(self._memory, bytearray):
            self._memory += bytes(size - self._made)
        else:
            try:
                self._memory.resize(size, refcheck=False)  # large memory is moved, not copied
            except MemoryError as error:
                raise _no_room(size) from error
        self._made = size

    def take(self) -> Any:
        """Return the memory: an array of bytes, or a ``bytearray`` where there is no NumPy."""
        return self._memory


def _allocate(size: int, kind: Memory) -> Any:
    torch: Any = sys.modules.get("torch")
    try:
        if kind is Memory.TENSOR and torch is not None and hasattr(torch, "empty"):
            return torch.empty(size, dtype=torch.uint8).numpy()
        import numpy as np

        return np.empty(size, np.uint8)  # not zeroed first, as a bytearray is
    except ImportError:
        return bytearray(size)
    except (MemoryError, RuntimeError) as error:
        raise _no_room(size) from error


def _no_room(size: int) -> CaptureError:
    return CaptureError(f"There is no room here for a buffer of {size} bytes.")
