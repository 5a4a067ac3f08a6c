"""Homes become equal, byte for byte: names, kinds, links, holes, times; also after round trips."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from devcluster.agent.homes.apply import Home, apply
from devcluster.agent.homes.delta import diff
from devcluster.agent.homes.digests import TICK_NS, DigestCache
from devcluster.agent.homes.frames import Receiver, send
from devcluster.agent.homes.manifest import Entry, from_wire, scan, to_wire
from devcluster.core.errors import BadRequest, StepFailed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


class Stream(io.BytesIO):
    def readinto(self, buffer: Any, /) -> int:
        return super().readinto(buffer)


def mirror(source: Path, target: Path) -> dict[str, int]:
    """Make target like source by the very steps of a fetch, without the network."""
    wire = json.loads(json.dumps(to_wire(scan(str(source), DigestCache()).entries)))
    want = from_wire(wire)
    delta = diff(scan(str(target), DigestCache()).entries, want)
    content = b"".join(send(str(source), [entry.path for entry in delta.fetch]))
    receiver = Receiver(Stream(content))  # type: ignore[arg-type]
    receiver.header()
    staged: dict[bytes, str] = {}
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        names = iter(range(1 << 30))
        while "end" not in (header := receiver.header()):
            path = os.path.join(folder, str(next(names)))
            receiver.content(header, path)
            staged[delta.fetch[header["n"]].path] = path
        with Home(str(target)) as home:
            apply(home, delta, staged, lambda: os.path.join(folder, str(next(names))))
    return {"sent": receiver.received, "files": len(staged), "deleted": len(delta.delete)}


def comparable(root: Path) -> list[Entry]:
    return scan(str(root), DigestCache(), strict=True).entries


def same(one: Path, other: Path) -> None:
    assert comparable(one) == comparable(other)


@pytest.fixture
def a(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    return tmp_path / "a"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    return tmp_path / "b"


def test_b08_a_folder_made_anew_hides_what_was_in_it(a: Path, b: Path) -> None:
    (a / "d/sub").mkdir(parents=True)
    (a / "d/old").write_text("old")
    (a / "d/sub/deep").write_text("deep")
    mirror(a, b)
    shutil.rmtree(a / "d")
    (a / "d/sub").mkdir(parents=True)
    (a / "d/new").touch()
    (a / "d/sub/new").touch()
    mirror(a, b)
    same(a, b)
    assert not (b / "d/old").exists()
    mirror(b, a)
    same(a, b)
    assert not (a / "d/sub/deep").exists()


@pytest.mark.parametrize("first", ["file", "folder", "link", "link-to-folder"])
@pytest.mark.parametrize("second", ["file", "folder", "link", "link-to-folder", "nothing"])
def test_b08_any_kind_replaces_any_other(a: Path, b: Path, first: str, second: str) -> None:
    (a / "real").mkdir()
    (a / "real/kept").write_text("kept")

    def become(kind: str) -> None:
        one = a / "x"
        if kind == "file":
            one.write_text("content")
        elif kind == "folder":
            one.mkdir()
            (one / "inner").write_text(kind)
        elif kind == "link":
            one.symlink_to("nowhere")
        elif kind == "link-to-folder":
            one.symlink_to("real")

    become(first)
    mirror(a, b)
    if first == "folder":
        shutil.rmtree(a / "x")
    else:
        (a / "x").unlink()
    become(second)
    mirror(a, b)
    same(a, b)
    assert (b / "real/kept").read_text() == "kept"


NAMES = [
    b"caf\xe9", b"\xff\xfe", b"a\nb", b"\n", b"-rf", b" lead", b"trail ", b"tab\tx", b"\x1b[31m",
    b"a\\b", b"%00", b"con:aux", b"*", b".wh.foo", b".wh..wh..opq", b"n" * 255,
    "é".encode(), "e\u0301".encode(), b"A", b"a", b"\xed\xa0\x80",
]  # fmt: skip


def test_b18_names_are_bytes(a: Path, b: Path) -> None:
    for name in NAMES:
        whole = os.path.join(os.fsencode(a), name)
        with open(whole, "wb") as file:
            file.write(name)
        os.setxattr(whole, b"user.caf\xe9", name)
        os.symlink(name, os.path.join(os.fsencode(a), b"to" + name[:250]))
    mirror(a, b)
    same(a, b)
    assert mirror(a, b)["files"] == 0


def test_b18_a_path_longer_than_the_system_takes_at_once(a: Path, b: Path) -> None:
    fd = os.open(a, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(b"d" * 255, dir_fd=fd)
        deeper = os.open(b"d" * 255, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)
    mirror(a, b)
    same(a, b)
    assert len(comparable(b)[-1].path) > 4096


def test_b20_holes_are_neither_read_nor_sent_nor_filled(a: Path, b: Path) -> None:
    with (a / "big.img").open("wb") as file:
        for offset in (0, 1 << 33, (1 << 34) - 4096):
            file.seek(offset)
            file.write(b"\1" * 4096)
        file.truncate((1 << 34) + 12345)
    (a / "empty.img").touch()
    os.truncate(a / "empty.img", 1 << 34)
    began = time.process_time()
    assert mirror(a, b)["sent"] < 1 << 20
    assert time.process_time() - began < 5
    same(a, b)
    was, now = (a / "big.img").stat(), (b / "big.img").stat()
    assert now.st_size == was.st_size
    assert now.st_blocks <= was.st_blocks * 1.05
    # The same content without holes is the same content.
    (a / "dense").write_bytes(bytes(1 << 20) + b"x")
    (b / "dense").touch()
    with (b / "dense").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"x")
    assert mirror(a, b)["files"] == 0


def test_b21_hard_links_stay_links(a: Path, b: Path) -> None:
    (a / "d").mkdir()
    (a / "one").write_text("content")
    mirror(a, b)
    os.link(a / "one", a / "d/two")
    os.link(a / "one", a / "zzz")
    assert mirror(a, b)["sent"] == 0
    same(a, b)
    assert (b / "d/two").stat().st_ino == (b / "zzz").stat().st_ino == (b / "one").stat().st_ino
    (a / "one").unlink()
    (a / "zzz").write_text("changed through one name")
    (a / "zzz").chmod(0o600)
    mirror(a, b)
    same(a, b)
    assert (b / "d/two").read_text() == "changed through one name"
    # Two files of one content that were one, and no more are.
    (a / "zzz").unlink()
    (a / "zzz").write_text("changed through one name")
    mirror(a, b)
    same(a, b)
    assert (b / "d/two").stat().st_nlink == 1


def test_b29_equal_size_and_time_do_not_mean_equal_content(a: Path, b: Path) -> None:
    cache = DigestCache()

    def seen() -> str:
        return scan(str(a), cache).entries[1].digest

    (a / "f").write_text("1")
    info = (a / "f").stat()
    found = {seen()}
    for content in ("2", "3", "4"):
        (a / "f").write_text(content)  # within the same tick, likely
        os.utime(a / "f", ns=(info.st_mtime_ns, info.st_mtime_ns))
        found.add(seen())
    assert len(found) == 4
    (a / "g").write_text("5")
    os.utime(a / "g", ns=(info.st_mtime_ns, info.st_mtime_ns))
    (a / "g").replace(a / "f")
    assert seen() not in found


def test_b29_a_ctime_within_the_tick_is_not_trusted(a: Path) -> None:
    (a / "f").write_text("1")
    info = (a / "f").stat()
    from devcluster.agent.homes.digests import Known

    cache = DigestCache()
    cache.put(info, Known("x", ()), read_at_ns=info.st_ctime_ns + TICK_NS)
    assert cache.get(info) is None
    cache.put(info, Known("x", ()), read_at_ns=info.st_ctime_ns - 1)  # the clock was set back
    assert cache.get(info) is None
    cache.put(info, Known("x", ()), read_at_ns=info.st_ctime_ns + TICK_NS + 1)
    assert cache.get(info) == Known("x", ())


def test_an_unchanged_file_is_not_read_again_even_by_a_restarted_agent(
    a: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a / "f").write_bytes(b"x" * 1000)
    os.setxattr(a / "f", "user.tag", b"\xff")
    cache = DigestCache(tmp_path / "cache.json")
    info = (a / "f").stat()
    while time.time_ns() <= info.st_ctime_ns + TICK_NS:
        time.sleep(0.005)
    cache.begin()
    first = scan(str(a), cache)
    cache.finish()
    monkeypatch.setattr("devcluster.agent.homes.manifest.digest", lambda *_: pytest.fail("read"))
    assert scan(str(a), DigestCache(tmp_path / "cache.json")) == first


def test_sockets_and_pipes_stay_and_are_named(a: Path, b: Path) -> None:
    os.mkfifo(a / "pipe")
    (a / "db").touch()
    (a / "db-shm").touch()
    (a / "lone-shm").touch()
    notes = scan(str(a), DigestCache()).notes
    assert len(notes) == 1
    assert "pipe" in notes[0]
    mirror(a, b)
    assert sorted(os.listdir(b)) == ["db", "lone-shm"]


def test_a_folder_with_something_not_carried_in_it_still_goes(a: Path, b: Path) -> None:
    (b / "d/e").mkdir(parents=True)
    os.mkfifo(b / "d/e/pipe")
    mirror(a, b)
    assert os.listdir(b) == []


HOSTILE: list[tuple[str, Callable[[dict[str, list[Any]]], list[list[Any]]]]] = [
    ("plain path", lambda e: [e["root"], [*["../x"], *e["file"][1:]]]),
    ("plain path", lambda e: [e["root"], [*["/etc/x"], *e["file"][1:]]]),
    ("plain path", lambda e: [e["root"], [*["a/../../x"], *e["file"][1:]]]),
    ("plain path", lambda e: [e["root"], [*["a\0b"], *e["file"][1:]]]),
    ("no", lambda e: [e["root"], e["link"], [*["link/x"], *e["file"][1:]]]),
    ("nothing that is a folder", lambda e: [e["root"], e["file"], ["file/x", *e["file"][1:]]]),
    ("twice", lambda e: [e["root"], e["file"], e["file"]]),
    ("hard link", lambda e: [e["root"], [*e["file"][:8], "../../id", *e["file"][9:]]]),
    ("kind", lambda e: [e["root"], ["dev", "b", *e["file"][2:]]]),
    ("out of range", lambda e: [e["root"], [*e["file"][:6], 2**63, *e["file"][7:]]]),
    ("out of range", lambda e: [e["root"], [*e["file"][:6], -1, *e["file"][7:]]]),
    ("attribute", lambda e: [e["root"], [*e["file"][:9], [["security.capability", "x"]], ""]]),
    ("malformed", lambda e: [e["root"], ["x", "f"]]),
    ("malformed", lambda e: [e["root"], [*e["file"][:2], "7", *e["file"][3:]]]),
    ("begins with the home", lambda e: []),
    ("folder", lambda e: [["", "f", *e["root"][2:]]]),
]


@pytest.mark.parametrize(("words", "rows"), HOSTILE)
def test_b62_a_hostile_manifest_is_refused_as_a_whole(
    words: str, rows: Callable[[dict[str, list[Any]]], list[list[Any]]]
) -> None:
    known = {
        "root": ["", "d", 0o755, 0, 0, 0, 0, "", "", [], ""],
        "file": ["file", "f", 0o644, 0, 0, 0, 1, "", "", [], "0"],
        "link": ["link", "l", 0o777, 0, 0, 0, 0, "/", "", [], ""],
    }
    with pytest.raises(BadRequest, match=words):
        from_wire(rows(known))


def test_b62_a_link_swapped_in_meanwhile_leads_nowhere(b: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not ours")
    (b / "d").symlink_to(outside)
    staged = tmp_path / "staged"
    staged.write_text("evil")
    with Home(str(b)) as home:
        for change in (
            lambda: home.place(str(staged), b"d/x"),
            lambda: home.remove(b"d/x"),
            lambda: home.open_file(b"d/x"),
            lambda: home.dress(Entry(b"d/x", "f", 0o777, 0, 0, 0)),
            lambda: home.make(Entry(b"d/new", "d", 0o777, 0, 0, 0)),
        ):
            with pytest.raises(NotADirectoryError):
                change()
    assert (outside / "x").read_text() == "not ours"
    assert os.listdir(outside) == ["x"]


@pytest.mark.parametrize("path", [b"../x", b"/etc/passwd", b"d/../../x", b"..", b".", b"", b"a\0"])
def test_b62_no_path_leads_out_of_a_home(b: Path, path: bytes) -> None:
    (b / "d").mkdir()
    (b.parent / "x").write_text("not ours")
    assert b'"gone"' in b"".join(send(str(b), [path]))
    with Home(str(b)) as home, pytest.raises(FileNotFoundError):
        home.open_file(path)
    assert (b.parent / "x").exists()


def test_a_cut_stream_is_never_taken_for_whole(a: Path, tmp_path: Path) -> None:
    (a / "f").write_bytes(b"x" * 1000)
    content = b"".join(send(str(a), [b"f", b"gone"]))
    for length in (2, 30, 500, len(content) - 1):
        receiver = Receiver(Stream(content[:length]))  # type: ignore[arg-type]

        def read_all(receiver: Receiver = receiver, length: int = length) -> None:
            receiver.header()
            receiver.content(receiver.header(), str(tmp_path / f"out{length}"))
            while "end" not in receiver.header():
                pass

        with pytest.raises(StepFailed, match="middle"):
            read_all()


# --- any edits -------------------------------------------------------------------------------

name = st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/a", "é", "x\n"])
edit = st.one_of(
    st.tuples(st.just("write"), name, st.binary(max_size=3)),
    st.tuples(st.just("remove"), name, st.just("")),
    st.tuples(st.just("folder"), name, st.just("")),
    st.tuples(st.just("symlink"), name, name),
    st.tuples(st.just("link"), name, name),
    st.tuples(st.just("rename"), name, name),
    st.tuples(st.just("chmod"), name, st.sampled_from([0o600, 0o644, 0o755])),
    st.tuples(st.just("touch"), name, st.sampled_from([0, 1, 2**33])),
    st.tuples(st.just("tag"), name, st.binary(max_size=2)),
)


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def carry_out(root: Path, what: str, where: str, value: Any) -> None:
    path = root / where
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if what in ("folder", "symlink", "link", "rename", "remove"):
            other = root / str(value)
            if what == "link" and (not other.is_file() or other.is_symlink() or other == path):
                return
            if what == "rename" and not (other.exists() and other not in (path, *path.parents)):
                return
            if path in other.parents:
                return
            clear(path)
        if what == "write":
            path.write_bytes(value)
        elif what == "folder":
            path.mkdir()
        elif what == "symlink":
            path.symlink_to(value)
        elif what == "link":
            os.link(root / value, path)
        elif what == "rename":
            os.rename(root / value, path)
        elif what == "chmod":
            path.chmod(value)
        elif what == "touch":
            os.utime(path, (value, value))
        elif what == "tag":
            os.setxattr(path, "user.tag", value)
    except OSError:
        pass  # an edit that the tree does not allow just now


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(edit, max_size=12), st.lists(edit, max_size=12), st.lists(edit, max_size=8))
def test_any_edits_arrive_and_come_back(
    first: list[Any], second: list[Any], third: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a"), Path(folder, "b")
        a.mkdir()
        b.mkdir()
        for edits, here, there in ((first, a, b), (second, a, b), (third, b, a)):
            for one in edits:
                carry_out(here, *one)
            mirror(here, there)
            same(here, there)
