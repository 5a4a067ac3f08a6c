"""A switch that breaks at any step ends whole: on the source or on the target, never both,
never neither, with every variable and file, and the person is told why.

The faults are planted at the recorded steps of every part, so nothing here hangs on timing.
"""

from __future__ import annotations

import pytest

from tests.support.person import Notebook, Person
from tests.support.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

BUILD = """
import os, json, pathlib
import numpy as np
class Model:
    def __init__(self, rate): self.rate = rate
    def step(self): return self.rate * factor
factor = 3
model = Model(2)
alias = [model, model]
weights = np.arange(1000.0)
view = weights[10:20]
pathlib.Path('notes.txt').write_text('kept')
os.makedirs('data', exist_ok=True)
pathlib.Path('data/log.txt').write_text('one')
"""

CHECK = """
assert model.step() == 2 * factor and isinstance(model, Model)
assert alias[0] is alias[1] is model
view[0] = -5.0
assert weights[10] == -5.0 and weights.sum() != 0
weights[10] = 10.0
assert pathlib.Path('notes.txt').read_text() == 'kept'
assert pathlib.Path('data/log.txt').read_text() == 'one'
print('whole on', os.environ['DEVCLUSTER_HOST'], os.environ['DEVCLUSTER_FLAVOR'])
"""

STEPS = ["prepare", "check", "park", "capture", "send", "restore", "commit", "reroute", "release"]

MANAGER = [
    (f"manager.{step}.{when}", action)
    for step in STEPS
    for when in ("recorded", "acted")
    for action in ("kill",)
] + [(f"manager.{step}.recorded", "raise planted") for step in STEPS[:6]]

SOURCE = ["capture", "capture.saved", "capture.frozen", "remove"]
TARGET = ["ensure", "ensure.spawned", "fetch", "restore"]


async def at_work(alice: Person) -> Notebook:
    """Give Alice's notebook with state in it, in a workspace that runs."""
    if not await alice.hub_ready():
        await alice.spawn("cpu")
    for session, path, kernel in await alice.sessions():
        if path == "work.ipynb":
            notebook = await alice.attach(path, kernel, session)
            break
    else:
        notebook = await alice.open_notebook("work.ipynb")
    result = await notebook.run(BUILD)
    assert result.status == "ok", result
    return notebook


async def check_whole(alice: Person, notebook: Notebook) -> str:
    """Assert that everything is there; return the host that it is on."""
    result = await notebook.run(CHECK)
    assert result.status == "ok", result
    view = await alice.view()
    assert view.state == "running"
    assert result.text.split() == ["whole", "on", view.host, view.flavor], (result.text, view)
    sessions = await alice.sessions()
    assert (notebook.session_id, notebook.path, notebook.kernel_id) in sessions
    return view.host or ""


def other(flavor: str | None) -> str:
    """Return a flavor on another host than ``flavor``'s."""
    return "1xA100" if flavor != "1xA100" else "cpu"


async def break_it(world: World, alice: Person, point: str, action: str) -> str:
    """Switch with one planted fault; return how the move ended."""
    notebook = await at_work(alice)
    before = await alice.view()
    world.plant(point, action)
    with world.reviving():
        end = await alice.switch_and_wait(other(before.flavor))
        await alice.until(lambda v: v.state == "running", "the workspace to run")
    assert end.move is not None
    host = await check_whole(alice, notebook)
    if end.move.status == "done":
        assert host != before.host
    else:
        assert host == before.host
        assert end.move.reason, "the person was not told why"
    await notebook.close()
    return end.move.status


@pytest.mark.parametrize(("point", "action"), MANAGER)
async def test_the_manager_breaks_at_a_step(
    world: World, alice: Person, point: str, action: str
) -> None:
    status = await break_it(world, alice, point, action)
    if action == "kill":
        assert status == "done", "a restart of the manager alone should not fail a switch"


@pytest.mark.parametrize("action", ["raise planted", "kill"])
@pytest.mark.parametrize("point", SOURCE)
async def test_the_source_breaks(world: World, alice: Person, point: str, action: str) -> None:
    await at_work(alice)
    host = (await alice.view()).host
    await break_it(world, alice, f"agent.{host}.{point}", action)


@pytest.mark.parametrize("action", ["raise planted", "kill"])
@pytest.mark.parametrize("point", TARGET)
async def test_the_target_breaks(world: World, alice: Person, point: str, action: str) -> None:
    await at_work(alice)
    flavor = (await alice.view()).flavor
    host = "a100-1" if other(flavor) == "1xA100" else "cpu-1"
    await break_it(world, alice, f"agent.{host}.{point}", action)


@pytest.mark.parametrize("point", ["fetch.stream", "serve.stream"])
async def test_the_transfer_is_cut(world: World, alice: Person, point: str) -> None:
    await at_work(alice)
    view = await alice.view()
    target = "a100-1" if other(view.flavor) == "1xA100" else "cpu-1"
    host = target if point == "fetch.stream" else view.host
    await break_it(world, alice, f"agent.{host}.{point}", "kill")


@pytest.mark.parametrize("point", ["capture", "capture.saved"])
async def test_the_capture_raises(world: World, alice: Person, point: str) -> None:
    await at_work(alice)
    host = (await alice.view()).host
    status = await break_it(world, alice, f"server.{host}.{point}", "raise no room for it")
    assert status == "failed"


@pytest.mark.parametrize("point", ["restore", "restore.kernels"])
@pytest.mark.parametrize("action", ["raise it does not fit", "kill"])
async def test_the_restore_raises(world: World, alice: Person, point: str, action: str) -> None:
    await at_work(alice)
    flavor = (await alice.view()).flavor
    host = "a100-1" if other(flavor) == "1xA100" else "cpu-1"
    status = await break_it(world, alice, f"server.{host}.{point}", action)
    assert status == "failed"


@pytest.mark.parametrize("point", ["netswitch.park", "netswitch.reroute"])
@pytest.mark.parametrize("action", ["raise planted", "kill"])
async def test_the_net_switch_breaks(world: World, alice: Person, point: str, action: str) -> None:
    # A restart of the Net Switch cuts the sockets; a tab opens them again by itself.
    notebook = await at_work(alice)
    before = await alice.view()
    world.plant(point, action)
    with world.reviving():
        end = await alice.switch_and_wait(other(before.flavor))
        await alice.until(lambda v: v.state == "running", "the workspace to run")
    assert end.move is not None
    again = await alice.attach(notebook.path, notebook.kernel_id, notebook.session_id)
    await check_whole(alice, again)
    await again.close()
    await notebook.close()


async def test_a_cell_sent_during_a_switch_runs_once_on_the_new_host(
    world: World, alice: Person
) -> None:
    notebook = await at_work(alice)
    await notebook.run("count = 0")
    before = await alice.view()
    host = "a100-1" if other(before.flavor) == "1xA100" else "cpu-1"
    world.plant(f"agent.{host}.restore", "raise")  # also across a switch that fails
    for expected in ("failed", "done"):
        move = await alice.switch(other(before.flavor))
        await alice.until(
            lambda v: (
                any(s.step in ("park", "capture", "send") for s in v.move.steps)
                or v.move.status != "running"
            ),
            "the park",
        )
        cells = [
            await notebook.send("count += 1; import os; print(os.environ['DEVCLUSTER_HOST'])")
            for _ in range(3)
        ]
        end = await alice.moved(move)
        assert end.move is not None
        assert end.move.status == expected
        results = [await cell for cell in cells]
        assert [r.status for r in results] == ["ok"] * 3
        assert {r.text.strip() for r in results} == {end.host}
    assert await notebook.value("count") == 6
    await notebook.close()
