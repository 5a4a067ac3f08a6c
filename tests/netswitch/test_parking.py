"""Parking, and what comes after it: requests wait, nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from devcluster.agent.netswitch.client import put_route
from devcluster.core.errors import Busy, StepFailed


def begin(world: Any, method: str, path: str, **more: Any) -> asyncio.Task[aiohttp.ClientResponse]:
    async def run() -> aiohttp.ClientResponse:
        answer = await world.http.request(method, world.base + path, **more)
        await answer.read()
        return answer

    return asyncio.create_task(run())


async def test_requests_wait_and_then_go_to_the_new_server(
    world: Any, start_backend: Any, eventually: Any
) -> None:
    new = start_backend("L2")
    await world.put("parked")
    waiting = [begin(world, m, "tell", data=b"x" * 100) for m in ("GET", "POST", "PUT")]
    await eventually(lambda: world.gate.held == 3)
    assert not any(task.done() for task in waiting)
    await world.put("open", new)
    for answer in await asyncio.gather(*waiting):
        told = await answer.json()
        assert (told["backend"], told["body"]) == ("L2", "x" * 100)
    assert world.backend.requests == []


async def test_an_aborted_switch_lets_requests_go_to_the_old_server(
    world: Any, eventually: Any
) -> None:
    await world.put("parked")
    waiting = begin(world, "POST", "tell")
    await eventually(lambda: world.gate.held == 1)
    await world.put("open")
    assert (await (await waiting).json())["backend"] == "L1"


async def test_parking_waits_for_a_change_that_is_under_way(world: Any, eventually: Any) -> None:
    saving = begin(world, "POST", "slow")
    await eventually(lambda: world.backend.slow_began == 1)
    parking = asyncio.create_task(world.put("parked"))
    await eventually(lambda: world.gate.route.mode == "parked")
    assert not parking.done()
    world.backend.go_on.set()
    assert (await parking).mode == "parked"
    assert (await saving).status == 200


async def test_parking_a_change_that_does_not_end_is_busy_and_the_route_stays_open(
    make_world: Any, eventually: Any
) -> None:
    world = await make_world(drain_s=0.2, drain_safe_s=0.1)
    saving = begin(world, "POST", "slow?x=1")
    await eventually(lambda: world.backend.slow_began == 1)
    with pytest.raises(Busy, match=r"POST /user/alice/slow\?x=1") as busy:
        await world.put("parked")
    assert busy.value.details == {"requests": ["POST /user/alice/slow?x=1"]}
    async with world.get("tell") as answer:
        assert answer.status == 200
    world.backend.go_on.set()
    assert (await saving).status == 200
    assert (await world.put("parked")).mode == "parked"


async def test_a_request_that_waited_for_a_parking_that_failed_goes_on(
    make_world: Any, eventually: Any
) -> None:
    world = await make_world(drain_s=0.3, drain_safe_s=0.1)
    saving = begin(world, "POST", "slow")
    await eventually(lambda: world.backend.slow_began == 1)
    parking = asyncio.create_task(world.put("parked"))
    await eventually(lambda: world.gate.route.mode == "parked")
    waiting = begin(world, "POST", "tell")
    await eventually(lambda: world.gate.held == 1)
    with pytest.raises(Busy):
        await parking
    assert (await waiting).status == 200
    world.backend.go_on.set()
    await saving


async def test_a_read_that_does_not_end_is_left_and_asked_again_of_the_new_server(
    make_world: Any, start_backend: Any, eventually: Any
) -> None:
    world = await make_world(drain_s=5.0, drain_safe_s=0.1)
    new = start_backend("L2")
    new.go_on.set()
    reading = begin(world, "GET", "slow")
    await eventually(lambda: world.backend.slow_began == 1)
    assert (await world.put("parked")).mode == "parked"
    assert not reading.done()
    await world.put("open", new)
    assert await (await reading).json() == {"backend": "L2"}


async def test_a_stream_that_has_begun_is_broken_off_when_its_server_is_left(
    make_world: Any, start_backend: Any
) -> None:
    world = await make_world(drain_safe_s=0.1)
    async with world.get("stream") as answer:
        assert await answer.content.readline() == b"first\n"
        await world.put("parked")
        await world.put("open", start_backend("L2"))
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_a_stream_outlives_an_aborted_switch(make_world: Any) -> None:
    world = await make_world(drain_safe_s=0.1)
    async with world.get("stream") as answer:
        assert await answer.content.readline() == b"first\n"
        await world.put("parked")
        await world.put("open")
        world.backend.go_on.set()
        assert await answer.content.read() == b"second\n"


async def test_polls_are_answered_while_parked_but_only_to_whom_they_were(
    world: Any, eventually: Any
) -> None:
    mine = {"Cookie": "session=alice"}
    async with world.get("api/kernels?1700000000001", headers=mine) as answer:
        told = await answer.read()
    await world.put("parked")
    async with world.get("api/kernels?1700000000002", headers=mine) as answer:
        assert answer.status == 200
        assert answer.content_type == "application/json"
        assert await answer.read() == told
    for other in ({}, {"Cookie": "session=bob"}, {**mine, "Authorization": "token x"}):
        waiting = begin(world, "GET", "api/kernels?1700000000003", headers=other)
        await eventually(lambda: world.gate.held == 1)
        waiting.cancel()
        await eventually(lambda: world.gate.held == 0)
    assert world.backend.polls == 1


async def test_a_poll_from_before_a_change_is_not_repeated(world: Any, eventually: Any) -> None:
    async with world.get("api/kernels"):
        pass
    async with world.http.post(world.base + "api/kernels"):
        pass
    await world.put("parked")
    waiting = begin(world, "GET", "api/kernels")
    await eventually(lambda: world.gate.held == 1)
    await world.put("open")
    assert (await (await waiting).json())[0]["poll"] == 2


async def test_after_a_switch_polls_are_the_new_servers(world: Any, start_backend: Any) -> None:
    async with world.get("api/kernels"):
        pass
    await world.put("parked")
    new = start_backend("L2")
    await world.put("open", new)
    async with world.get("api/kernels"):
        pass
    assert new.polls == 1


async def test_what_waits_is_bounded_in_number_and_time(make_world: Any, eventually: Any) -> None:
    world = await make_world(max_held=2, hold_s=0.4)
    await world.put("parked")
    waiting = [begin(world, "GET", "tell") for _ in range(2)]
    await eventually(lambda: world.gate.held == 2)
    for answer in (await begin(world, "GET", "tell"), *await asyncio.gather(*waiting)):
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert (await answer.json())["retry"] is True
    assert world.gate.held == 0


async def test_b39_polls_of_a_deflated_workspace_start_nothing_and_pages_lead_on(
    world: Any,
) -> None:
    await world.put("parked")
    await world.put("deflated", message="Deflated at noon.")
    for method, path in (("GET", "api/kernels"), ("POST", "api/sessions"), ("GET", "lab")):
        async with world.http.request(
            method, world.base + path, headers={"Sec-Fetch-Mode": "cors"}, allow_redirects=False
        ) as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"]
            told = await answer.json()
            assert (told["error"], told["message"]) == ("unavailable", "Deflated at noon.")
    async with world.get("lab/tree/a.ipynb?x=1", headers={"Sec-Fetch-Mode": "navigate"}) as answer:
        assert answer.status == 302
        assert answer.headers["Location"] == (
            "/services/devcluster/open/alice/default"
            "?next=%2Fuser%2Falice%2Flab%2Ftree%2Fa.ipynb%3Fx%3D1"
        )
    assert world.backend.requests == []


async def test_deflating_refuses_what_waited(world: Any, eventually: Any) -> None:
    await world.put("parked")
    waiting = begin(world, "GET", "api/kernels")
    await eventually(lambda: world.gate.held == 1)
    await world.put("deflated")
    assert (await waiting).status == 503


async def test_b48_a_closed_workspace_says_so_on_an_escaped_page(world: Any) -> None:
    await world.put("closed", message="<img src=x onerror=alert(1)> stopped")
    async with world.get("lab", headers={"Sec-Fetch-Mode": "navigate"}) as answer:
        assert answer.status == 503
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        page = await answer.text()
    assert "&lt;img src=x" in page
    assert "<img" not in page


async def test_b42_a_route_that_changes_all_the_time_loses_no_request(
    world: Any, start_backend: Any
) -> None:
    servers = [world.backend, start_backend("L2")]
    statuses: list[int] = []
    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            async with world.http.post(world.base + "tell") as answer:
                statuses.append(answer.status)

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    for turn in range(20):
        await world.put("parked", servers[turn % 2])
        await world.put("open", servers[(turn + 1) % 2])
        await asyncio.sleep(0.01)
    over.set()
    await asyncio.gather(*asking)
    assert set(statuses) == {200}
    assert sum(len(server.requests) for server in servers) == len(statuses)


async def test_a_fault_at_park_changes_nothing(
    world: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVCLUSTER_FAULTS", str(tmp_path))
    (tmp_path / "netswitch.park").write_text("raise no parking")
    route = world.route("parked")
    with pytest.raises(StepFailed, match="no parking"):
        await world.control.send(put_route(route))
    assert world.gate.route.mode == "open"
    assert (await world.control.send(put_route(route))).mode == "parked"


async def test_a_fault_at_reroute_leaves_the_workspace_parked(
    world: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, start_backend: Any
) -> None:
    await world.put("parked")
    monkeypatch.setenv("DEVCLUSTER_FAULTS", str(tmp_path))
    (tmp_path / "netswitch.reroute").write_text("raise no way")
    route = world.route("open", start_backend("L2"))
    with pytest.raises(StepFailed, match="no way"):
        await world.control.send(put_route(route))
    assert world.gate.route.mode == "parked"
    assert (await world.control.send(put_route(route))).lease == "L2"
