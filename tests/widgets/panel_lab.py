"""A real JupyterLab with the real server extension, whose manager is a stub."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, expect

DEADLINE_S = 60.0
SETTINGS = {
    "notification": {"fetchNews": "false", "checkForUpdates": False},
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_lab(folder: Path, manager: str) -> Iterator[str]:
    """Run a JupyterLab of its own in ``folder``; gives its address, with a slash at the end."""
    settings = folder / "settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    for name, value in SETTINGS.items():
        (settings / f"{name}.jupyterlab-settings").write_text(json.dumps(value))
    home = folder / "home"
    home.mkdir()
    port = _free_port()
    env = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "DEVCLUSTER_LEASE": "lease-1",
        "DEVCLUSTER_WORKSPACE": "alice/default",
        "DEVCLUSTER_HOST": "cpu-1",
        "DEVCLUSTER_FLAVOR": "cpu",
        "DEVCLUSTER_URL": manager,
        "DEVCLUSTER_PUBLIC_URL": manager,
        "DEVCLUSTER_TOKEN": "alices-token",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--expose-app-in-browser", f"--ServerApp.root_dir={home}"]
    command += [
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--ServerApp.ip=127.0.0.1",
    ]
    command += ["--IdentityProvider.token=", "--LabApp.extension_manager=readonly"]
    url = f"http://127.0.0.1:{port}/"
    with (folder / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, env=env, cwd=home, stdout=log, stderr=log)
        try:
            _wait_until_up(server, url, folder / "lab.log")
            yield url
        finally:
            server.terminate()
            server.wait(DEADLINE_S)


def _wait_until_up(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(f"{url}api/status", timeout=5):
                return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise AssertionError(f"the lab did not come up: {log.read_text()[-3000:]}")


def open_panel(browser: Browser, url: str, theme: str) -> Page:
    """Open the lab with a theme, and its panel."""
    page = browser.new_context(viewport={"width": 1180, "height": 900}).new_page()
    page.set_default_timeout(30_000)
    page.goto(f"{url}lab")
    page.wait_for_selector("#jp-main-dock-panel")
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('apputils:change-theme')")
    page.evaluate("window.jupyterapp.restored.then(() => true)")
    page.evaluate(
        """async theme => {
          await window.jupyterapp.commands.execute('apputils:change-theme', {theme});
        }""",
        theme,
    )
    is_light = "false" if "Dark" in theme else "true"
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", is_light)
    # A lab that was open before comes up with the panel that was left open.
    page.evaluate("window.jupyterapp.commands.execute('devcluster:open-panel')")
    expect(page.locator("#devcluster-panel")).to_be_visible()
    expect(page.locator("#devcluster-panel [data-testid=hardware]")).to_have_text(re.compile(".+"))
    return page
