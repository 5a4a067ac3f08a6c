"""Two people and an admin: nobody sees or touches the other's, and the queue is fair."""

from __future__ import annotations

import aiohttp
import pytest
from devcluster.core.errors import DevClusterError
from devcluster.hub_ext import client as manager

from tests.support.person import Person
from tests.support.work import at_work, check_whole
from tests.support.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]


async def _running(one: Person, flavor: str) -> None:
    if not await one.hub_ready():
        await one.spawn("cpu")
    view = await one.view()
    if view.state == "deflated":
        view = await one.moved(await one.inflate("cpu"))
    if view.flavor != flavor:
        end = await one.switch_and_wait(flavor)
        assert end.move is not None
        assert end.move.status == "done", end.move.reason


async def test_a_taken_gpu_queues_the_switch_and_the_session_goes_on(
    world: World, alice: Person, bob: Person
) -> None:
    notebook = await at_work(alice)
    await _running(alice, "cpu")
    await _running(bob, "2xA100")
    flavors = {f.flavor.name: f for f in await alice.ask(manager.flavors())}
    assert flavors["1xA100"].free == 0
    assert flavors["1xA100"].total == 2

    move = await alice.switch("1xA100")
    view = await alice.until(lambda v: v.move.status == "queued", "the queue")
    assert view.state == "running"
    assert view.move is not None
    assert view.move.place == 1
    assert "A100" in view.move.reason
    await check_whole(alice, notebook)  # undisturbed

    await _running(bob, "cpu")  # frees the hardware: the move happens by itself
    end = await alice.moved(move)
    assert end.flavor == "1xA100", end
    await check_whole(alice, notebook)
    await notebook.close()


async def test_a_queued_switch_can_be_cancelled(world: World, alice: Person, bob: Person) -> None:
    notebook = await at_work(alice)
    await _running(alice, "cpu")
    await _running(bob, "2xA100")
    move = await alice.switch("2xA100")
    await alice.until(lambda v: v.move.status == "queued", "the queue")
    await alice.cancel()
    end = await alice.moved(move)
    assert end.move is not None
    assert end.move.status == "cancelled"
    await _running(bob, "cpu")
    assert (await alice.view()).flavor == "cpu"
    await check_whole(alice, notebook)
    await notebook.close()


async def test_deflating_frees_the_hardware_at_once(
    world: World, alice: Person, bob: Person
) -> None:
    notebook = await at_work(alice)
    await _running(bob, "cpu")
    await _running(alice, "2xA100")
    end = await alice.moved(await alice.deflate())
    assert end.state == "deflated", end.reason
    flavors = {f.flavor.name: f for f in await bob.ask(manager.flavors())}
    assert flavors["2xA100"].free == 1
    await _running(bob, "1xA100")
    end = await alice.moved(await alice.inflate("cpu"))
    assert end.state == "running", end.reason
    await check_whole(alice, notebook)
    await _running(bob, "cpu")
    await notebook.close()


async def test_b33_a_full_cluster_lets_its_user_change_shape(
    world: World, alice: Person, bob: Person
) -> None:
    await at_work(alice)
    await _running(bob, "cpu")
    await _running(alice, "1xA100")
    await _running(alice, "2xA100")  # needs the very card that Alice holds
    await _running(alice, "1xA100")
    await _running(alice, "cpu")


async def test_nobody_sees_or_touches_the_others_workspace(
    world: World, alice: Person, bob: Person
) -> None:
    notebook = await at_work(alice)
    await _running(bob, "cpu")
    assert {w.user for w in await bob.ask(manager.workspaces())} == {"bob"}
    calls = [
        manager.workspace("alice/default"),
        manager.events("alice/default"),
        manager.switch("alice/default", manager.SwitchRequest(flavor="1xA100")),
        manager.deflate("alice/default", manager.DeflateRequest()),
        manager.inflate("alice/default", manager.InflateRequest()),
        manager.cancel("alice/default"),
        manager.stop("alice/default"),
        manager.plan("alice/default", manager.PlanRequest(flavor="1xA100")),
        manager.routes(),
    ]
    for call in calls:
        with pytest.raises(DevClusterError) as refused:
            await bob.ask(call)
        assert refused.value.status in (403, 404), call
    hosts = await bob.ask(manager.hosts())
    assert not any("alice" in w for h in hosts for w in h.workspaces)
    async with bob.http.get(
        alice.base + "api/kernels", headers={"Authorization": f"token {bob.token}"}
    ) as answer:
        assert answer.status == 403
    assert (await alice.view()).state == "running"
    await check_whole(alice, notebook)
    await notebook.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/switch", b'{"flavor": "8xH100"}', 400, "Allowed: cpu"),
        ("POST", "/switch", b'{"flavor": -1}', 400, "flavor"),
        ("POST", "/switch", b"not json", 400, "JSON"),
        ("POST", "/switch", b'{"flavor": "cpu", "gpus": -2}', 400, "gpus"),
        ("POST", "/switch", b'{"flavor": "cpu", "on_busy": "kill"}', 400, "on_busy"),
        ("POST", "/answer", b'{"move": "nope", "choice": "wait"}', 409, ""),
        ("POST", "/inflate", b"[]", 400, ""),
        ("GET", "/nothing", b"", 404, ""),
    ],
)
async def test_bad_requests_say_what_is_allowed_and_change_nothing(
    world: World, alice: Person, method: str, path: str, body: bytes, status: int, says: str
) -> None:
    if not await alice.hub_ready():
        await alice.spawn("cpu")
    before = await alice.view()
    async with alice.http.request(
        method,
        f"{world.hub}/services/devcluster/api/workspaces/alice/default{path}",
        data=body,
        headers={"Authorization": f"token {alice.token}", "Content-Type": "application/json"},
    ) as answer:
        text = await answer.text()
        assert answer.status == status, text
        assert says in text
        assert "Traceback" not in text
    assert await alice.view() == before


async def test_a_foreign_token_is_refused(world: World) -> None:
    async with aiohttp.ClientSession() as http:
        for headers in ({"Authorization": "token deadbeef"}, {}):
            async with http.get(
                f"{world.hub}/services/devcluster/api/workspaces",
                headers=headers,
                allow_redirects=False,
            ) as answer:
                assert answer.status == 401, await answer.text()
                assert "Traceback" not in await answer.text()
