"""A real headless Chromium, Debian's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.world import World, running_world

expect.set_options(timeout=30_000)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a cluster that nobody has used: the story counts notebooks and free hosts."""
    with running_world(tmp_path_factory.mktemp) as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give the browser; a machine without one skips, but never in CI.

    It lives no longer than its module: no asyncio test can run in a process meanwhile.
    """
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("CI has no Chromium; .ci/run installs it from Debian's packages")
        pytest.skip("no Chromium: install Debian's package chromium")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    quiet += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a picture of what the person saw when a test failed."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if report.when == "call" and report.failed and lab is not None:
        report.sections.append(("Screenshot", str(lab.shot(f"failed-{item.name}"))))
    return report
