"""Digests of files, computed once: holes cost nothing, an unchanged file is not read again."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..durable import read_json, write_json

BLOCK = 1 << 18
_ZEROS = bytes(BLOCK)

#: A change within this time of the last one may leave the same ctime: the kernel's clock tick.
TICK_NS = 50_000_000
#: The same for file systems that keep whole seconds (or, as FAT and old NFS, two).
COARSE_NS = 2_100_000_000


class Known(NamedTuple):
    """What reading a file told; its ctime changes with any of it."""

    digest: str
    xattrs: tuple[tuple[bytes, bytes], ...]


Key = tuple[int, int, int, int, int]


def extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield ``(offset, length)`` of the parts of a file that hold data."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
            end = os.lseek(fd, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            begin, end = at, size  # the file system does not know holes
        end = min(end, size)
        if begin >= end:
            return
        yield begin, end - begin
        at = end


class ContentDigest:
    """The digest of a content, the same whether zeros are stored or are holes.

    Blocks of 256 KiB are hashed with their index; blocks of zeros do not count. So a
    hole of 1 TiB takes no time, and a file that a file system stored differently
    compares equal.
    """

    def __init__(self, size: int) -> None:
        self._hash = hashlib.sha256(b"%d;" % size)

    def block(self, index: int, content: memoryview | bytes) -> None:
        """Add one block; call in order of index. The last one may be short."""
        if content != _ZEROS[: len(content)]:
            self._hash.update(b"%d:" % index)
            self._hash.update(content)

    def value(self) -> str:
        """Return the digest as text."""
        return self._hash.hexdigest()[:40]


def digest(fd: int, size: int) -> str:
    """Return the digest of an open file's first ``size`` bytes."""
    found = ContentDigest(size)
    buffer = bytearray(BLOCK)
    view = memoryview(buffer)
    done = -1
    for offset, length in extents(fd, size):
        for index in range(max(offset // BLOCK, done + 1), (offset + length - 1) // BLOCK + 1):
            want = min(BLOCK, size - index * BLOCK)
            got = os.preadv(fd, [view[:want]], index * BLOCK)
            found.block(index, view[:got])
            done = index
    return found.value()


class DigestCache:
    """Remembers what files hold, by ``(dev, ino, size, mtime, ctime)``.

    An entry is trusted only if the file was read later than its ctime could still be
    given to another change; a clock that was set back makes it not trusted too.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[Key, Known] = {}
        self._seen: set[Key] = set()
        self._dirty = False
        rows = read_json(path) if path else None
        for row in rows if isinstance(rows, list) else []:
            key, content, xattrs = row
            pairs = tuple((bytes.fromhex(k), bytes.fromhex(v)) for k, v in xattrs)
            self._known[tuple(key)] = Known(content, pairs)

    def get(self, info: os.stat_result) -> Known | None:
        """Return what is known of a file, if it can be trusted."""
        key = _key(info)
        self._seen.add(key)
        return self._known.get(key)

    def put(self, info: os.stat_result, known: Known, read_at_ns: int | None = None) -> None:
        """Remember what a file held at ``read_at_ns`` (by default: now)."""
        now = time.time_ns() if read_at_ns is None else read_at_ns
        window = COARSE_NS if info.st_ctime_ns % 1_000_000_000 == 0 else TICK_NS
        if info.st_ctime_ns + window < now:
            key = _key(info)
            self._known[key] = known
            self._seen.add(key)
            self._dirty = True

    def begin(self) -> None:
        """Note which files are seen from here on."""
        self._seen.clear()

    def finish(self) -> None:
        """Forget the files that were not seen since :meth:`begin`, and save what is new."""
        if self._dirty:
            self._known = {key: one for key, one in self._known.items() if key in self._seen}
            self.save()

    def save(self) -> None:
        """Write what was learnt, so that a restarted agent does not read all anew."""
        if self._path and self._dirty:
            write_json(
                self._path,
                [
                    [list(key), known.digest, [[k.hex(), v.hex()] for k, v in known.xattrs]]
                    for key, known in self._known.items()
                ],
            )
        self._dirty = False


def _key(info: os.stat_result) -> Key:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
