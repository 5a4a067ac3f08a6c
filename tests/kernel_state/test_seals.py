"""Sealed captures load with their own seal, and with no other."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import numpy as np
import pytest
from devcluster import kernel_state
from devcluster.kernel_state import CaptureError, Seal
from devcluster.kernel_state.stream import reader
from sessions import session

SEAL = Seal(b"k" * 32, "alice", "default", 3)


@pytest.fixture
def sealed() -> bytes:
    stream = io.BytesIO()
    namespace = session(a=[1, 2], big=np.arange(300_000), text="x" * 2_000_000)
    kernel_state.save(stream, namespace=namespace, seal=SEAL)
    return stream.getvalue()


def refused(content: bytes, seal: Seal | None, match: str) -> None:
    target = session(mine=1)
    before = dict(target)
    with pytest.raises(CaptureError, match=match):
        kernel_state.load(io.BytesIO(content), namespace=target, seal=seal)
    assert target == before


def test_a_sealed_capture_loads_with_its_seal(sealed: bytes) -> None:
    target = session()
    kernel_state.load(io.BytesIO(sealed), namespace=target, seal=Seal.from_json(SEAL.to_json()))
    assert target["a"] == [1, 2]
    assert target["big"][-1] == 299_999


@pytest.mark.parametrize(
    ("seal", "match"),
    [
        (None, "is sealed"),
        (replace(SEAL, key=b"K" * 32), "another key"),
        (replace(SEAL, owner="mallory"), "another owner: 'alice', not 'mallory'"),
        (replace(SEAL, workspace="other"), "another workspace"),
        (replace(SEAL, sequence=4), "another sequence: 3, not 4"),
    ],
)
def test_any_other_seal_is_refused_and_the_message_says_which(
    sealed: bytes, seal: Seal | None, match: str
) -> None:
    refused(sealed, seal, match)


def test_a_capture_without_a_seal_is_refused_where_one_is_asked_for() -> None:
    stream = io.BytesIO()
    kernel_state.save(stream, namespace=session(a=1))
    refused(stream.getvalue(), SEAL, "has no seal")


def test_any_changed_byte_breaks_the_seal(sealed: bytes) -> None:
    chance = random.Random(6)
    for at in [*range(150), *(chance.randrange(len(sealed)) for _ in range(50))]:
        damaged = bytearray(sealed)
        damaged[at] ^= 1 << chance.randrange(8)
        refused(bytes(damaged), SEAL, ".")


def test_nothing_is_unpickled_of_a_capture_with_another_key(
    sealed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pickle.Unpickler", None)
    refused(sealed, replace(SEAL, key=b"K" * 32), "another key")


def test_the_list_of_variables_can_be_read_without_the_key(sealed: bytes, tmp_path) -> None:
    (tmp_path / "capture").write_bytes(sealed)
    names = {record.name for record in reader.read_records(tmp_path / "capture")}
    assert names == {"a", "big", "text"}
    assert b"k" * 32 not in sealed


def test_a_seal_never_shows_its_key_and_refuses_a_short_one() -> None:
    assert "k" * 4 not in repr(SEAL)
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Seal(b"short", "alice", "default", 1)
    for broken in ({}, {**SEAL.to_json(), "key": "?"}, {**SEAL.to_json(), "sequence": "3"}):
        with pytest.raises(ValueError, match="no seal"):
            Seal.from_json(broken)
