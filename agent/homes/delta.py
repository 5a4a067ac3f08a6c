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
    changed = set(delta.delete)
    kept = {path: entry for path, entry in mine.items() if path not in changed}
    differing: set[bytes] = set()
    taken: set[bytes] = set()  # my inodes (by first name) that serve a file of theirs
    for names in _files(want).values():
        anchor = _anchor(names, kept, taken)
        if anchor is None:
            delta.fetch.append(names[0])
            changed.add(names[0].path)
            base = names[0].path
        else:
            base = anchor.path
            if _meta(anchor) != _meta(names[0]):
                differing.add(names[0].path)
        for entry in names:
            there = kept.get(entry.path)
            same = anchor is not None and there is not None and _inode(there) == _inode(anchor)
            if entry.path != base and not same:
                delta.link.append(entry._replace(link=base))
                changed.add(entry.path)
    for entry in want:
        there = kept.get(entry.path)
        if entry.kind == "f":
            continue
        if there is None:
            delta.make.append(entry)
            changed.add(entry.path)
        elif _meta(there) != _meta(entry):
            differing.add(entry.path)
    touched = {folder for path in changed for folder in parents(path)}
    dress = changed | touched | differing
    delta.meta = [entry for entry in reversed(want) if not entry.link and entry.path in dress]
    return delta


def _files(entries: list[Entry]) -> dict[bytes, list[Entry]]:
    """Return the files, each with all its names, by the first one."""
    found: dict[bytes, list[Entry]] = {}
    for entry in entries:
        if entry.kind == "f":
            found.setdefault(entry.link or entry.path, []).append(entry)
    return found


def _anchor(names: list[Entry], kept: dict[bytes, Entry], taken: set[bytes]) -> Entry | None:
    """Return my name that has the content already, on an inode that serves no other file."""
    for entry in names:
        there = kept.get(entry.path)
        if there is None or there.size != entry.size or not entry.digest:
            continue
        if there.digest == entry.digest and _inode(there) not in taken:
            taken.add(_inode(there))
            return there
    return None


def _inode(mine: Entry) -> bytes:
    return mine.link or mine.path


def _must_go(mine: Entry, theirs: Entry | None) -> bool:
    if theirs is None or theirs.kind != mine.kind:
        return True
    return mine.kind == "l" and theirs.target != mine.target


def _meta(entry: Entry) -> tuple[object, ...]:
    return (entry.mode, entry.uid, entry.gid, entry.mtime_ns, entry.xattrs)
