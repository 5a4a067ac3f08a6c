"""Captures as files: complete or refused, and never half loaded."""

from __future__ import annotations

import io
import os
import pickle
import random
import sys
import threading

import numpy as np
import pytest
from devcluster import kernel_state
from devcluster.kernel_state import CaptureError
from sessions import session


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "capture"
    namespace = session(a=[1, 2], big=np.arange(50_000), text="x" * 2_000_000, b=b"y" * 2_000_000)
    kernel_state.save(path, namespace=namespace)
    return path


def _load_fails(source, match):
    target = session(mine=[1])
    before = dict(target)
    with pytest.raises(CaptureError, match=match):
        kernel_state.load(source, namespace=target)
    assert target == before
    assert target["mine"] is before["mine"]
    assert list(target) == list(before)


def test_a_whole_capture_loads_and_its_list_can_be_read_without_unpickling(capture):
    target = session()
    report = kernel_state.load(capture, namespace=target)
    assert kernel_state.read_records(capture) == report
    assert target["text"] == "x" * 2_000_000
    assert target["b"] == b"y" * 2_000_000
    assert (target["big"] == np.arange(50_000)).all()
    assert capture.stat().st_mode & 0o077 == 0


def test_a_capture_goes_through_a_pipe(capture):
    read, write = os.pipe()
    namespace = session(big=np.arange(300_000), text="x" * 2_000_000)

    def send():
        with os.fdopen(write, "wb") as stream:
            kernel_state.save(stream, namespace=namespace)

    sender = threading.Thread(target=send)
    sender.start()
    target = session()
    with os.fdopen(read, "rb") as stream:
        kernel_state.load(stream, namespace=target)
    sender.join(10)
    assert target["big"][-1] == 299_999


@pytest.mark.parametrize("keep", [0, 1, 20, 56, 100, 400, 3000, 500_000, -1])
def test_a_cut_capture_is_refused_as_file_and_as_stream(capture, keep):
    content = capture.read_bytes()[:keep]
    capture.write_bytes(content)
    _load_fails(capture, "cut")
    _load_fails(io.BytesIO(content), "cut")


def test_any_changed_byte_is_found(capture):
    content = capture.read_bytes()
    chance = random.Random(5)
    for at in [*range(150), *(chance.randrange(len(content)) for _ in range(50))]:
        damaged = bytearray(content)
        damaged[at] ^= 1 << chance.randrange(8)
        _load_fails(io.BytesIO(bytes(damaged)), ".")


def test_what_is_no_capture_is_refused(tmp_path):
    _load_fails(io.BytesIO(pickle.dumps({"a": 1}) + b" " * 100), "no capture")
    _load_fails(io.BytesIO(b"DEVCLKS9" + b" " * 100), "another version")
    _load_fails(tmp_path / "missing", "cannot be read")


def test_a_variable_that_cannot_be_rebuilt_is_named_and_nothing_is_changed(tmp_path):
    code = (
        "class Fails:\n    def __getstate__(self): return {'a': 1}\n"
        "    def __setstate__(self, state): raise ValueError('not here')\n"
        "early = 1\nfails = Fails()\nlate = 2"
    )
    path = tmp_path / "capture"
    kernel_state.save(path, namespace=session(code))
    folder, modules, environ = os.getcwd(), list(sys.path), dict(os.environ)
    _load_fails(path, "fails cannot be rebuilt: ValueError: not here")
    assert (os.getcwd(), sys.path, dict(os.environ)) == (folder, modules, environ)


def test_a_failed_save_leaves_the_capture_that_was_there(capture, monkeypatch):
    before = capture.read_bytes()

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", no_space)
    with pytest.raises(OSError, match="No space"):
        kernel_state.save(capture, namespace=session(a=1))
    assert capture.read_bytes() == before
    assert [p.name for p in capture.parent.iterdir()] == ["capture"]
