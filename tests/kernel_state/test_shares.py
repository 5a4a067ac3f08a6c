"""Sessions that go over a socket, most of them before the pause."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devcluster.kernel_state import CaptureError, Seal, api
from devcluster.kernel_state.limits import Limit
from devcluster.kernel_state.session import Session
from devcluster.kernel_state.stream.receive import Receipt
from devcluster.kernel_state.stream.share import Listing, Share
from devcluster.kernel_state.walk import survey
from kernels import Kernel
from sessions import session

SEAL = Seal(b"k" * 32, "alice", "default", 3)
MIB = 1 << 20


class Relay:
    """Takes a source's stream and gives it to a target, as the agents do."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = str(folder / "source"), str(folder / "target")
        self._listeners = [self._listen(self.source), self._listen(self.target)]
        self.passed = 0
        self._thread = threading.Thread(target=self._pass, daemon=True)
        self._thread.start()

    def _listen(self, path: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)
        return listener

    def _pass(self) -> None:
        with (
            contextlib.suppress(OSError),
            self._listeners[1].accept()[0] as target,
            self._listeners[0].accept()[0] as source,
        ):
            while data := source.recv(MIB):
                target.sendall(data)
                self.passed += len(data)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._thread.join(10)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    relay = Relay(tmp_path)
    yield relay
    relay.close()


def shared(relay: Relay, names: dict[str, Any], seal: Seal | None = SEAL) -> tuple[Share, Receipt]:
    """Have a namespace's large buffers sent, to the end."""
    receipt = Receipt(relay.target, seal)
    limit = Limit(20)
    listing = Listing(limit.check)
    survey(Session(names), limit, sink=listing)
    share = Share(relay.source, seal, listing.found)
    share._thread.join(20)
    return share, receipt


def finish(share: Share, receipt: Receipt, names: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Send the rest in the pause; return what was loaded, and how much had to be sent."""
    limit = Limit(20)
    share.pause()
    sink = share.sink(limit.check)
    api.save_into(sink, Session(names), limit)
    share.close()
    target = session()
    api.load_content(receipt.content(20), Session(target))
    receipt.close()
    return target, sink.sent


@pytest.mark.parametrize("seal", [SEAL, None])
def test_what_did_not_change_is_sent_once(relay: Relay, seal: Seal | None) -> None:
    names = session(big=np.arange(2 * MIB), text="é" * 3 * MIB)
    names["part"] = names["big"][5:]
    share, receipt = shared(relay, names, seal)
    assert share.error is None
    assert share.sent == share.total == 16 * MIB
    names["big"][MIB] = -1
    names["new"] = np.ones(MIB, np.uint8)
    target, sent = finish(share, receipt, names)
    assert np.array_equal(target["big"], names["big"])
    assert target["text"] == names["text"]
    assert target["new"].sum() == MIB
    target["part"][0] = 77
    assert target["big"][5] == 77
    assert sent < 8 * MIB


def test_an_array_that_was_received_owns_its_memory(relay: Relay) -> None:
    names = session(
        plain=np.arange(MIB), other=np.asfortranarray(np.arange(MIB, dtype="f4").reshape(512, -1))
    )
    target, _ = finish(*shared(relay, names), names)
    assert target["other"].flags.f_contiguous
    assert np.array_equal(target["other"], names["other"])
    for name in ("plain", "other"):
        assert target[name].flags.owndata, name
    target["plain"].resize(2 * MIB)
    assert target["plain"][MIB - 1] == MIB - 1


def test_memory_that_is_gone_or_others_now_comes_over_as_it_is_in_the_pause(relay: Relay) -> None:
    names = session(gone=np.ones(4 * MIB), kept=np.arange(MIB))
    share, receipt = shared(relay, names)
    del names["gone"]
    names["fresh"] = np.zeros(4 * MIB)  # likely where the other was
    target, _ = finish(share, receipt, names)
    assert "gone" not in target
    assert not target["fresh"].any()
    assert np.array_equal(target["kept"], names["kept"])


def test_a_share_keeps_nothing_alive(relay: Relay) -> None:
    import weakref

    class Array(np.ndarray):  # type: ignore[type-arg]
        pass

    names = session(big=np.arange(MIB).view(Array))
    alive = weakref.ref(names["big"])
    share, receipt = shared(relay, names)
    del names["big"]
    assert alive() is None
    share.close()
    receipt.close()


def test_a_target_that_went_away_is_an_error_and_the_session_stays(relay: Relay) -> None:
    names = session(big=np.arange(MIB))
    share, receipt = shared(relay, names)
    receipt.close()
    names["more"] = np.arange(8 * MIB)
    with pytest.raises(OSError, match=r"pipe|reset"):
        finish(share, receipt, names)
    share.close()
    share.close()
    receipt.close()


def test_a_source_that_went_away_is_a_cut_capture(relay: Relay) -> None:
    names = session(big=np.arange(MIB))
    share, receipt = shared(relay, names)
    share.close()
    with pytest.raises(CaptureError, match="cut"):
        receipt.content(20)
    receipt.close()


def test_another_seal_is_refused(relay: Relay) -> None:
    names = session(big=np.arange(MIB))
    limit = Limit(20)
    listing = Listing(limit.check)
    survey(Session(names), limit, sink=listing)
    receipt = Receipt(relay.target, Seal(b"x" * 32, "alice", "default", 3))
    share = Share(relay.source, SEAL, listing.found)
    with pytest.raises(CaptureError, match="another key"):
        receipt.content(20)
    share.close()
    receipt.close()


def test_kernels_hand_a_session_over(relay: Relay, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    source, target = Kernel(tmp_path / "home"), Kernel(tmp_path / "home")
    seal = SEAL.to_json()
    try:
        source.run("import numpy as np\nbig = np.arange(1 << 20)\nview = big[1:]\nn = 5")
        assert target.remote(f"receive_json({relay.target!r}, {seal!r})") == {}
        begun = source.remote(f"share_json({relay.source!r}, {seal!r})")
        assert begun == {"buffers": 1, "bytes": 8 * MIB}
        while not (progress := source.remote("share_progress_json()"))["done"]:
            pass
        assert progress == {"sent": 8 * MIB, "total": 8 * MIB, "done": True, "error": None}
        source.run("big[0] = 41")  # the person goes on working
        saved = source.remote(f"save_shared_json({seal!r})")
        assert saved["sent"] < MIB < saved["bytes"]
        loaded = target.remote("load_received_json()")
        assert loaded["variables"] == saved["variables"]
        assert target.value("[int(big[0]), int(big[-1]), view.base is big, n]") == [
            41,
            MIB - 1,
            True,
            5,
        ]
        with pytest.raises(RuntimeError, match="shares its state with no target"):
            source.remote("save_shared_json()")
        assert json.loads(json.dumps(source.remote("stop_sharing_json()"))) == {}
    finally:
        source.close()
        target.close()
