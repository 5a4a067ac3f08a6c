"""A switch that breaks at any step ends whole: on the source or on the target, never both,
never neither, with every variable and file, and the person is told why.

The faults are planted at the recorded steps, so nothing here hangs on timing.
Here: hosts, servers, the Net Switch.
"""

from __future__ import annotations

import pytest

from tests.support.person import Person
from tests.support.work import at_work, break_it, check_whole, other
from tests.support.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

SOURCE = ["capture", "capture.saved", "capture.frozen", "remove"]
TARGET = ["ensure", "ensure.spawned", "fetch", "restore"]


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
