"""The ipywidgets: what their state holds, and what their buttons ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from devcluster.core.lifecycle import MoveKind, State
from devcluster.widgets import HardwareSwitch, MoveProgress

from tests.support.stub_manager import StubManager, move, stub_manager

ME = "alice/default"


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubManager]:
    with stub_manager() as (stub, url):
        monkeypatch.setenv("DEVCLUSTER_URL", url)
        monkeypatch.setenv("DEVCLUSTER_TOKEN", "alices-secret-token")
        monkeypatch.setenv("DEVCLUSTER_WORKSPACE", ME)
        stub.set(ME, state=State.running, flavor="1xA100", host="a100-1")
        yield stub


def test_progress_carries_no_token_and_has_a_text_for_consoles(stub: StubManager) -> None:
    widget = MoveProgress(ME, "m1", "Switching to 1 × A100.")
    state = widget.get_state()
    assert (state["workspace"], state["move"]) == (ME, "m1")
    assert "alices-secret-token" not in repr(state)
    assert repr(widget) == "Switching to 1 × A100."
    assert "innerHTML" not in state["_esm"]


def test_the_switch_asks_for_the_chosen_flavor(stub: StubManager) -> None:
    stub.on["POST", "switch"] = lambda _path, _body: move(
        "queued", MoveKind.switch, flavor="cpu", place=2, reason="Waits for a host."
    )
    widget = HardwareSwitch()
    choose, switch, _deflate, _refresh = widget.children[0].children
    assert choose.value == "1xA100"
    assert choose.options == (("CPU only (3 free)", "cpu"), ("1 × A100 (0 free)", "1xA100"))
    choose.value = "cpu"
    switch.click()
    assert stub.calls("POST", "switch") == [{"flavor": "cpu", "on_busy": "wait", "on_loss": "ask"}]
    assert widget.children[1].value == "switch to cpu: 2nd in the queue. Waits for a host."


def test_b48_the_switch_shows_what_went_wrong_as_text(stub: StubManager) -> None:
    widget = HardwareSwitch()
    stub.on["POST", "deflate"] = lambda _path, _body: move(
        "failed", MoveKind.deflate, reason="<img src=x onerror=alert(1)>\x1b"
    )
    widget.children[0].children[2].click()
    assert widget.children[1].value == ("deflate: failed. &lt;img src=x onerror=alert(1)&gt;\\x1b")
    stub.raw = (502, b"<b>proxy</b>")
    widget.refresh()
    assert "&lt;b&gt;proxy&lt;/b&gt;" in widget.children[1].value
