"""Websockets: through an open gate, held before a parked one, and across a switch."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType
from devcluster.core.errors import Busy

PROTOCOL = "v1.kernel.websocket.jupyter.org"


async def hello(browser: aiohttp.ClientWebSocketResponse) -> str:
    return await browser.receive_str(timeout=10)


async def test_frames_pass_both_ways_as_they_are(world: Any) -> None:
    async with world.websocket("ws?session_id=1", protocols=["x", PROTOCOL]) as browser:
        assert browser.protocol == PROTOCOL
        assert await hello(browser) == "L1 says hello"
        await browser.send_str("grüße")
        assert await browser.receive_str() == "grüße"
        await browser.send_bytes(b"\x00\xff")
        assert await browser.receive_bytes() == b"\x00\xff"
        big = b"x" * (6 << 20)
        await browser.send_bytes(big)
        assert await browser.receive_bytes() == big
    request = world.backend.requests[0]
    assert request.uri == "/user/alice/ws?session_id=1"
    assert request.headers["Origin"] == "http://hub.example"
    assert "Sec-Websocket-Extensions" not in request.headers


async def test_without_a_common_subprotocol_none_is_chosen(world: Any) -> None:
    async with world.websocket(protocols=["x"]) as browser:
        assert browser.protocol is None
        assert await hello(browser) == "L1 says hello"


@pytest.mark.parametrize("status", [302, 401, 403, 404, 500])
async def test_a_refusal_of_the_server_is_passed_on(world: Any, status: int) -> None:
    world.backend.refuse = status
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    async with world.get("ws", headers=headers) as answer:
        assert answer.status == status
        assert answer.headers["X-Why"] == "refused"
        assert await answer.text() == "not you"
    assert not world.gate.links


async def test_the_origin_check_is_the_servers(world: Any) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await world.websocket(origin="http://evil.example")
    assert refused.value.status == 403


async def test_pings_and_pongs_pass(world: Any, eventually: Any) -> None:
    async with world.websocket(autoping=False) as browser:
        await hello(browser)
        await browser.ping(b"from the browser")
        assert (await browser.receive(timeout=10)).type is WSMsgType.PONG
        world.backend.sockets[0].ping(b"from the server")
        ping = await browser.receive(timeout=10)
        assert (ping.type, ping.data) == (WSMsgType.PING, b"from the server")
        await browser.pong(ping.data)
        await eventually(lambda: world.backend.pongs == [b"from the server"])
        assert world.backend.pings == [b"from the browser"]


@pytest.mark.parametrize("code", [1000, 1001, 1011, 4000])
async def test_close_codes_pass_both_ways(world: Any, eventually: Any, code: int) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await browser.send_str(f"close {code} because of that")
        close = await browser.receive(timeout=10)
        assert (close.type, close.data) == (WSMsgType.CLOSE, code)
        assert close.extra == "because of that"
    async with world.websocket() as browser:
        await hello(browser)
        await browser.close(code=code, message=b"gone home")
        assert browser.close_code == code
    await eventually(lambda: (code, "gone home") in world.backend.closes)
    await eventually(lambda: not world.gate.links)


async def test_an_upstream_lost_without_a_plan_closes_with_service_restart(world: Any) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await browser.send_str("vanish")
        close = await browser.receive(timeout=10)
        assert (close.type, close.data) == (WSMsgType.CLOSE, 1012)
    async with world.get("tell") as answer:
        assert answer.status == 200


async def test_a_browser_that_vanishes_is_noticed_by_the_server(
    world: Any, eventually: Any
) -> None:
    browser = await world.websocket()
    await hello(browser)
    browser._response.connection.transport.abort()
    await eventually(lambda: len(world.backend.closes) == 1)
    await eventually(lambda: not world.gate.links)


async def test_b16_frames_cross_a_switch_in_order_and_once(
    world: Any, start_backend: Any, eventually: Any
) -> None:
    """Counting all the time in both directions, while the workspace moves twice."""
    new = start_backend("L2")
    got: list[str] = []

    async with world.websocket("ws?session_id=7", protocols=[PROTOCOL]) as browser:

        async def listen() -> None:
            async for message in browser:
                got.append(message.data)

        listening = asyncio.create_task(listen())
        sent = 0

        async def count(upto: int) -> None:
            nonlocal sent
            while sent < upto:
                await browser.send_str(str(sent))
                sent += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count(900))
        for threshold, old, to in ((100, world.backend, new), (500, new, world.backend)):
            await eventually(lambda at=threshold: sent > at)
            await world.put("parked", old)
            before = len(old.messages)
            await asyncio.sleep(0.05)  # frames of the browser arrive meanwhile
            assert len(old.messages) == before, "a parked server got a frame"
            await world.put("open", to)
        await counting
        await eventually(lambda: len(got) == 900 + 3)
        listening.cancel()
        hellos = [text for text in got if "hello" in text]
        assert hellos == ["L1 says hello", "L2 says hello", "L1 says hello"]
        assert [text for text in got if "hello" not in text] == [str(n) for n in range(900)]
        assert new.messages
        assert len(world.backend.messages) + len(new.messages) == 900
        redialled = new.requests[0]
        assert redialled.uri == "/user/alice/ws?session_id=7"
        assert redialled.headers["Sec-Websocket-Protocol"] == PROTOCOL


async def test_an_aborted_switch_flushes_to_the_socket_that_is_still_joined(
    world: Any, eventually: Any
) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        for n in range(50):
            await browser.send_str(str(n))
        await browser.ping()
        await asyncio.sleep(0.05)
        assert world.backend.messages == []
        await world.put("open")
        for n in range(50):
            assert await browser.receive_str(timeout=10) == str(n)
    assert len(world.backend.sockets) == 1


async def test_parking_waits_until_the_server_has_worked_off_what_was_sent(world: Any) -> None:
    world.backend.answer.clear()  # its handler is in the middle of a message
    async with world.websocket() as browser:
        await hello(browser)
        await browser.send_str("run this")
        parking = asyncio.create_task(world.put("parked"))
        await asyncio.sleep(0.1)
        assert not parking.done()
        world.backend.answer.set()
        assert (await parking).mode == "parked"
        assert await browser.receive_str(timeout=10) == "run this"  # it flows on while parked


async def test_a_server_that_answers_no_ping_makes_parking_busy(make_world: Any) -> None:
    world = await make_world(drain_s=0.2)
    world.backend.answer.clear()
    async with world.websocket() as browser:
        await hello(browser)
        await browser.send_str("stuck")
        with pytest.raises(Busy) as busy:
            await world.put("parked")
        assert busy.value.details == {"websockets": 1}
        await browser.send_str("after")
        world.backend.answer.set()
        assert await browser.receive_str(timeout=10) == "stuck"
        assert await browser.receive_str(timeout=10) == "after"


async def test_what_a_parked_server_says_still_reaches_the_browser(world: Any) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        await world.backend.sockets[0].write_message("late output")
        assert await browser.receive_str(timeout=10) == "late output"


async def test_what_the_old_server_said_last_comes_before_the_new_one(
    world: Any, start_backend: Any
) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        for n in range(200):
            await world.backend.sockets[0].write_message(f"last words {n}")
        await world.put("open", start_backend("L2"))
        texts = [await browser.receive_str(timeout=10) for _ in range(201)]
        assert texts == [*(f"last words {n}" for n in range(200)), "L2 says hello"]


async def test_an_old_server_that_is_killed_while_parked_is_not_missed(
    world: Any, start_backend: Any
) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        await world.backend.close()
        await browser.send_str("held")
        await world.put("open", start_backend("L2"))
        assert await hello(browser) == "L2 says hello"
        assert await browser.receive_str(timeout=10) == "held"


async def test_a_socket_that_cannot_be_joined_again_is_closed_with_service_restart(
    make_world: Any, start_backend: Any
) -> None:
    world = await make_world(redial_s=0.5)
    new = start_backend("L2")
    new.refuse = 404
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        await world.put("open", new)
        assert len(new.requests) > 1, "a refusal is tried again"
        close = await browser.receive(timeout=10)
        assert (close.type, close.data) == (WSMsgType.CLOSE, 1012)


async def test_a_new_websocket_waits_while_parked(
    world: Any, start_backend: Any, eventually: Any
) -> None:
    await world.put("parked")
    dialling = asyncio.create_task(world.websocket())
    await eventually(lambda: world.gate.held == 1)
    await world.put("open", start_backend("L2"))
    async with await dialling as browser:
        assert await hello(browser) == "L2 says hello"


async def test_a_deflated_workspace_keeps_its_browsers(world: Any, start_backend: Any) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        await world.put("deflated")
        await world.backend.close()
        await browser.send_str("typed at noon")
        await browser.ping()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await world.websocket()
        assert refused.value.status == 503
        await world.put("open", start_backend("L2"))
        assert await hello(browser) == "L2 says hello"
        assert await browser.receive_str(timeout=10) == "typed at noon"


async def test_a_stopped_workspace_sends_its_browsers_away_to_come_again(world: Any) -> None:
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("closed")
        close = await browser.receive(timeout=10)
        assert (close.type, close.data) == (WSMsgType.CLOSE, 1012)


async def test_what_a_browser_sent_before_it_went_still_arrives(
    world: Any, start_backend: Any, eventually: Any
) -> None:
    new = start_backend("L2")
    browser = await world.websocket()
    await hello(browser)
    await world.put("parked")
    await browser.send_str("save me")
    await asyncio.sleep(0.05)
    browser._response.connection.transport.abort()
    await world.put("open", new)
    await eventually(lambda: new.messages == ["save me"])
    await eventually(lambda: not world.gate.links)
    await eventually(lambda: len(new.closes) == 1)


async def test_what_is_held_is_bounded_and_then_the_browser_must_wait(make_world: Any) -> None:
    world = await make_world(max_held_bytes=1 << 20)
    async with world.websocket() as browser:
        await hello(browser)
        await world.put("parked")
        sent = 0

        async def pour() -> None:
            nonlocal sent
            for _ in range(64):
                await browser.send_bytes(b"x" * (1 << 20))
                sent += 1

        pouring = asyncio.create_task(pour())
        last = -1
        while sent != last:
            last = sent
            await asyncio.sleep(0.2)
        assert sent < 32  # the kernel's buffers and one message here; not all of it
        (link,) = world.gate.links
        assert link._queued < 3 << 20
        await world.put("open")
        for _ in range(64):
            assert len(await browser.receive_bytes(timeout=10)) == 1 << 20
        await pouring


async def test_b42_a_browser_that_never_reads_holds_up_the_server_and_no_switch(
    make_world: Any, start_backend: Any, eventually: Any
) -> None:
    world = await make_world(drain_s=0.3)
    async with world.websocket() as healthy:
        await hello(healthy)
        deaf = socket.create_connection(world.switch.url.removeprefix("http://").split(":"))
        deaf.setblocking(True)
        deaf.sendall(
            b"GET /user/alice/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Origin: http://hub.example\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await eventually(lambda: len(world.backend.sockets) == 2)
        talker, said = world.backend.sockets[1], 0

        async def talk() -> None:
            nonlocal said
            for _ in range(64):
                await talker.write_message(b"x" * (1 << 20), binary=True)
                said += 1

        talking = asyncio.create_task(talk())
        last = -1
        while said != last:
            last = said
            await asyncio.sleep(0.2)
        assert said < 48  # memory is bounded: the server itself is held up
        assert (await world.put("parked")).mode == "parked"
        await world.put("open", start_backend("L2"))
        assert await hello(healthy) == "L2 says hello"
        await eventually(lambda: len(world.gate.links) == 1)
        deaf.close()
        talking.cancel()


async def test_b42_a_websocket_survives_a_route_that_changes_all_the_time(
    world: Any, start_backend: Any, eventually: Any
) -> None:
    servers = [world.backend, start_backend("L2")]
    async with world.websocket() as browser:
        for turn in range(20):
            await browser.send_str(str(turn))
            await world.put("parked", servers[turn % 2])
            await world.put("open", servers[(turn + 1) % 2])
        await eventually(lambda: sum(len(server.messages) for server in servers) == 20)
        texts = [await browser.receive_str(timeout=10) for _ in range(41)]
    assert [t for t in texts if "hello" not in t] == [str(n) for n in range(20)]


async def test_a_switch_during_a_handshake_joins_the_new_server(
    make_world: Any, start_backend: Any, eventually: Any
) -> None:
    world = await make_world(drain_safe_s=0.1)
    blocked = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = blocked.sockets[0].getsockname()[1]
    await world.put("open", backend=f"http://127.0.0.1:{port}", lease="L-deaf")
    dialling = asyncio.create_task(world.websocket())
    await eventually(lambda: world.gate.under_way == 1)
    await world.put("open", start_backend("L2"))
    async with await dialling as browser:
        assert await hello(browser) == "L2 says hello"
    blocked.close()
