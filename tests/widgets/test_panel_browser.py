"""The panel in a real lab and a real browser: what is shown, and what each button asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from devcluster.core.lifecycle import State
from devcluster.core.records import (
    KernelPlan,
    MoveView,
    Plan,
    PlanAnswer,
    VariablePlan,
)
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.stub_manager import StubManager
from tests.widgets.panel_lab import open_panel
from tests.widgets.panel_states import (
    FLAVORS,
    ME,
    asked,
    asking,
    busy,
    deflated,
    failed,
    idle,
    moved,
    queued,
    switching,
)

pytestmark = pytest.mark.e2e

SHOTS = Path(__file__).parents[2] / "screenshots"


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
    page.locator(".jp-Dialog-button").first.press("Escape")  # the dialog has the focus
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
