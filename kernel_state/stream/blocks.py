"""The format of a capture, version 3: a prelude, and blocks one after the other.

A prelude is :data:`MAGIC`, a byte that tells whether the capture is sealed, and a salt. Each
block is

========== ============================================================================
24 bytes   the head: kind, kind of memory, padding, number of the buffer, offset, length
16 bytes   the tag of the head
padding    so that a large buffer begins at a multiple of :data:`PAGE`
length     the data
16 bytes   for each :data:`CHUNK` bytes of data, or part of it: its tag
========== ============================================================================

and the kinds come in this order:

========== ============================================================================
HEADER     JSON: ``python``, and of a sealed capture ``owner``, ``workspace``, ``sequence``
BUFFER     a whole buffer, of large objects' memory
ROOM       no data: a buffer whose length is the offset comes in pieces, zeros until then
PIECE      bytes of a buffer, from an offset on, in place of those that came before
DROP       no data: a buffer is not needed any more
PICKLE     protocol 5, several pickles with one memo
TRAILER    JSON: ``variables`` (records), ``order`` (the buffers in the order in which the
           pickle asks for them), ``apart`` (see below), ``witness``
END        BLAKE2b of all tags before; nothing follows
========== ============================================================================

with buffers in any number and order. So a capture can be sent while it is made, a buffer
can be sent before the pickle that needs it exists, and be corrected after.

A tag is xxh3_128 of its bytes, seeded with the number of the tag: against damage. In a
sealed capture it is a GMAC with that number as nonce, so that no block can be changed, left
out, moved or taken from another capture. A head is verified before its lengths are believed,
and everything before anything is unpickled.

Large ``bytes`` of the pickle stand among the buffers, so that they are never copied in
memory; ``apart`` lists where: pairs of an offset in the pickle and a place in ``order``.
"""

from __future__ import annotations

import enum
import mmap
import struct
from dataclasses import dataclass

MAGIC = b"DEVCLKS3"
SALT_BYTES = 16
PRELUDE_BYTES = len(MAGIC) + 1 + SALT_BYTES
TAG_BYTES = 16
DIGEST_BYTES = 32
#: Of data for one tag. Fits the second-level cache, so that data is tagged where it is read.
CHUNK = 1 << 20
#: A buffer of this size is mapped where the capture is a file.
MAPPED = 8 << 20
PAGE = mmap.PAGESIZE
#: What JSON may take at most; more is no capture of ours.
HEADER_LIMIT = 1 << 16
TRAILER_LIMIT = 1 << 28

_HEAD = struct.Struct("<BBHIQQ")
HEAD_BYTES = _HEAD.size
#: What stands before the padding of a block.
FRONT_BYTES = HEAD_BYTES + TAG_BYTES


class Kind(enum.IntEnum):
    """What a block is."""

    HEADER = 1
    BUFFER = 2
    ROOM = 3
    PIECE = 4
    DROP = 5
    PICKLE = 6
    TRAILER = 7
    END = 8


class Memory(enum.IntEnum):
    """What a buffer's memory belongs to, so that it can be received where it is to stay."""

    PLAIN = 0
    TENSOR = 1


@dataclass(frozen=True)
class Head:
    """The head of a block.

    Attributes
    ----------
    number
        Of the buffer; 0 for other blocks.
    offset
        Where in the buffer the data belongs; of ROOM, the length of the whole buffer.
    length
        Of the data, in bytes.
    """

    kind: Kind
    length: int = 0
    number: int = 0
    offset: int = 0
    memory: Memory = Memory.PLAIN
    padding: int = 0

    def pack(self) -> bytes:
        """Return the head as it stands in a capture."""
        return _HEAD.pack(
            self.kind, self.memory, self.padding, self.number, self.offset, self.length
        )

    @classmethod
    def unpack(cls, content: bytes) -> Head:
        """Read back what :meth:`pack` gave; raise ``ValueError`` for anything else."""
        kind, memory, padding, number, offset, length = _HEAD.unpack(content)
        return cls(Kind(kind), length, number, offset, Memory(memory), padding)

    @property
    def chunks(self) -> int:
        """How many tags follow the data."""
        return -(-self.length // CHUNK)


def padding(position: int, kind: Kind, length: int) -> int:
    """Return how many bytes of padding a block has whose head ends at a position."""
    return -position % PAGE if kind is Kind.BUFFER and length >= MAPPED else 0
