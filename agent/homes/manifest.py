"""What is in a home: one entry for each name, with all that must be the same elsewhere.

Names are bytes throughout, since a home may hold any. On the wire they are text by
``surrogateescape``, which JSON carries without loss whatever the locale.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from devcluster.core.errors import BadRequest, StepFailed

from .digests import DigestCache, Known, digest

#: Deeper trees than this are refused: each level holds a descriptor open while scanned.
MAX_DEPTH = 400


class Entry(NamedTuple):
    """One name of a home.

    Attributes
    ----------
    path
        Relative to the home, without a leading slash; ``b""`` is the home itself.
    kind
        ``d`` folder, ``f`` file, ``l`` symbolic link.
    target
        Of a symbolic link.
    link
        Of a further name of a hard-linked file: the first name. Else empty.
    digest
        Of a file's content; empty if it changed while it was read.
    """

    path: bytes
    kind: str
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size: int = 0
    target: bytes = b""
    link: bytes = b""
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    digest: str = ""


class Manifest(NamedTuple):
    """A whole home; folders come before what is in them."""

    entries: list[Entry]
    #: Names that are not carried, and why, for people.
    notes: list[str]


def to_text(name: bytes) -> str:
    """Return a name as text that :func:`to_bytes` turns back into the same bytes."""
    return name.decode("utf-8", "surrogateescape")


def to_bytes(name: str) -> bytes:
    """Undo :func:`to_text`."""
    return name.encode("utf-8", "surrogateescape")


def for_people(name: bytes) -> str:
    """Return a name that is safe in logs and messages."""
    return repr(name)[1:]


def scan(root: bytes | str, cache: DigestCache, strict: bool = False) -> Manifest:
    """Read what is in a home; a file that did not change since the last scan costs one stat.

    Parameters
    ----------
    strict
        Nobody writes to the home now, so whatever cannot be read is an error.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return _Scan(cache, strict).run(fd)
    finally:
        os.close(fd)


class _Scan:
    def __init__(self, cache: DigestCache, strict: bool) -> None:
        self._cache, self._strict = cache, strict
        self._entries: list[Entry] = []
        self._notes: list[str] = []
        self._inodes: dict[tuple[int, int], bytes] = {}

    def run(self, root: int) -> Manifest:
        info = os.fstat(root)
        self._entries.append(
            Entry(b"", "d", stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns,
                  xattrs=_xattrs(root))
        )  # fmt: skip
        self._folder(root, b"", 0)
        return Manifest(self._entries, self._notes)

    def _folder(self, fd: int, path: bytes, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise StepFailed(
                f"Folders are nested deeper than {MAX_DEPTH} levels below "
                f"{for_people(path[:80])}; move or pack them."
            )
        with os.scandir(fd) as listing:
            found = sorted((os.fsencode(one.name), one) for one in listing)
        names = {name for name, _ in found}
        for name, one in found:
            whole = path + b"/" + name if path else name
            try:
                info = one.stat(follow_symlinks=False)
                self._one(fd, name, whole, info, names, depth)
            except FileNotFoundError:
                if self._strict:
                    raise StepFailed(f"{for_people(whole)} vanished while it was read.") from None
            except PermissionError as error:
                if self._strict:
                    raise StepFailed(
                        f"{for_people(whole)} cannot be read by the agent: {error.strerror}."
                    ) from error
                self._notes.append(f"{for_people(whole)} cannot be read.")

    def _one(
        self,
        parent: int,
        name: bytes,
        path: bytes,
        info: os.stat_result,
        names: set[bytes],
        depth: int,
    ) -> None:
        kind = stat.S_IFMT(info.st_mode)
        mode = stat.S_IMODE(info.st_mode)
        facts = (mode, info.st_uid, info.st_gid, info.st_mtime_ns)
        if kind == stat.S_IFREG:
            if name.endswith(b"-shm") and name[:-4] in names:
                return  # SQLite makes this index of its journal anew; it names one machine's memory
            first = b""
            if info.st_nlink > 1:
                first = self._inodes.setdefault((info.st_dev, info.st_ino), path)
                first = b"" if first == path else first
            known = self._content(parent, name, info)
            self._entries.append(
                Entry(path, "f", *facts, info.st_size, b"", first, known.xattrs, known.digest)
            )
        elif kind == stat.S_IFDIR:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            try:
                self._entries.append(Entry(path, "d", *facts, xattrs=_xattrs(fd)))
                self._folder(fd, path, depth + 1)
            finally:
                os.close(fd)
        elif kind == stat.S_IFLNK:
            target = os.readlink(name, dir_fd=parent)
            self._entries.append(Entry(path, "l", *facts, target=target))
        else:
            self._notes.append(f"{for_people(path)} is a socket, pipe or device: not carried.")

    def _content(self, parent: int, name: bytes, info: os.stat_result) -> Known:
        known = self._cache.get(info)
        if known is not None:
            return known
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
        try:
            before = os.fstat(fd)
            known = Known(digest(fd, before.st_size), _xattrs(fd))
            after = os.fstat(fd)
        finally:
            os.close(fd)
        if _identity(before) != _identity(after) or _identity(before) != _identity(info):
            return Known("", known.xattrs)
        self._cache.put(after, known)
        return known


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _xattrs(fd: int) -> tuple[tuple[bytes, bytes], ...]:
    try:
        names = [os.fsencode(name) for name in os.listxattr(fd)]
    except OSError:  # the file system has none
        return ()
    mine = sorted(name for name in names if name.startswith(b"user."))
    return tuple((name, os.getxattr(fd, name)) for name in mine)


# --- on the wire -------------------------------------------------------------------------


def to_wire(entries: list[Entry]) -> list[list[Any]]:
    """Return entries as JSON values."""
    return [
        [to_text(e.path), e.kind, e.mode, e.uid, e.gid, e.mtime_ns, e.size, to_text(e.target),
         to_text(e.link), [[to_text(k), to_text(v)] for k, v in e.xattrs], e.digest]
        for e in entries
    ]  # fmt: skip


def from_wire(rows: object) -> list[Entry]:
    """Rebuild and check what another host sent; nothing of it may reach outside of a home.

    Raises
    ------
    BadRequest
        Naming the first entry that is not allowed.
    """
    if not isinstance(rows, list):
        raise BadRequest("A manifest is a list of entries.")
    entries: list[Entry] = []
    kinds: dict[bytes, str] = {}
    for row in rows:
        entry = _entry(row)
        _check(entry, kinds)
        kinds[entry.path] = entry.kind
        entries.append(entry)
    if not entries or entries[0].path:
        raise BadRequest("A manifest begins with the home itself.")
    return entries


def _entry(row: object) -> Entry:
    try:
        fields: list[Any] = list(row)  # type: ignore[call-overload]
        path, kind, mode, uid, gid, mtime, size, target, link, xattrs, content = fields
        numbers = (mode, uid, gid, mtime, size)
        if not all(type(number) is int for number in numbers):
            raise TypeError("numbers are whole")
        return Entry(
            to_bytes(path), str(kind), mode, uid, gid, mtime, size, to_bytes(target),
            to_bytes(link), tuple((to_bytes(k), to_bytes(v)) for k, v in xattrs), str(content),
        )  # fmt: skip
    except (TypeError, ValueError, AttributeError) as error:
        raise BadRequest(f"A manifest's entry is malformed: {str(row)[:100]!r}") from error


def _check(entry: Entry, kinds: dict[bytes, str]) -> None:
    path, shown = entry.path, for_people(entry.path[:200])
    if path in kinds:
        raise BadRequest(f"A manifest names {shown} twice.")
    if path or kinds:
        parts = path.split(b"/")
        if any(p in (b"", b".", b"..") or b"\0" in p or len(p) > 255 for p in parts):
            raise BadRequest(f"A manifest's path {shown} is not a plain path below the home.")
        if kinds.get(b"/".join(parts[:-1])) != "d":
            raise BadRequest(f"A manifest's path {shown} lies in nothing that is a folder.")
    elif entry.kind != "d":
        raise BadRequest("The home itself must be a folder.")
    if entry.kind not in ("d", "f", "l"):
        raise BadRequest(f"A manifest's entry {shown} is of the kind {entry.kind!r}, not d, f, l.")
    if entry.link and (entry.kind != "f" or kinds.get(entry.link) != "f"):
        raise BadRequest(f"{shown} is a hard link to {for_people(entry.link)}, which is no file.")
    if (entry.kind == "l") != bool(entry.target) or b"\0" in entry.target:
        raise BadRequest(f"The symbolic link {shown} has a bad target.")
    if not 0 <= entry.size < 2**63 or not 0 <= entry.mode <= 0o7777:
        raise BadRequest(f"The size or mode of {shown} is out of range.")
    if not (0 <= entry.uid < 2**32 - 1 and 0 <= entry.gid < 2**32 - 1):
        raise BadRequest(f"The owner of {shown} is out of range.")
    if any(not name.startswith(b"user.") or b"\0" in name for name, _ in entry.xattrs):
        raise BadRequest(f"{shown} has an extended attribute outside of user.*.")


def parents(path: bytes) -> Iterator[bytes]:
    """Yield the folders above a path, nearest first, down to the home itself."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path
