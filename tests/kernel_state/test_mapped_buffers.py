"""Large arrays are laid over the capture's file, not read; nobody can tell."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import devcluster.kernel_state as kernel_state
import numpy as np
import pytest
from devcluster.kernel_state.stream.blocks import MAPPED
from devcluster.kernel_state.stream.incoming import CaptureMemory
from devcluster.kernel_state.types.arrays import _exporter


def large(seed: int) -> Any:
    return np.random.default_rng(seed).random(MAPPED // 8 + seed)


def session() -> dict[str, Any]:
    """Large and small buffers in turn, so that each large one begins at another offset."""
    first, small = large(1), np.arange(20_001, dtype=np.int16)
    return {
        "first": first,
        "small": small,
        "fortran": np.asfortranarray(large(2)[: 1 << 20].reshape(1024, 1024)),
        "view": first[5:10],
        "second": large(3),
        "last": small[::2],
    }


def check(names: dict[str, Any]) -> None:
    for name, value in session().items():
        assert np.array_equal(names[name], value), name
        assert names[name].flags.writeable
        assert names[name].flags.aligned
    names["view"][0] = -1.0
    assert names["first"][5] == -1.0
    assert names["fortran"].flags.f_contiguous


def test_they_are_mapped_and_live_on_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "one.state"
    kernel_state.save(path, namespace=session())
    before = path.read_bytes()
    names: dict[str, Any] = {}
    records = kernel_state.load(path, namespace=names)
    assert isinstance(_exporter(names["first"]), CaptureMemory)
    check(names)
    assert path.read_bytes() == before, "a write to an array reached the file"
    path.unlink()
    names["second"] += 1.0
    assert np.array_equal(names["second"], large(3) + 1.0)
    assert all(record.kind == "carried" for record in records), records


def test_a_second_move_carries_what_was_mapped(tmp_path: Path) -> None:
    kernel_state.save(tmp_path / "one.state", namespace=session())
    names: dict[str, Any] = {}
    kernel_state.load(tmp_path / "one.state", namespace=names)
    names["first"][0] = 7.0
    plan = {record.name: record for record in kernel_state.plan(namespace=names)}
    assert {(r.kind, r.reason) for r in plan.values()} == {("carried", "")}
    kernel_state.save(tmp_path / "two.state", namespace=names)
    (tmp_path / "one.state").unlink()
    again: dict[str, Any] = {}
    kernel_state.load(tmp_path / "two.state", namespace=again)
    assert again["first"][0] == 7.0
    again["first"][0] = large(1)[0]
    check(again)


@pytest.mark.parametrize("prefix", [b"", b"abc"])
def test_a_stream_that_is_no_file_is_read(prefix: bytes) -> None:
    stream = io.BytesIO()
    stream.write(prefix)
    kernel_state.save(stream, namespace=session())
    stream.seek(len(prefix))
    names: dict[str, Any] = {}
    kernel_state.load(stream, namespace=names)
    check(names)


def test_a_capture_behind_something_else_in_a_file_is_read(tmp_path: Path) -> None:
    with (tmp_path / "odd").open("w+b", buffering=0) as file:
        file.write(b"abc")
        kernel_state.save(file, namespace=session())
        file.seek(3)
        names: dict[str, Any] = {}
        kernel_state.load(file, namespace=names)
    assert not isinstance(_exporter(names["first"]), CaptureMemory)
    check(names)


def test_more_large_arrays_than_mappings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devcluster.kernel_state.stream.incoming._MAPPINGS", 1)
    kernel_state.save(tmp_path / "one.state", namespace=session())
    names: dict[str, Any] = {}
    kernel_state.load(tmp_path / "one.state", namespace=names)
    check(names)
