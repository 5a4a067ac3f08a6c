"""Any part may be restarted at any time: workspaces go on, and all is consistent after."""

from __future__ import annotations

import pytest

from tests.support.person import Person
from tests.support.work import at_work, check_whole, other
from tests.support.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

PARTS = ["manager", "netswitch", "hub", "agent:cpu-1", "agent:a100-1"]


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_is_restarted_while_people_work(
    world: World, alice: Person, part: str
) -> None:
    notebook = await at_work(alice)
    before = await alice.view()
    world.cluster.kill(part)
    world.revive()
    world.cluster.wait_ready()
    await alice.until(lambda v: v.state == "running", "the workspace to run")
    again = await alice.attach(notebook.path, notebook.kernel_id, notebook.session_id)
    assert await check_whole(alice, again) == before.host
    assert await alice.hub_ready()
    end = await alice.switch_and_wait(other(before.flavor))
    assert end.move is not None
    assert end.move.status == "done", end.move.reason
    await check_whole(alice, again)
    await again.close()
    await notebook.close()


@pytest.mark.parametrize(
    ("part", "step"),
    [
        ("manager", "capture"),
        ("netswitch", "capture"),
        ("hub", "prepare"),
        ("hub", "restore"),
        ("agent:cpu-1", "send"),
        ("agent:a100-1", "prepare"),
    ],
)
async def test_b03_a_part_is_restarted_in_the_middle_of_a_switch(
    world: World, alice: Person, part: str, step: str
) -> None:
    notebook = await at_work(alice)
    before = await alice.view()
    move = await alice.switch(other(before.flavor))
    await alice.until(
        lambda v: (
            v.move.id == move.id
            and (any(s.step == step for s in v.move.steps) or v.move.status != "running")
        ),
        f"the step {step}",
    )
    world.cluster.kill(part)
    with world.reviving():
        end = await alice.moved(move)
        await alice.until(lambda v: v.state == "running", "the workspace to run")
    world.cluster.wait_ready()
    assert end.move is not None
    again = await alice.attach(notebook.path, notebook.kernel_id, notebook.session_id)
    host = await check_whole(alice, again)
    assert (host == before.host) == (end.move.status != "done")
    assert await alice.hub_ready(), "the hub gave the server up"
    await again.close()
    await notebook.close()


async def test_the_hub_stays_down_and_work_goes_on(world: World, alice: Person) -> None:
    notebook = await at_work(alice)
    world.cluster.kill("hub")
    result = await notebook.run("6 * 7")
    assert result.value == "42"
    world.revive()
    world.cluster.wait_ready()
    await check_whole(alice, notebook)
    await notebook.close()
