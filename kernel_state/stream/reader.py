"""Reads and verifies a capture's blocks. Nothing is unpickled here."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ..records import CaptureError, Record
from ..seal import Seal
from .blocks import (
    CHUNK,
    DIGEST_BYTES,
    HEAD_BYTES,
    HEADER_LIMIT,
    MAGIC,
    PAGE,
    PRELUDE_BYTES,
    TAG_BYTES,
    TRAILER_LIMIT,
    Head,
    Kind,
    Memory,
)
from .incoming import Room, Source
from .tags import tagger, verify


@dataclass
class Content:
    """What is in a capture, verified.

    Attributes
    ----------
    order
        Numbers of buffers, in the order in which the pickle asks for them.
    apart
        Pairs of an offset in the pickle and a place in ``order``.
    buffers
        Memory by number: pages of the file, or an array of bytes, or a ``bytearray``.
    """

    python: str
    records: list[Record]
    order: list[int]
    apart: list[tuple[int, int]]
    witness: Any
    pickle: Any = b""
    buffers: dict[int, Any] = field(default_factory=dict)


class CaptureReader:
    """Reads a capture, from its beginning to its end.

    Parameters
    ----------
    stream
        A binary stream at the capture's beginning. It may be a pipe or a socket's file.
    seal
        What the capture must be sealed with; None for one without a seal.

    Raises
    ------
    CaptureError
        If this is no capture, a damaged or incomplete one, or not the one that is meant.
    """

    def __init__(self, stream: BinaryIO, seal: Seal | None = None) -> None:
        self._source = Source(stream)
        prelude = self._source.read(PRELUDE_BYTES)
        sealed = _read_prelude(prelude)
        if sealed and seal is None:
            raise CaptureError(
                "The capture is sealed: it loads only with the key it was sealed with."
            )
        if not sealed and seal is not None:
            raise CaptureError("The capture has no seal, and one is asked for.")
        self._sealed = sealed
        self._tagger = tagger(seal, prelude[len(MAGIC) + 1 :])
        self._rooms: dict[int, Room] = {}
        self._mapped: dict[int, Any] = {}
        header = self._header()
        self.python = str(header.get("python"))
        for name, expected in (seal.identity if seal else {}).items():
            if header.get(name) != expected:
                raise CaptureError(
                    f"The capture is of another {name}: {header.get(name)!r:.99}, not {expected!r}."
                )

    @property
    def received(self) -> int:
        """Bytes read so far."""
        return self._source.position

    def read(self) -> Content:
        """Read all the rest and return it."""
        while (head := self._head()).kind is not Kind.PICKLE:
            self._buffer(head)
        pickle = self._fill(head, self._room(head.length, Memory.PLAIN))
        content = _parse(self.python, self._block(Kind.TRAILER, TRAILER_LIMIT))
        digest = self._tagger.digest()
        verify(self._block(Kind.END, DIGEST_BYTES), digest, self._sealed)
        content.pickle = pickle.take()
        content.buffers = dict(self._mapped)
        for number in set(content.order) - set(self._mapped):
            room = self._rooms.get(number)
            if room is None or not room.is_full:
                raise CaptureError("The capture is malformed: it names a buffer that it lacks.")
            content.buffers[number] = room.take()
        return content

    def _header(self) -> dict[str, Any]:
        content = _json(self._block(Kind.HEADER, HEADER_LIMIT))
        if not isinstance(content, dict):
            raise CaptureError("The capture's header is malformed.")
        return content

    def _head(self) -> Head:
        content = self._source.read(HEAD_BYTES)
        verify(self._source.read(TAG_BYTES), self._tagger.tag(content), self._sealed)
        head = _unpack(content)
        self._source.expect(head.padding + head.length)
        if any(self._source.read(head.padding)):
            raise CaptureError("The capture is damaged: its padding is not empty.")
        return head

    def _block(self, kind: Kind, limit: int) -> bytes:
        """Return the data of the next block, which must be of a kind, and not too long."""
        head = self._head()
        if head.kind is not kind or head.length > limit:
            raise CaptureError(f"The capture is malformed: its {kind.name.lower()} is not there.")
        return bytes(self._fill(head, self._room(head.length, Memory.PLAIN)).take())

    def _buffer(self, head: Head) -> None:
        if head.kind is Kind.BUFFER:
            self._drop(head.number)
            pages = self._source.mapped(head.length) if head.memory is Memory.PLAIN else None
            if pages is not None:
                self._verify(memoryview(pages), head)
                self._mapped[head.number] = pages
            else:
                self._rooms[head.number] = self._room(head.length, head.memory)
                self._fill(head, self._rooms[head.number])
        elif head.kind is Kind.ROOM:
            self._drop(head.number)
            proven = self._sealed
            self._rooms[head.number] = Room(head.offset, head.memory, proven)
        elif head.kind is Kind.PIECE and head.number in self._rooms:
            self._fill(head, self._rooms[head.number])
        elif head.kind is Kind.DROP:
            self._drop(head.number)
        else:
            raise CaptureError(
                f"The capture is malformed: a {head.kind.name} block is out of place."
            )

    def _drop(self, number: int) -> None:
        self._rooms.pop(number, None)
        self._mapped.pop(number, None)

    def _room(self, length: int, kind: Memory) -> Room:
        return Room(length, kind, self._sealed or self._source.is_file)

    def _fill(self, head: Head, room: Room) -> Room:
        tags = []
        for start in range(0, head.length, CHUNK):
            length = min(CHUNK, head.length - start)
            view = room.window(head.offset + start, length)
            self._source.read_into(view)
            tags.append(self._tagger.tag(view))
        self._compare(tags)
        return room

    def _verify(self, view: memoryview, head: Head) -> None:
        self._compare(
            [self._tagger.tag(view[at : at + CHUNK]) for at in range(0, len(view), CHUNK)]
        )

    def _compare(self, tags: list[bytes]) -> None:
        expected = b"".join(tags)
        verify(self._source.read(len(expected)), expected, self._sealed)


def _read_prelude(prelude: bytes) -> bool:
    """Return whether a capture is sealed."""
    if prelude[: len(MAGIC)] != MAGIC:
        known = prelude[: len(MAGIC) - 1] == MAGIC[:-1]
        raise CaptureError(
            "This capture is of another version of Dev Cluster. Load it with that version."
            if known
            else "This is no capture of a kernel."
        )
    sealed, salt = prelude[len(MAGIC)], prelude[len(MAGIC) + 1 :]
    if sealed > 1 or (not sealed and any(salt)):
        raise CaptureError("The capture is damaged: it is neither sealed nor not.")
    return bool(sealed)


def _unpack(content: bytes) -> Head:
    try:
        head = Head.unpack(content)
    except ValueError as error:
        raise CaptureError(f"The capture is malformed: {error}") from None
    if head.padding >= PAGE:
        raise CaptureError("The capture is malformed: a block has too much padding.")
    return head


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"The capture is malformed: {error}") from None


def _parse(python: str, trailer: bytes) -> Content:
    content = _json(trailer)
    try:
        return Content(
            python,
            [Record.from_json(each) for each in content["variables"]],
            [_natural(number) for number in content["order"]],
            [(_natural(at), _natural(place)) for at, place in content["apart"]],
            content["witness"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(f"The capture is malformed: {error}") from None


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r:.100} is no number")
    return value


def read_records(source: str | os.PathLike[str]) -> list[Record]:
    """Return what a capture says of its variables, without unpickling anything.

    Treat it as untrusted text: it comes from the kernel of its owner, and of a sealed capture
    the seal is not looked at.
    """
    with Path(source).open("rb", buffering=0) as stream:
        file = Source(stream)
        _read_prelude(file.read(PRELUDE_BYTES))
        while True:
            head = _unpack(file.read(HEAD_BYTES))
            file.skip(TAG_BYTES + head.padding)
            if head.kind is Kind.TRAILER and head.length <= TRAILER_LIMIT:
                return _parse("", file.read(head.length)).records
            file.skip(head.length + TAG_BYTES * head.chunks)
