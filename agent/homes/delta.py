"""How one home becomes like another: a pure comparison of two manifests."""

from __future__ import annotations

from dataclasses import dataclass, field

from .manifest import Entry, parents


@dataclass
class Delta:
    """What to do to a home, in this order. Removals are explicit, never implied."""

    #: Names that go, deepest first; also those whose kind changes.
    delete: list[bytes] = field(default_factory=list)
    #: Folders and symbolic links to make, outer first.
    make: list[Entry] = field(default_factory=list)
    #: Files whose content must come over.
    fetch: list[Entry] = field(default_factory=list)
    #: Further names of a file: ``entry.link`` is its first.
    link: list[Entry] = field(default_factory=list)
    #: Names whose mode, owner, times or attributes are to be set, deepest first.
    meta: list[Entry] = field(default_factory=list)


def diff(have: list[Entry], want: list[Entry]) -> Delta:
    """Return what makes ``have`` equal to ``want``."""
    mine = {entry.path: entry for entry in have}
    theirs = {entry.path: entry for entry in want}
    delta = Delta()
    delta.delete = [
        entry.path for entry in reversed(have) if _must_go(entry, theirs.get(entry.path))
    ]
    kept = mine.keys() - set(delta.delete)
    changed: set[bytes] = set(delta.delete)
    fetched: set[bytes] = set()
    owners: dict[bytes, bytes] = {}  # my inode (by first name) -> the file of theirs that keeps it
    for entry in want:
        path = entry.path
        there = mine[path] if path in kept else None
        if entry.kind != "f":
            if there is None:
                delta.make.append(entry)
                changed.add(path)
        elif entry.link:
            if not _linked(entry, mine, kept, fetched):
                delta.link.append(entry)
                changed.add(path)
        elif there is None or not _same_content(there, entry) or _claimed(owners, there, path):
            delta.fetch.append(entry)
            fetched.add(path)
            changed.add(path)
    touched = {folder for path in changed for folder in parents(path)}
    delta.meta = [
        entry
        for entry in reversed(want)
        if not entry.link
        and (entry.path in changed or entry.path in touched or _meta_differs(mine, entry))
    ]
    return delta


def _must_go(mine: Entry, theirs: Entry | None) -> bool:
    if theirs is None or theirs.kind != mine.kind:
        return True
    return mine.kind == "l" and theirs.target != mine.target


def _same_content(mine: Entry, theirs: Entry) -> bool:
    return mine.size == theirs.size and mine.digest == theirs.digest != ""


def _claimed(owners: dict[bytes, bytes], mine: Entry, path: bytes) -> bool:
    """Tell whether my inode already serves another file of theirs: then it needs one of its own."""
    return owners.setdefault(mine.link or mine.path, path) != path


def _linked(entry: Entry, mine: dict[bytes, Entry], kept: set[bytes], fetched: set[bytes]) -> bool:
    if entry.path not in kept or entry.link not in kept or entry.link in fetched:
        return False
    one, other = mine[entry.path], mine[entry.link]
    return (one.link or one.path) == (other.link or other.path)


def _meta_differs(mine: dict[bytes, Entry], entry: Entry) -> bool:
    there = mine.get(entry.path)
    return there is None or (
        (there.mode, there.uid, there.gid, there.mtime_ns, there.xattrs)
        != (entry.mode, entry.uid, entry.gid, entry.mtime_ns, entry.xattrs)
    )
