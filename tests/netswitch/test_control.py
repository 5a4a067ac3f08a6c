"""The control port."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from devcluster.agent.client import AgentClient
from devcluster.agent.netswitch.client import put_route, routes
from devcluster.core.errors import BadRequest, Busy, Conflict, Forbidden, NotFound, Stale
from devcluster.core.names import object_name


@pytest.fixture
async def control(world: Any) -> Any:
    headers = {"Authorization": "Bearer cluster-token"}
    async with httpx.AsyncClient(base_url=world.switch.control_url, headers=headers) as client:
        yield client


@pytest.mark.parametrize("token", ["x", "cluster-toke", "cluster-tokens", "Cluster-Token"])
async def test_a_foreign_token_changes_and_tells_nothing(world: Any, token: str) -> None:
    async with AgentClient(world.switch.control_url, token) as stranger:
        for call in (routes(), put_route(world.route("closed"))):
            with pytest.raises(Forbidden, match="bearer token"):
                await stranger.send(call)
    async with world.http.get(world.switch.control_url + "/v1/routes") as answer:
        assert answer.status == 403
    assert world.gate.route.mode == "open"


async def test_the_public_port_is_no_way_to_the_control(world: Any) -> None:
    async with world.http.get(world.switch.url + "/v1/routes") as answer:
        assert answer.status == 503


async def test_routes_are_told_as_they_are_in_effect(world: Any) -> None:
    await world.put("parked", message="moving")
    (told,) = await world.control.send(routes())
    assert told == world.gate.route
    assert (told.mode, told.message) == ("parked", "moving")


async def test_a_repeated_put_answers_the_state_in_effect(world: Any) -> None:
    parked = world.route("parked")
    for _ in range(3):
        assert await world.control.send(put_route(parked)) == parked


async def test_a_put_repeated_while_it_takes_effect_waits_for_the_same_end(
    make_world: Any, eventually: Any
) -> None:
    world = await make_world(drain_s=5.0)
    saving = asyncio.create_task(world.http.post(world.base + "slow").__aenter__())
    await eventually(lambda: world.backend.slow_began == 1)
    parked = world.route("parked")
    puts = [asyncio.create_task(world.control.send(put_route(parked))) for _ in range(2)]
    await eventually(lambda: world.gate.route == parked)
    assert not any(put.done() for put in puts)
    world.backend.go_on.set()
    assert await asyncio.gather(*puts) == [parked, parked]
    (await saving).release()


async def test_an_older_revision_is_stale_and_changes_nothing(world: Any) -> None:
    old = world.route("closed")
    await world.put("open")
    with pytest.raises(Stale):
        await world.control.send(put_route(old))
    assert world.gate.route.mode == "open"


async def test_another_route_under_the_same_revision_is_a_conflict(world: Any) -> None:
    other = world.gate.route.model_copy(update={"lease": "L9"})
    with pytest.raises(Conflict, match="higher revision"):
        await world.control.send(put_route(other))


async def test_an_address_that_is_taken_is_a_conflict_until_its_owner_is_closed(
    world: Any,
) -> None:
    async with world.get("tell") as answer:
        assert answer.status == 200
    taken = {"workspace": "alice/impostor", "prefix": world.prefix}
    with pytest.raises(Conflict, match="belongs to the workspace alice/default"):
        await world.put("open", **taken)
    assert world.gate.route.workspace == "alice/default"
    await world.put("closed")
    await world.put("open", **taken)
    assert world.gate.route.workspace == "alice/impostor"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"no json", "malformed at body"),
        (b"[]", "malformed at body"),
        (b"\xff", "malformed at body"),
        (b'{"workspace": "alice/default"}', "malformed at prefix"),
        ({"mode": "ajar"}, "malformed at mode"),
        ({"revision": -1}, "malformed at revision"),
        ({"prefix": "user/alice"}, "malformed at prefix"),
        ({"surprise": 1}, "malformed at surprise"),
        ({"workspace": "bob/default"}, "belongs at"),
        ({"lease": None}, "needs a backend and a lease"),
        ({"backend": "somewhere"}, "http://HOST:PORT"),
    ],
)
async def test_a_malformed_route_is_named_and_changes_nothing(
    world: Any, control: httpx.AsyncClient, body: Any, expected: str
) -> None:
    if isinstance(body, dict):
        body = json.dumps({**world.route("open").model_dump(mode="json"), **body}).encode()
    answer = await control.put(f"/v1/routes/{object_name('alice/default')}", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"] == BadRequest.code
    assert expected in answer.json()["message"]
    assert world.gate.route.revision == 1


async def test_what_is_not_there_is_said_in_the_same_form(control: httpx.AsyncClient) -> None:
    answer = await control.get("/v2/anything")
    assert (answer.status_code, answer.json()["error"]) == (404, NotFound.code)
    answer = await control.delete("/v1/routes")
    assert (answer.status_code, answer.json()["error"]) == (405, BadRequest.code)


async def test_health_needs_no_token_and_counts(world: Any) -> None:
    async with world.websocket(), world.http.get(world.switch.control_url + "/v1/health") as answer:
        told = await answer.json()
    assert told == {"loaded": True, "routes": 1, "websockets": 1, "requests": 0, "held": 0}


async def test_a_manager_that_dies_in_the_middle_of_parking_may_ask_again(
    make_world: Any, eventually: Any
) -> None:
    world = await make_world(drain_s=0.3, drain_safe_s=0.1)
    saving = asyncio.create_task(world.http.post(world.base + "slow").__aenter__())
    await eventually(lambda: world.backend.slow_began == 1)
    parked = world.route("parked")
    asking = asyncio.create_task(world.control.send(put_route(parked)))
    await eventually(lambda: world.gate.route == parked)
    asking.cancel()
    with pytest.raises(Busy):
        await world.control.send(put_route(parked))
    world.backend.go_on.set()
    (await saving).release()
    assert await world.control.send(put_route(parked)) == parked
