"""The panel in a real lab and a real browser: what is shown, and what each button asks for."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from devcluster.core.lifecycle import MoveKind, State
from devcluster.core.records import (
    FlavorView,
    KernelPlan,
    MoveView,
    Plan,
    PlanAnswer,
    Question,
    VariablePlan,
)
from devcluster.core.resources import Flavor, Gpu
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.support.lab import Lab
from tests.support.stub_manager import StubManager, move, step, stub_manager
from tests.widgets.panel_lab import open_panel, running_lab

pytestmark = pytest.mark.e2e

SHOTS = Path(__file__).parents[2] / "screenshots"
ME = "alice/default"
GIB = 2**30


def _flavor(name: str, title: str, model: str | None, gpus: int, cpus: int) -> Flavor:
    return Flavor(
        name=name, title=title, gpu_model=model, gpus=gpus, cpus=cpus, memory=cpus * 8 * GIB
    )


FLAVORS = [
    FlavorView(flavor=_flavor("cpu", "CPU", None, 0, 2), free=6, total=8),
    FlavorView(flavor=_flavor("1xV100", "1 × V100", "V100", 1, 4), free=2, total=2),
    FlavorView(flavor=_flavor("1xA100", "1 × A100", "A100", 1, 8), free=1, total=2),
    FlavorView(flavor=_flavor("2xA100", "2 × A100", "A100", 2, 16), free=0, total=1),
]
A100 = Gpu(uuid="GPU-1", model="A100", memory=80 * GIB)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI has no Chromium; .ci/run installs it from Debian's packages")
        pytest.skip("no Chromium: install Debian's package chromium")
    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=quiet)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def manager() -> Iterator[tuple[StubManager, str]]:
    with stub_manager() as (stub, url):
        stub.flavors = list(FLAVORS)
        stub.set(ME, state=State.running, flavor="cpu", host="cpu-1")
        yield stub, url


@pytest.fixture(scope="module")
def lab(
    manager: tuple[StubManager, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with running_lab(tmp_path_factory.mktemp("lab"), manager[1]) as url:
        yield url


@pytest.fixture(scope="module")
def page(lab: str, browser: Browser) -> Iterator[Page]:
    page = open_panel(browser, lab, "JupyterLab Light")
    yield page
    page.context.close()


@pytest.fixture
def stub(manager: tuple[StubManager, str]) -> Iterator[StubManager]:
    stub = manager[0]
    stub.raw = None
    stub.on.clear()
    idle(stub)
    stub.asked.clear()
    yield stub
    stub.raw = None


@pytest.fixture
def panel(page: Page, stub: StubManager) -> Locator:
    panel = page.locator("#devcluster-panel")
    expect(panel.locator("[data-testid=state]")).to_have_text("running")
    expect(panel.locator("[aria-label=Progress], [aria-label=Queue]")).to_have_count(0)
    return panel


# --- the states that a workspace can be in ----------------------------------------------------


def idle(stub: StubManager) -> None:
    stub.set(ME, state=State.running, flavor="cpu", host="cpu-1", gpus=[], move=None, reason="")


def _steps(*names: str, active: bool = False) -> list[Any]:
    began = time.time() - 4.0
    took = {"prepare": 2.4, "check": 0.1, "park": 0.05, "capture": 0.3, "send": 0.2, "restore": 0.3}
    steps = []
    for name in names:
        ended = began + took.get(name, 0.1)
        steps.append(step(name, began, ended))
        began = ended
    if active:
        steps[-1] = step(names[-1], steps[-1].began, None)
    return steps


def asked(status: str, kind: MoveKind = MoveKind.switch, **fields: Any) -> MoveView:
    now = time.time()
    ended = now if status in ("done", "failed", "cancelled") else None
    values = {"flavor": "1xA100", "created": now - 4.0, "ended": ended} | fields
    return move(status, kind, **values)


def switching(stub: StubManager) -> None:
    steps = _steps("prepare", "check", "park", "capture", active=True)
    stub.set(ME, state=State.switching, move=asked("running", steps=steps))


def queued(stub: StubManager) -> None:
    reason = "waits until bob/default or carol/big gives a GPU back."
    stub.set(ME, move=asked("queued", flavor="2xA100", place=2, reason=reason))


def asking(stub: StubManager) -> None:
    question = Question(
        kind="loss",
        text="This would not survive the switch; everything else does. Go on?",
        items=[
            "lines: an open generator cannot be carried. Make it again after the switch.",
            "log: the file 'train.log' is open for writing. Close it first.",
        ],
        choices=["accept", "cancel"],
    )
    steps = _steps("prepare", "check")
    stub.set(ME, state=State.switching, move=asked("asking", steps=steps, question=question))


def busy(stub: StubManager) -> None:
    question = Question(
        kind="busy",
        text="A cell is running in train.ipynb. Wait for it to end, interrupt it, or cancel?",
        items=["train.ipynb"],
        choices=["wait", "interrupt", "cancel"],
    )
    steps = _steps("prepare", "check")
    stub.set(ME, state=State.switching, move=asked("asking", steps=steps, question=question))


def deflated(stub: StubManager) -> None:
    steps = _steps("check", "park", "capture", "commit", "reroute", "release")
    done = asked("done", MoveKind.deflate, flavor=None, steps=steps)
    stub.set(ME, state=State.deflated, flavor="1xA100", host=None, move=done)


def failed(stub: StubManager) -> None:
    steps = _steps("prepare", "check", "park", "capture", "send")
    why = "the agent of a100-1 stopped answering while it fetched the capture."
    stub.set(ME, state=State.running, move=asked("failed", steps=steps, reason=why))


def moved(stub: StubManager) -> None:
    names = ("prepare", "check", "park", "capture", "send", "restore", "commit", "reroute")
    done = asked("done", steps=_steps(*names, "release"), pause_s=0.84)
    stub.set(ME, state=State.running, flavor="1xA100", host="a100-1", gpus=[A100], move=done)


# --- what is shown ------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_every_state_is_shown_in_both_themes(
    lab: str, browser: Browser, stub: StubManager, theme: str
) -> None:
    page = open_panel(browser, lab, f"JupyterLab {theme}")
    panel = page.locator("#devcluster-panel")
    shown: list[tuple[Callable[[StubManager], None], str, str]] = [
        (idle, "state", "running"),
        (switching, "state", "switching"),
        (queued, "state", "running, queued"),
        (deflated, "state", "deflated"),
        (failed, "outcome", "stopped answering"),
        (moved, "outcome", "Moved to 1 × A100"),
        (busy, "question", "A cell is running"),
        (asking, "question", "an open generator"),
    ]
    SHOTS.mkdir(exist_ok=True)
    for arrange, where, text in shown:
        idle(stub)
        expect(panel.locator("[data-testid=state]")).to_have_text("running")
        arrange(stub)
        expect(panel.locator(f"[data-testid={where}]")).to_contain_text(text)
        if where == "question":
            expect(page.locator(".jp-Dialog")).to_contain_text(text)
            page.screenshot(path=SHOTS / f"panel-{arrange.__name__}-dialog-{theme.lower()}.png")
            page.keyboard.press("Escape")
            expect(page.locator(".jp-Dialog")).to_have_count(0)
        page.screenshot(path=SHOTS / f"panel-{arrange.__name__}-{theme.lower()}.png")
    page.context.close()


def test_the_progress_list_shows_the_steps_as_people_know_them(
    panel: Locator, stub: StubManager
) -> None:
    switching(stub)
    expect(panel.locator("[data-step=capture]")).to_have_attribute("data-status", "active")
    rows = panel.locator("[data-step]")
    assert [row.get_attribute("data-status") for row in rows.all()] == [
        "done",
        "done",
        "active",
        "pending",
        "pending",
        "pending",
    ]
    expect(panel.locator("[data-step=prepare] .dc-Time")).to_have_text("2.4 s")


def test_the_outcome_tells_the_time_and_the_pause(panel: Locator, stub: StubManager) -> None:
    moved(stub)
    expect(panel.locator("[data-testid=outcome]")).to_have_text(
        re.compile(r"Moved to 1 × A100 in 4\.\d s, paused 0\.8 s\.$")
    )
    expect(panel.locator("[data-testid=hardware]")).to_have_text("1 × A100")


def test_b48_markup_and_control_characters_are_shown_as_text(
    page: Page, panel: Locator, stub: StubManager
) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\">\x1b[2J\u202eabc"
    stub.set(ME, state=State.failed, reason=hostile, move=asked("failed", reason=hostile))
    expect(panel.locator("[data-testid=outcome]")).to_contain_text("<img src=x onerror=")
    expect(panel.locator("[data-testid=outcome]")).to_contain_text("\\u001b[2J\\u202eabc")
    assert panel.locator("img").count() == 0
    assert page.title() != "owned"


# --- what the buttons ask for ---------------------------------------------------------------------


def test_switch_asks_for_the_flavor(panel: Locator, stub: StubManager) -> None:
    def answer(_path: str, _body: Any) -> MoveView:
        switching(stub)
        return asked("running")

    stub.on["POST", "switch"] = answer
    panel.locator("[data-flavor='1xA100'] button").click()
    expect(panel.locator("[data-testid=state]")).to_have_text("switching")
    assert stub.calls("POST", f"{ME}/switch") == [
        {"flavor": "1xA100", "on_busy": "ask", "on_loss": "ask"}
    ]
    assert stub.tokens == {"token alices-token"}


def test_the_current_flavor_has_no_button_and_a_taken_one_queues(
    panel: Locator, stub: StubManager
) -> None:
    expect(panel.locator("[data-flavor=cpu] button")).to_have_count(0)
    expect(panel.locator("[data-flavor='2xA100'] button")).to_have_text("Queue")
    queued(stub)
    expect(panel.locator("[data-testid=outcome]")).to_have_text(
        "2nd in the queue for 2 × A100: waits until bob/default or carol/big gives a GPU back."
    )
    expect(panel.locator("[data-flavor='1xA100'] button")).to_be_disabled()

    def cancel(_path: str, _body: Any) -> MoveView:
        idle(stub)
        return asked("cancelled")

    stub.on["POST", "cancel"] = cancel
    panel.locator("[data-testid=cancel]").click()
    expect(panel.locator("[aria-label=Queue]")).to_have_count(0)
    assert len(stub.calls("POST", f"{ME}/cancel")) == 1


def test_a_question_can_be_answered_in_the_panel_after_its_dialog_was_dismissed(
    page: Page, panel: Locator, stub: StubManager
) -> None:
    busy(stub)
    expect(page.locator(".jp-Dialog")).to_contain_text("train.ipynb")
    page.keyboard.press("Escape")
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    assert stub.calls("POST", "answer") == []

    def answer(_path: str, _body: Any) -> MoveView:
        switching(stub)
        return asked("running")

    stub.on["POST", "answer"] = answer
    panel.locator("[data-choice=interrupt]").click()
    expect(panel.locator("[data-testid=question]")).to_have_count(0)
    assert stub.calls("POST", f"{ME}/answer") == [{"move": "m1", "choice": "interrupt"}]


@pytest.mark.parametrize(
    ("label", "choice"), [("Move without them", "accept"), ("Cancel", "cancel")]
)
def test_a_question_can_be_answered_in_its_dialog(
    page: Page, panel: Locator, stub: StubManager, label: str, choice: str
) -> None:
    stub.on["POST", "answer"] = lambda _path, _body: idle(stub) or asked("running")
    asking(stub)
    page.locator(".jp-Dialog").get_by_role("button", name=label).click()
    expect(panel.locator("[data-testid=question]")).to_have_count(0)
    assert stub.calls("POST", f"{ME}/answer") == [{"move": "m1", "choice": choice}]


def test_a_dialog_goes_away_when_the_question_is_answered_elsewhere(
    page: Page, panel: Locator, stub: StubManager
) -> None:
    asking(stub)
    expect(page.locator(".jp-Dialog")).to_have_count(1)
    switching(stub)
    expect(page.locator(".jp-Dialog")).to_have_count(0)


def test_deflate_and_inflate(page: Page, panel: Locator, stub: StubManager) -> None:
    stub.on["POST", "deflate"] = lambda _path, _body: deflated(stub) or asked("done")
    stub.on["POST", "inflate"] = lambda _path, _body: idle(stub) or asked("done")
    panel.locator("[data-testid=deflate]").click()
    expect(panel.locator("[aria-label=Deflated]")).to_contain_text("This workspace is deflated.")
    panel.locator("[data-testid=inflate]").click()
    expect(panel.locator("[data-testid=state]")).to_have_text("running")
    assert stub.calls("POST", f"{ME}/deflate") == [{"on_busy": "ask", "on_loss": "ask"}]
    assert stub.calls("POST", f"{ME}/inflate") == [{"flavor": None}]


def test_the_plan_can_be_seen_before_a_switch(panel: Locator, stub: StubManager) -> None:
    variables = [
        VariablePlan(name="frame", kind="carried", bytes=2048),
        VariablePlan(name="gen", kind="refused", reason="is a generator.", remedy="Make a list."),
    ]
    kernel = KernelPlan(
        kernel_id="k", kernel_name="python3", title="a.ipynb", bytes=2048, variables=variables
    )
    answer = PlanAnswer(flavor=FLAVORS[1].flavor, free=True, plan=Plan(kernels=[kernel]))
    stub.on["POST", "plan"] = lambda _path, _body: answer
    panel.locator("[data-testid=plan-link]").click()
    expect(panel.locator("[data-testid=plan]")).to_contain_text("1 thing would not move")
    expect(panel.locator("[data-testid=plan]")).to_contain_text("gen: is a generator. Make a list.")
    assert stub.calls("POST", "plan") == [{"flavor": "1xV100"}]
    panel.get_by_role("button", name="Hide").click()


def test_a_refusal_is_told_in_the_managers_words(panel: Locator, stub: StubManager) -> None:
    panel.locator("[data-flavor='1xV100'] button").click()  # the stub knows no switch here
    refusal = panel.locator("[data-testid=refusal]")
    expect(refusal).to_contain_text("the stub knows no POST")
    refusal.get_by_role("button", name="Dismiss").click()
    expect(refusal).to_have_count(0)


def test_a_manager_that_is_away_is_told_and_asked_again(panel: Locator, stub: StubManager) -> None:
    stub.raw = (503, b"<html>a proxy's page</html>")
    idle(stub)  # ends the long poll; the next one meets the proxy's page
    expect(panel.locator("[data-testid=trouble]")).to_contain_text("cannot be reached (HTTP 503)")
    expect(panel.locator("[data-testid=hardware]")).to_have_text("CPU")
    stub.raw = None
    expect(panel.locator("[data-testid=trouble]")).to_have_count(0, timeout=20_000)


# --- how it behaves in the lab ------------------------------------------------------------------


def test_b39_the_server_is_asked_once_and_a_hidden_tab_asks_nobody(
    lab: str, browser: Browser, stub: StubManager
) -> None:
    page = browser.new_context().new_page()
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.goto(f"{lab}lab")
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('devcluster:open-panel')")
    page.evaluate("window.jupyterapp.restored.then(() => true)")
    page.evaluate("window.jupyterapp.commands.execute('devcluster:open-panel')")
    panel = page.locator("#devcluster-panel")
    expect(panel.locator("[data-testid=state]")).to_have_text("running")
    for arrange, state in ((switching, "switching"), (idle, "running"), (deflated, "deflated")):
        arrange(stub)
        expect(panel.locator("[data-testid=state]")).to_have_text(state)
    to_server = [url.partition("?")[0] for url in seen if "/devcluster/" in url]
    assert to_server == [f"{lab}devcluster/session"]
    _show(page, False)
    seen.clear()
    idle(stub)
    _show(page, True)
    expect(panel.locator("[data-testid=state]")).to_have_text("running")
    asked_first = next(url for url in seen if "/api/workspaces/" in url)
    assert "after=" in asked_first
    page.context.close()


def _show(page: Page, visible: bool) -> None:
    page.evaluate(
        """visible => {
          Object.defineProperty(document, 'hidden', {value: !visible, configurable: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        visible,
    )


def test_a_lost_connection_of_a_deflated_workspace_is_told_calmly(
    page: Page, panel: Locator, stub: StubManager
) -> None:
    deflated(stub)
    expect(panel.locator("[data-testid=state]")).to_have_text("deflated")
    page.evaluate("jupyterapp.serviceManager._connectionFailure.emit(new Error('gone'))")
    notice = page.locator(".jp-toastContainer").get_by_text("This workspace is deflated:")
    expect(notice).to_be_visible()
    assert page.locator(".jp-Dialog").count() == 0
    idle(stub)
    expect(panel.locator("[data-testid=state]")).to_have_text("running")
    expect(notice).to_have_count(0)
    page.evaluate("jupyterapp.serviceManager._connectionFailure.emit(new Error('gone'))")
    expect(page.locator(".jp-Dialog")).to_contain_text("could not be established")
    page.keyboard.press("Escape")
    expect(page.locator(".jp-Dialog")).to_have_count(0)


def test_comms_never_go_over_subshells(page: Page, panel: Locator) -> None:
    found = page.evaluate(
        """async () => {
          const kernels = jupyterapp.serviceManager.kernels;
          const kernel = await kernels.startNew({name: 'python3'});
          await kernel.info;
          const comm = kernel.createComm('nobody');
          const found = [kernels.commsOverSubshells, kernel.commsOverSubshells,
            comm.commsOverSubshells, comm.subshellId];
          await kernel.shutdown();
          return found;
        }"""
    )
    assert found == ["disabled", "disabled", "disabled", None]
    active = page.evaluate(
        """() => ['@jupyterlab/apputils-extension:subshell-settings',
          '@jupyterlab/hub-extension:connectionlost', '@devcluster/panel:connection-lost']
          .map(id => jupyterapp.hasPlugin(id) && jupyterapp.isPluginActivated(id))"""
    )
    assert active == [False, False, True]


def test_commands_and_status_bar(page: Page, panel: Locator, stub: StubManager) -> None:
    stub.on["POST", "switch"] = lambda _path, _body: switching(stub) or asked("running")
    status = page.locator(".dc-Status button")
    expect(status).to_have_text("CPU")
    page.evaluate("jupyterapp.commands.execute('devcluster:switch', {flavor: '1xV100'})")
    expect(status).to_have_text("CPU (switching)")
    assert stub.calls("POST", "switch")[0]["flavor"] == "1xV100"
    page.evaluate("jupyterapp.shell.collapseRight()")
    expect(panel).to_be_hidden()
    status.click()
    expect(panel).to_be_visible()


# --- the progress widget of %devcluster -----------------------------------------------------------


def test_the_magics_widget_follows_the_move_without_its_kernel(
    lab: str, browser: Browser, stub: StubManager
) -> None:
    def begin(_path: str, _body: Any) -> MoveView:
        switching(stub)
        return asked("running")

    stub.on["POST", "switch"] = begin
    person = Lab(browser, "", "alice")
    page = person.page
    page.goto(f"{lab}lab")
    person.wait_for_lab()
    person.new_notebook()
    page.wait_for_function(
        """() => {
          const kernel = jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
          return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
        }"""
    )
    cell = person.run("%devcluster resize 1xA100")
    widget = cell.locator(".dcw-box")
    expect(widget.locator("[data-step=capture]")).to_have_attribute("data-status", "active")
    assert stub.calls("POST", "switch") == [
        {"flavor": "1xA100", "on_busy": "wait", "on_loss": "ask"}
    ]
    page.evaluate(
        """async () => {
          for (const {id} of jupyterapp.serviceManager.kernels.running())
            await jupyterapp.serviceManager.kernels.shutdown(id);
        }"""
    )
    person.shot("magic-switching")
    stub.on["POST", "answer"] = lambda _path, _body: switching(stub) or asked("running")
    asking(stub)
    expect(page.locator(".jp-Dialog")).to_contain_text("an open generator")  # the panel's
    page.keyboard.press("Escape")
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    expect(widget).to_contain_text("log: the file 'train.log' is open for writing.")
    person.shot("magic-question")
    widget.get_by_role("button", name="Move without them").click()
    expect(widget.locator("[data-step=capture]")).to_have_attribute("data-status", "active")
    assert stub.calls("POST", f"{ME}/answer") == [{"move": "m1", "choice": "accept"}]
    moved(stub)
    expect(widget).to_contain_text("Moved to 1xA100 in 4.0 s, paused 0.8 s.")
    expect(widget.get_by_role("button")).to_have_count(0)
    assert person.errors == []
    person.shot("magic-moved")
    person.context.close()
