"""A browser with the panel open in a lab whose manager is a stub; one for each module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from devcluster.core.lifecycle import State
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.support.stub_manager import StubManager, stub_manager
from tests.widgets.panel_lab import open_panel, running_lab
from tests.widgets.panel_states import (
    FLAVORS,
    ME,
    idle,
)


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
