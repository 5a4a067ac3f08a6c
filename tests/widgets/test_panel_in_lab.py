"""The panel and the magics' widget as parts of a real lab in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from devcluster.core.records import (
    MoveView,
)
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.lab import Lab
from tests.support.stub_manager import StubManager
from tests.widgets.panel_states import (
    ME,
    asked,
    asking,
    deflated,
    idle,
    moved,
    switching,
)

pytestmark = pytest.mark.e2e


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
    page.locator(".jp-Dialog-button").first.press("Escape")  # the dialog has the focus
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
    page.locator(".jp-Dialog-button").first.press("Escape")  # the dialog has the focus
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
