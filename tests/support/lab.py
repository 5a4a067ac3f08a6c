"""JupyterLab in a real browser, as a person uses it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

SHOTS = Path("screenshots")
_SLOW_MS = 30_000
_FETCH_SESSIONS = """async () => {
  const base = JSON.parse(document.getElementById('jupyter-config-data').textContent).baseUrl;
  const xsrf = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? '';
  const answer = await fetch(base + 'api/sessions', {headers: {'X-XSRFToken': xsrf}});
  if (!answer.ok) throw new Error(await answer.text());
  return await answer.json();
}"""


class Lab:
    """One person's browser with one tab.

    Parameters
    ----------
    hub
        The public address, without a slash at the end.
    dark
        Whether the person's system prefers dark colours.
    """

    def __init__(self, browser: Browser, hub: str, name: str, dark: bool = False) -> None:
        self.hub, self.name = hub, name
        self.context: BrowserContext = browser.new_context(
            viewport={"width": 1360, "height": 860}, color_scheme="dark" if dark else "light"
        )
        self.context.set_default_timeout(_SLOW_MS)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    # --- the hub -----------------------------------------------------------------------

    def log_in(self) -> None:
        """Log in on the hub's page."""
        self.page.goto(f"{self.hub}/hub/login")
        self.page.fill("#username_input", self.name)
        self.page.fill("#password_input", "anything")
        self.page.click("#login_submit")
        self.page.wait_for_url(re.compile(r"/hub/(home|spawn)|/user/"))

    def spawn(self, flavor: str) -> None:
        """Choose a flavor on the spawn page and wait for the lab."""
        if "/hub/spawn" not in self.page.url:
            self.page.goto(f"{self.hub}/hub/spawn")
        self.page.check(f'input[name="flavor"][value="{flavor}"]')
        self.shot("spawn")
        self.page.click('#spawn_form input[type="submit"], #spawn_form button[type="submit"]')
        self.wait_for_lab()

    def wait_for_lab(self) -> None:
        """Wait until the lab can be used, and mark the page, so that a reload is noticed."""
        self.page.wait_for_selector("#jp-main-dock-panel", timeout=2 * _SLOW_MS)
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.page.evaluate("window.devclusterTestMark = 'never reloaded'")
        # JupyterLab asks a new person whether to tell news, on top of what is to be seen.
        self.page.add_style_tag(content=".Toastify { display: none; }")

    @property
    def was_reloaded(self) -> bool:
        """Whether the page was loaded again since the lab came up."""
        return self.page.evaluate("window.devclusterTestMark") != "never reloaded"

    # --- notebooks ------------------------------------------------------------------------

    def new_notebook(self) -> None:
        """Open a notebook from the launcher."""
        self.page.keyboard.press("Escape")
        if self.page.locator(".jp-Launcher:visible").count() == 0:
            self.page.keyboard.press("Control+Shift+L")
        self.page.locator('.jp-LauncherCard[data-category="Notebook"]:visible').first.click()
        self.notebook.locator(".jp-CodeCell").first.wait_for()
        # A cell that is run before the lab is connected to the kernel is not run at all.
        notebooks = self.page.locator(".jp-NotebookPanel").count()
        for _ in range(_SLOW_MS // 100):
            kernels = [s["kernel"] for s in self.page.evaluate(_FETCH_SESSIONS)]
            if notebooks == sum(k["connections"] > 0 for k in kernels):
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"{notebooks} notebooks, but these kernels: {kernels}")

    @property
    def notebook(self) -> Locator:
        """The notebook in front."""
        return self.page.locator(".jp-NotebookPanel:visible").first

    def type_cell(self, code: str) -> Locator:
        """Type a cell at the end and run it; return the cell without waiting for it."""
        cell = self.notebook.locator(".jp-CodeCell").last
        index = self.notebook.locator(".jp-CodeCell").count() - 1
        cell.locator(".cm-content").click()
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Shift+Enter")
        return self.notebook.locator(".jp-CodeCell").nth(index)

    def run(self, code: str, expected: str | None = None) -> Locator:
        """Run a cell and wait for its end, and for a text in its output."""
        cell = self.type_cell(code)
        self.wait_for_end(cell)
        if expected is not None:
            expect(cell.locator(".jp-OutputArea")).to_contain_text(expected)
        return cell

    @staticmethod
    def wait_for_end(cell: Locator) -> None:
        """Wait until a cell has its number, so is neither waiting nor running."""
        expect(cell.locator(".jp-InputPrompt")).to_have_text(
            re.compile(r"^\[\d+\]:$"), timeout=_SLOW_MS
        )

    def sessions(self) -> list[tuple[str, str, str]]:
        """Return (session id, path, kernel id) of all open notebooks, sorted, through the lab."""
        listed = self.page.evaluate(_FETCH_SESSIONS)
        return sorted((s["id"], s["path"], s["kernel"]["id"]) for s in listed)

    # --- the Dev Cluster panel -----------------------------------------------------------------

    @property
    def panel(self) -> Locator:
        """The Dev Cluster panel."""
        return self.page.locator("#devcluster-panel")

    def open_panel(self) -> None:
        """Open the panel at the side."""
        if not self.panel.is_visible():
            self.page.locator('.lm-TabBar-tab[data-id="devcluster-panel"]').click()
        expect(self.panel.locator('[data-testid="hardware"]')).to_be_visible()

    def press_switch(self, flavor: str) -> None:
        """Press a flavor's button."""
        self.panel.locator(f'[data-flavor="{flavor}"] button').click()

    def expect_hardware(self, title: str, state: str = "Running") -> None:
        """Wait until the panel shows a flavor and a state."""
        expect(self.panel.locator('[data-testid="state"]')).to_have_text(
            re.compile(f"^{state}$", re.IGNORECASE), timeout=_SLOW_MS
        )
        expect(self.panel.locator('[data-testid="hardware"]')).to_have_text(title)

    def shot(self, name: str) -> Path:
        """Take a screenshot for people to look at."""
        SHOTS.mkdir(exist_ok=True)
        path = SHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def setting(self, plugin: str, value: dict[str, Any]) -> None:
        """Store a setting of the lab, as its settings editor would."""
        self.page.evaluate(
            """async ([plugin, raw]) => {
              const base = JSON.parse(
                document.getElementById('jupyter-config-data').textContent).baseUrl;
              const token = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? '';
              const answer = await fetch(base + 'lab/api/settings/' + plugin, {
                method: 'PUT', body: JSON.stringify({raw}), headers: {'X-XSRFToken': token}});
              if (!answer.ok) throw new Error(await answer.text());
            }""",
            [plugin, json.dumps(value)],
        )
