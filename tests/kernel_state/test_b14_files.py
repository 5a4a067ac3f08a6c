"""B14: a load never opens, truncates or creates a file of the person's."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from sessions import moved, plan_of, session


def _hash(folder: Path) -> str:
    digest = hashlib.blake2b()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("mode", ["w", "w+", "x", "a", "wb", "w+b", "r"])
def test_b14_a_closed_file_comes_over_closed_and_its_content_stays(tmp_path, mode):
    path = tmp_path / "a.csv"
    if mode == "r":
        path.write_text("foo")
    with path.open(mode) as file:
        if mode != "r":
            file.write(b"foo" if "b" in mode else "foo")
    before = _hash(tmp_path)
    namespace = session(file=file)
    assert plan_of(namespace)["file"].kind == "carried"
    there = moved(namespace)["file"]
    assert there.closed
    assert Path(there.name) == path
    assert type(there) is type(file)
    assert path.read_text() == "foo"
    assert _hash(tmp_path) == before


@pytest.mark.parametrize("mode", ["w", "w+", "a", "r+", "rb"])
def test_b14_an_open_file_is_refused_with_path_mode_and_place(tmp_path, mode):
    path = tmp_path / "a.csv"
    path.write_text("foobar")
    with path.open(mode) as file:
        if mode == "r+":
            file.seek(3)
        before = _hash(tmp_path)
        namespace = session(log={"to": file}, file=file)
        plan = plan_of(namespace)
        assert plan["file"].kind == plan["log"].kind == "refused"
        assert str(path) in plan["file"].reason
        assert f"mode {file.mode!r}" in plan["file"].reason
        assert "Close it" in plan["file"].remedy
        if mode == "r+":
            assert "byte 3" in plan["file"].reason
        there = moved(namespace)
        assert "file" not in there
        assert not file.closed
        assert _hash(tmp_path) == before


def test_b14_text_not_written_yet_is_not_flushed_by_a_plan(tmp_path):
    with (tmp_path / "a").open("w") as file:
        file.write("half")
        plan_of(session(file=file))
        assert (tmp_path / "a").read_text() == ""


def test_b14_temporary_and_mapped_files_are_refused(tmp_path):
    mapped = np.memmap(tmp_path / "m", dtype="u1", mode="w+", shape=(16,))
    mapped[:] = 7
    mapped.flush()
    with tempfile.NamedTemporaryFile(dir=tmp_path) as temporary:
        before = _hash(tmp_path)
        namespace = session(mapped=mapped, part=mapped[2:4], plain=np.asarray(mapped), t=temporary)
        plan = plan_of(namespace)
        assert {r.kind for r in plan.values()} == {"refused"}
        assert str(tmp_path / "m") in plan["mapped"].reason
        moved(namespace)
        assert _hash(tmp_path) == before
