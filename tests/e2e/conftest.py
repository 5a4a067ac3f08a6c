"""A real headless Chromium, Debian's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Give the browser; a machine without one skips, but never in CI."""
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
