"""The file of a capture: a header that anyone can read, a pickle, and large buffers.

========== ============================================================================
8 bytes    ``DEVCLKS2``: the magic, and the version of the format
8 + 8      length of the header and of the pickle, little-endian
32 bytes   BLAKE2b of the lengths, the header and the pickle
header     JSON, UTF-8: ``variables`` (records), ``buffers`` (their lengths in bytes),
           ``apart`` (see below), ``python`` and ``total`` (length of the whole file)
pickle     protocol 5, one pickle a variable, one memo for all
buffers    one after the other, in the order in which the pickle asks for them; one of
           :data:`MAPPED` bytes or more begins at a multiple of :data:`PAGE`
========== ============================================================================

So a large buffer need not be read: an array is laid over the file's pages, which are
copied one by one when they are written to (``mmap(2)``, ``MAP_PRIVATE``). The file may be
unlinked meanwhile, but never changed.

Large ``bytes`` of the pickle itself stand among the buffers too, so that they are never
copied in memory; ``apart`` lists where in the pickle: pairs of offset and number.

The digest covers what is interpreted, not the buffers: BLAKE2b does about 1 GB/s, and a
capture is written and read at several. A buffer that was cut or grew is found by the
lengths; that its bytes are the right ones is for the carrier to check.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import platform
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from .pickler import LARGE
from .records import CaptureError, Record

MAGIC = b"DEVCLKS2"
_LENGTHS = struct.Struct("<QQ")
_DIGEST_BYTES = 32
_PRELUDE_BYTES = len(MAGIC) + _LENGTHS.size + _DIGEST_BYTES
#: A string of bytes of this size in the pickle is put apart.
_APART = 1 << 20
#: What a header may take at most; a larger one is no capture of ours.
_HEADER_LIMIT = 1 << 28
#: A buffer of this size is mapped where the capture is a file.
MAPPED = 8 << 20
PAGE = mmap.PAGESIZE
#: Each mapping costs a file descriptor, of which a process has some 1,000.
_MAPPINGS = 128
#: IOV_MAX of Linux.
_VECTORS = 1024


class CaptureMemory(mmap.mmap):
    """A buffer's pages of a capture's file: memory of this process alone."""


def _padding(offset: int, size: int) -> int:
    return -offset % PAGE if size >= MAPPED else 0


class NullSink:
    """Counts what would be written."""

    #: Whether buffers are only counted, so that there is no need to copy them here.
    dry = True

    def __init__(self, check: Callable[[int], None]) -> None:
        self.bytes = 0
        self._check = check
        self._start = self._inline = 0
        self._buffers = 0

    def begin(self) -> None:
        """Begin to count for another variable."""
        self._start = self._inline

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""
        size = len(data)
        self.bytes += size
        if size < _APART:
            self._inline += size
        self._check(self._inline - self._start)
        return size

    def buffer(self, memory: Any) -> int:
        """Take a large buffer."""
        self.bytes += memory.nbytes
        self._buffers += 1
        return self._buffers - 1


class CaptureSink(NullSink):
    """Keeps the pickle in memory, and large buffers as references to the live objects."""

    dry = False

    def __init__(self, check: Callable[[int], None]) -> None:
        super().__init__(check)
        self._chunks: list[bytes] = []
        self._length = 0
        self._apart: list[tuple[int, int]] = []
        self._memory: list[memoryview] = []

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""
        size = super().write(data)
        if size >= _APART:
            self._apart.append((self._length, len(self._memory)))
            self.buffer(memoryview(data).cast("B"))
            self.bytes -= size  # counted by write() already
        else:
            self._chunks.append(data if type(data) is bytes else bytes(data))
            self._length += size
        return size

    def buffer(self, memory: Any) -> int:
        """Take a large buffer; its bytes are read only when the file is written."""
        self._memory.append(memoryview(memory).cast("B"))
        return super().buffer(memory)

    def write_to(self, target: BinaryIO, records: list[Record]) -> int:
        """Write the capture to a binary stream and return its size in bytes."""
        parts = self._parts(records)
        try:
            descriptor = target.fileno()
            target.flush()
        except (AttributeError, OSError):
            for part in parts:
                rest = memoryview(part)
                while len(rest):
                    rest = rest[target.write(rest) or 0 :]
        else:
            _write_all(descriptor, parts)
        return sum(len(part) for part in parts)

    def _parts(self, records: list[Record]) -> list[memoryview]:
        pickle = memoryview(b"".join(self._chunks))
        content = {
            "python": platform.python_version(),
            "variables": [record.to_json() for record in records],
            "buffers": [len(memory) for memory in self._memory],
            "apart": self._apart,
        }
        header = memoryview(json.dumps(content).encode())
        lengths = _LENGTHS.pack(len(header), len(pickle))
        prelude = MAGIC + lengths + _digest(lengths, header, pickle)
        parts = [memoryview(prelude), header, pickle]
        offset = sum(len(part) for part in parts)
        for memory in self._memory:
            padding = _padding(offset, len(memory))
            parts += [memoryview(bytes(padding)), memory]
            offset += padding + len(memory)
        return [part for part in parts if len(part)]


def _digest(lengths: bytes, header: Any, pickle: Any) -> bytes:
    digest = hashlib.blake2b(lengths, digest_size=_DIGEST_BYTES)
    digest.update(header)
    digest.update(pickle)
    return digest.digest()


def _write_all(descriptor: int, parts: list[memoryview]) -> None:
    waiting = list(parts)
    at = 0
    while at < len(waiting):
        written = os.writev(descriptor, waiting[at : at + _VECTORS])
        while at < len(waiting) and written >= len(waiting[at]):
            written -= len(waiting[at])
            at += 1
        if written:
            waiting[at] = waiting[at][written:]


class CaptureReader:
    """Reads a capture; all but the buffers is read and verified when it is made.

    Parameters
    ----------
    stream
        A binary stream at the capture's beginning. It may be a pipe or a socket's file.

    Raises
    ------
    CaptureError
        If this is no capture, or a damaged or incomplete one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        prelude = self._read(_PRELUDE_BYTES)
        if prelude[: len(MAGIC)] != MAGIC:
            known = prelude[: len(MAGIC) - 1] == MAGIC[:-1]
            raise CaptureError(
                "This capture is of another version of Dev Cluster. Load it with that version."
                if known
                else "This is no capture of a kernel."
            )
        lengths = prelude[len(MAGIC) : len(MAGIC) + _LENGTHS.size]
        header_length, pickle_length = _LENGTHS.unpack(lengths)
        if header_length > _HEADER_LIMIT:
            raise CaptureError("The capture is damaged: its header cannot be that long.")
        self._expect_file_of(_PRELUDE_BYTES + header_length + pickle_length)
        header, self._pickle = self._read(header_length), self._read(pickle_length)
        if _digest(lengths, header, self._pickle) != prelude[-_DIGEST_BYTES:]:
            raise CaptureError("The capture is damaged: its digest does not fit its content.")
        self._parse(header)
        self._at = self._next = self._mappings = 0
        self._offset = end = _PRELUDE_BYTES + header_length + pickle_length
        for size in self._sizes:
            end += _padding(end, size) + size
        self._expect_file_of(end)

    def _parse(self, header: bytes) -> None:
        try:
            content = json.loads(header)
            self.records = [Record.from_json(each) for each in content["variables"]]
            self._sizes = [_length(size) for size in content["buffers"]]
            self._waiting = [(_length(at), _length(number)) for at, number in content["apart"]]
            self.python = str(content["python"])
        except (ValueError, KeyError, TypeError) as error:
            raise CaptureError(f"The capture's header is malformed: {error}") from error

    def _expect_file_of(self, length: int) -> None:
        """Find a cut file before anything is done; of a pipe it shows only while reading."""
        try:
            descriptor = self._stream.fileno()
            about = os.fstat(descriptor)
        except (AttributeError, OSError):
            return
        if stat.S_ISREG(about.st_mode) and about.st_size < length:
            raise CaptureError(
                f"The capture is cut: it has {about.st_size} bytes of at least {length}."
            )

    def _read(self, length: int) -> bytes:
        chunks = []
        while length:
            chunk = self._stream.read(min(length, 1 << 26))
            if not chunk:
                raise CaptureError("The capture is cut: it ends too early.")
            chunks.append(chunk)
            length -= len(chunk)
        return b"".join(chunks)

    # --- as the buffers of a load ---

    def next_size(self) -> int:
        """Return the size of the next buffer."""
        if self._next >= len(self._sizes):
            raise CaptureError("The capture is damaged: it has fewer buffers than it asks for.")
        return self._sizes[self._next]

    def read_into(self, memory: Any) -> None:
        """Fill writable memory with the next buffer."""
        view = memoryview(memory).cast("B")
        self._come_to(len(view))
        self._offset += len(view)
        while len(view):
            # A kernel call moves at most 2 GiB.
            got = self._stream.readinto(view[: 1 << 30])  # type: ignore[attr-defined]
            if not got:
                raise CaptureError("The capture is cut: it ends too early.")
            view = view[got:]

    def mapped(self, size: int) -> memoryview | None:
        """Return the next buffer as writable memory over the file; None if it must be read."""
        if size < MAPPED or self._mappings == _MAPPINGS or not self._begins_a_file():
            return None
        self._come_to(size)
        position = self._stream.tell()
        self._mappings += 1
        self._offset += size
        self._stream.seek(size, os.SEEK_CUR)
        return memoryview(
            CaptureMemory(self._stream.fileno(), size, access=mmap.ACCESS_COPY, offset=position)
        )

    def _come_to(self, size: int) -> None:
        """Go to the next buffer, which must be of this size."""
        if self.next_size() != size:
            raise CaptureError("The capture is damaged: a buffer has another size than its object.")
        self._next += 1
        padding = _padding(self._offset, size)
        self._read(padding)
        self._offset += padding

    def _begins_a_file(self) -> bool:
        """Tell whether positions in the capture are positions in a file."""
        try:
            regular = stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode)
            return regular and self._stream.tell() == self._offset
        except (AttributeError, OSError):
            return False

    def __iter__(self) -> CaptureReader:
        return self

    def __next__(self) -> Any:
        """Return the next buffer for an object that asks for it through pickle."""
        memory = _allocate(self.next_size())
        self.read_into(memory)
        return memory

    # --- as the file of an unpickler ---

    @property
    def _here(self) -> bool:
        """Whether what comes next in the pickle was put apart."""
        return bool(self._waiting) and self._waiting[0] == (self._at, self._next)

    def read(self, length: int) -> bytes:
        """Return the next bytes of the pickle."""
        if length >= _APART and self._here:
            memory = bytearray(length)
            self.readinto(memory)
            return bytes(memory)
        piece = self._pickle[self._at : self._at + length]
        self._at += len(piece)
        return piece

    def readinto(self, memory: Any) -> int:
        """Fill memory with the next bytes of the pickle."""
        length = len(memory)
        if length >= _APART and self._here:
            self._waiting.pop(0)
            self.read_into(memory)
            return length
        piece = self.read(length)
        memory[: len(piece)] = piece
        return len(piece)

    def readline(self) -> bytes:
        """Return the next line of the pickle."""
        end = self._pickle.find(b"\n", self._at) + 1 or len(self._pickle)
        return self.read(end - self._at)


def _length(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no length")
    return value


def _allocate(size: int) -> Any:
    if size >= LARGE:
        try:
            import numpy as np
        except ImportError:
            return bytearray(size)
        memory: Any = np.empty(size, np.uint8)  # not zeroed first, as a bytearray is
        return memoryview(memory)
    return bytearray(size)


def read_records(source: str | os.PathLike[str]) -> list[Record]:
    """Return what a capture's header says, without unpickling anything.

    Treat it as untrusted text: it comes from the kernel of its owner.
    """
    with Path(source).open("rb", buffering=0) as stream:
        return CaptureReader(stream).records
