"""The story of the README, in a real browser: hardware changes, the tab and all variables stay."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.lab import Lab
from tests.support.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DEFINE = """import pandas as pd, os
class Model:
    def __init__(self, rate): self.rate = rate
    def predict(self, x): return self.rate * x
def double(x): return 2 * model.predict(x)
model = Model(21)
frame = pd.DataFrame({'x': [1, 2, 3]})
print('defined on', os.environ['DEVCLUSTER_FLAVOR'])"""

USE = (
    "print(double(1), isinstance(model, Model), int(frame.x.sum()), "
    "'on', os.environ['DEVCLUSTER_HOST'])"
)


@pytest.fixture(scope="module")
def lab(world: World, browser: Browser) -> Iterator[Lab]:
    """Give Alice's lab with two notebooks."""
    world.revive()
    one = Lab(browser, world.hub, "alice")
    one.log_in()
    yield one
    one.context.close()


def cli(world: World, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the devcluster command as the admin does in a terminal."""
    env = os.environ | {
        "DEVCLUSTER_URL": f"{world.hub}/services/devcluster",
        "DEVCLUSTER_TOKEN": world.admin_token,
    }
    return subprocess.run(
        [sys.executable, "-m", "devcluster.cli", *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class TestStory:
    """Steps 1 to 6, in order; each goes on where the one before ended."""

    kept: list[tuple[str, str, str]]

    def test_1_the_spawn_page_offers_flavors_with_what_is_free(self, lab: Lab) -> None:
        if "/user/" in lab.page.url or "/hub/home" in lab.page.url:
            lab.page.goto(f"{lab.hub}/hub/spawn")
        expect(lab.page.locator("#devcluster-flavors")).to_contain_text("1 × A100")
        expect(lab.page.locator("#devcluster-flavors")).to_contain_text("free")
        lab.spawn("cpu")

    def test_2_two_notebooks_live_through_a_switch_by_the_panel(self, lab: Lab) -> None:
        lab.new_notebook()
        lab.run(DEFINE, "defined on cpu")
        lab.new_notebook()
        lab.run("second = {'k': [1, 2, 3]}; print('two')", "two")
        TestStory.kept = lab.sessions()
        assert len(TestStory.kept) == 2
        lab.open_panel()
        lab.expect_hardware("CPU only")
        lab.shot("panel-idle")
        lab.press_switch("1xA100")
        # A cell that is run during the switch waits, then runs on the new host.
        expect(lab.panel.locator('[data-step="capture"]')).to_have_attribute(
            "data-status", re.compile("active|done")
        )
        during = lab.type_cell("import os; print('ran on', os.environ['DEVCLUSTER_HOST'])")
        lab.shot("panel-switching")
        lab.expect_hardware("1 × A100")
        lab.wait_for_end(during)
        expect(during.locator(".jp-OutputArea")).to_contain_text("ran on a100-1")
        lab.run("print(second['k'], os.environ['DEVCLUSTER_HOST'])", "[1, 2, 3] a100-1")
        lab.shot("panel-switched")
        lab.page.locator(".lm-TabBar-tab[title*='Untitled.ipynb']").first.click()
        lab.run(USE, "42 True 6 on a100-1")
        assert lab.sessions() == TestStory.kept, "kernel and session ids changed"
        assert not lab.was_reloaded
        assert lab.page.locator(".jp-Dialog").count() == 0

    def test_3_by_magic_and_by_command_line(self, lab: Lab, world: World) -> None:
        cell = lab.run("%devcluster resize gpu=1 model=V100")
        expect(cell.locator(".jp-OutputArea")).to_contain_text("V100")
        lab.expect_hardware("1 × V100")
        lab.shot("magic-progress")
        lab.run(USE, "42 True 6 on v100-1")
        done = cli(world, "switch", "alice", "--gpu", "1", "--model", "A100", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        lab.expect_hardware("1 × A100")
        lab.run(USE, "42 True 6 on a100-1")
        assert lab.sessions() == TestStory.kept
        assert not lab.was_reloaded

    def test_4_deflate_and_come_back(self, lab: Lab, world: World) -> None:
        lab.panel.locator('[data-testid="deflate"]').click()
        expect(lab.panel.locator('[data-testid="inflate"]')).to_be_visible(timeout=30_000)
        listed = json.loads(cli(world, "ls", "--json").stdout)
        assert [(w["id"], w["state"], w["gpus"]) for w in listed if w["user"] == "alice"] == [
            ("alice/default", "deflated", [])
        ]
        lab.shot("panel-deflated")
        lab.panel.locator('[data-testid="inflate"]').click()
        lab.expect_hardware("1 × A100")
        lab.run(USE, "42 True 6 on a100-1")
        assert lab.sessions() == TestStory.kept
        assert not lab.was_reloaded
        lab.run("%devcluster deflate")
        expect(lab.panel.locator('[data-testid="inflate"]')).to_be_visible(timeout=30_000)
        lab.page.reload()  # opening the lab again brings it back by itself
        lab.wait_for_lab()
        lab.open_panel()
        lab.expect_hardware("1 × A100")
        lab.page.locator(".lm-TabBar-tab[title*='Untitled.ipynb']").first.click()
        lab.run(USE, "42 True 6 on a100-1")
        assert lab.sessions() == TestStory.kept

    def test_5_status_tells_what_runs_where(self, lab: Lab, world: World) -> None:
        lab.run("%devcluster status", "a100-1")
        shown = json.loads(cli(world, "show", "alice", "--json").stdout)
        assert (shown["flavor"], shown["host"]) == ("1xA100", "a100-1")
        hosts = json.loads(cli(world, "hosts", "--json").stdout)
        assert {h["name"]: len(h["taken"]) for h in hosts} == {
            "cpu-1": 0,
            "v100-1": 0,
            "a100-1": 1,
        }
        lab.run("%devcluster resize cpu")
        lab.expect_hardware("CPU only")
        lab.run(USE, "42 True 6 on cpu-1")

    def test_6_a_taken_gpu_queues_the_switch(
        self, lab: Lab, world: World, browser: Browser
    ) -> None:
        bob = Lab(browser, world.hub, "bob", dark=True)
        bob.log_in()
        bob.spawn("2xA100")
        bob.page.goto(f"{world.hub}/user/alice/lab")
        expect(bob.page.locator("body")).to_contain_text(re.compile("403|Forbidden|not allowed"))
        lab.press_switch("1xA100")
        expect(lab.panel.locator('[data-status="queued"]')).to_contain_text("1st in the queue")
        lab.run(USE, "42 True 6 on cpu-1")
        lab.shot("panel-queued")
        bob.page.goto(f"{world.hub}/user/bob/lab")
        bob.wait_for_lab()
        bob.setting("@jupyterlab/apputils-extension:themes", {"theme": "JupyterLab Dark"})
        bob.page.reload()
        bob.wait_for_lab()
        bob.open_panel()
        bob.expect_hardware("2 × A100")
        bob.shot("panel-dark")
        bob.press_switch("cpu")
        bob.expect_hardware("CPU only")
        lab.expect_hardware("1 × A100")
        lab.run(USE, "42 True 6 on a100-1")
        assert lab.sessions() == TestStory.kept
        assert not lab.errors, lab.errors
        bob.context.close()
