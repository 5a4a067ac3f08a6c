"""Sends large buffers while the person goes on working, and in the pause what changed since.

A share knows buffers as addresses and lengths and holds no reference to an object, so that
it keeps nothing alive. What it reads may be gone or be another object's by then: it reads a
copy, remembers the copy's hashes, and in the pause compares them with what is there.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import xxhash

from .. import memory as own_memory
from ..seal import Seal
from .blocks import CHUNK, Kind, Memory
from .sink import CaptureSink, NullSink
from .writer import BlockWriter

#: A buffer of this size is worth being sent before the pause.
LARGE = 1 << 20
#: What is compared, and sent if it changed. Smaller is less to send, and more to compare.
GRAIN = 1 << 16
#: How long the other side may take to accept some bytes, in seconds.
PATIENCE_S = 30

#: An address and a length.
Key = tuple[int, int]


class Listing(NullSink):
    """Lists the memory of large buffers, and keeps nothing of them."""

    def __init__(self, check: Callable[[int], None]) -> None:
        super().__init__(check)
        self.found: dict[Key, Memory] = {}

    def buffer(self, memory: Any, kind: Memory = Memory.PLAIN) -> int:
        """Take a large buffer."""
        if memory.nbytes >= LARGE and isinstance(memory, memoryview):
            self.found[own_memory.address_of(memory), memory.nbytes] = kind
        return super().buffer(memory, kind)


class _Sent:
    """What the other side has of one buffer."""

    def __init__(self, number: int) -> None:
        self.number = number
        #: How much was sent, from the beginning on.
        self.length = 0
        #: Of each :data:`GRAIN` bytes sent.
        self.hashes: list[bytes] = []


class Share:
    """An open connection to a target, over which a session goes.

    Parameters
    ----------
    socket_path
        A unix stream socket that somebody listens on.
    found
        Buffers to be sent beforehand.
    """

    def __init__(self, socket_path: str, seal: Seal | None, found: dict[Key, Memory]) -> None:
        self.seal = seal
        self.total = sum(length for _, length in found)
        self.sent = 0
        self.error: str | None = None
        self._found = found
        self._socket = _connected(socket_path)
        self._stop = threading.Event()
        self._buffers: dict[Key, _Sent] = {}
        try:
            self._writer = BlockWriter(self._socket.fileno(), seal)
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._work, name="devcluster-share", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether all that was found has been sent, or sending has failed."""
        return not self._thread.is_alive()

    def pause(self) -> None:
        """Send no more beforehand; raise ``OSError`` if the connection is broken."""
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise OSError(self.error)

    def close(self) -> None:
        """End the thread and the connection. May be called again."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits to send
        self._thread.join()
        self._socket.close()

    def sink(self, check: Callable[[int], None]) -> SharedSink:
        """Return where the session is to be saved to, in the pause."""
        return SharedSink(self._writer, check, self._buffers)

    def _work(self) -> None:
        try:
            for key, kind in self._found.items():
                self._send(key, kind)
        except OSError as error:
            self.error = f"{type(error).__name__}: {error}"

    def _send(self, key: Key, kind: Memory) -> None:
        address, length = key
        buffer = _Sent(len(self._buffers))
        copy = memoryview(bytearray(min(CHUNK, length)))
        self._buffers[key] = buffer
        self._writer.write(Kind.ROOM, number=buffer.number, offset=length, memory=kind)
        while buffer.length < length and not self._stop.is_set():
            piece = copy[: min(CHUNK, length - buffer.length)]
            try:
                own_memory.read(address + buffer.length, piece)
            except OSError:  # the person has deleted it
                break
            self._writer.write(Kind.PIECE, piece, number=buffer.number, offset=buffer.length)
            buffer.hashes += _hashes(piece)
            buffer.length += len(piece)
            self.sent += len(piece)


class SharedSink(CaptureSink):
    """Sends a session to where most of its large buffers are already."""

    def __init__(
        self, writer: BlockWriter, check: Callable[[int], None], buffers: dict[Key, _Sent]
    ) -> None:
        self._buffers = buffers
        self._begin = writer.position
        super().__init__(writer, check)

    @property
    def sent(self) -> int:
        """Bytes that were sent in the pause."""
        return self._writer.position - self._begin

    def _new_number(self, key: Key) -> int:
        known = self._buffers.get(key)
        return known.number if known is not None else len(self._buffers) + len(self._kept)

    def _send(self, number: int, key: Key, view: memoryview, kind: Memory) -> None:
        known = self._buffers.get(key)
        if known is None:
            super()._send(number, key, view, kind)
            return
        for start in range(0, known.length, CHUNK):
            end = min(start + CHUNK, known.length)
            first = start // GRAIN
            for at, now in enumerate(_hashes(view[start:end])):
                if now != known.hashes[first + at]:
                    offset = start + at * GRAIN
                    piece = view[offset : min(offset + GRAIN, known.length)]
                    self._writer.write(Kind.PIECE, piece, number=number, offset=offset)
        if known.length < len(view):
            rest = view[known.length :]
            self._writer.write(Kind.PIECE, rest, number=number, offset=known.length)


def _hashes(view: Any) -> list[bytes]:
    return [xxhash.xxh3_128_digest(view[at : at + GRAIN]) for at in range(0, len(view), GRAIN)]


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        connection.setblocking(True)
        # Not settimeout: the writer wants a descriptor that blocks.
        patience = struct.pack("ll", PATIENCE_S, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        return connection
    except BaseException:
        connection.close()
        raise
