"""HTTP through an open gate."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import socket
from typing import Any

import aiohttp
import pytest


async def test_requests_and_answers_pass_unchanged(world: Any) -> None:
    sent = {
        "Host": "hub.example:8000",
        "Origin": "http://hub.example:8000",
        "Cookie": "_xsrf=1; session=abc",
        "Authorization": "token t",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Proto": "https",
        "X-DevCluster-Lease": "forged",
    }
    async with world.http.post(
        aiohttp.client.URL(world.base + "tell?a=%2Fb&c=%20d", encoded=True),
        data=b"\xff\x00",
        headers=sent,
    ) as answer:
        told = await answer.json()
        assert answer.headers.getall("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]
        assert answer.headers["X-Method"] == "POST"
        assert "X-DevCluster-Lease" not in answer.headers
    assert told["uri"] == "/user/alice/tell?a=%2Fb&c=%20d"
    assert told["body"] == "\xff\x00"
    got = {name.lower(): value for name, value in told["headers"].items()}
    for name, value in sent.items():
        assert got[name.lower()] == ("L1" if name == "X-DevCluster-Lease" else value)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "POST"])
async def test_every_method_passes(world: Any, method: str) -> None:
    async with world.http.request(method, world.base + "tell") as answer:
        assert answer.status == 200
        assert answer.headers["X-Method"] == method
        assert (await answer.read() == b"") is (method == "HEAD")


@pytest.mark.parametrize("status", [201, 204, 304, 400, 403, 404, 500])
async def test_the_servers_own_statuses_pass(world: Any, status: int) -> None:
    async with world.get(f"raw?status={status}") as answer:
        assert answer.status == status


async def test_redirects_are_not_followed_nor_touched(world: Any) -> None:
    async with world.get("raw?status=302&header=Location:http://elsewhere/x?y=%2520") as answer:
        assert answer.status == 302
        assert answer.headers["Location"] == "http://elsewhere/x?y=%20"


async def test_compressed_bodies_stay_as_they_are(world: Any) -> None:
    async with world.get("gzip") as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert await answer.read() == gzip.compress(b"hello", mtime=0)


async def test_compressed_uploads_stay_as_they_are(world: Any) -> None:
    packed = gzip.compress(b"hello", mtime=0)
    headers = {"Content-Encoding": "gzip"}
    async with world.http.post(world.base + "tell", data=packed, headers=headers) as answer:
        assert (await answer.json())["body"].encode("latin-1") == packed


async def test_an_answer_is_streamed_as_it_comes(world: Any) -> None:
    async with world.get("stream") as answer:
        assert await answer.content.readline() == b"first\n"
        assert not world.backend.go_on.is_set()
        world.backend.go_on.set()
        assert await answer.content.read() == b"second\n"


async def test_a_large_download_passes_whole(world: Any) -> None:
    digest, size = hashlib.sha256(), 0
    async with world.get("big?mib=64") as answer:
        assert answer.headers["Content-Length"] == str(64 << 20)
        async for chunk in answer.content.iter_any():
            digest.update(chunk)
            size += len(chunk)
    assert size == 64 << 20
    assert digest.hexdigest() == hashlib.sha256(b"x" * (64 << 20)).hexdigest()


async def test_an_upload_is_streamed_as_it_comes(world: Any, eventually: Any) -> None:
    more = asyncio.Event()

    async def body() -> Any:
        yield b"a" * 1000
        await more.wait()
        yield b"b" * (3 << 20)

    sending = asyncio.create_task(world.http.put(world.base + "upload", data=body()).__aenter__())
    await eventually(lambda: world.backend.uploaded == 1000)
    more.set()
    answer = await sending
    assert await answer.json() == {"size": 1000 + (3 << 20)}
    answer.release()


async def test_a_client_that_expects_100_is_told_to_go_on(world: Any) -> None:
    url = world.base + "upload"
    async with world.http.put(url, data=b"x" * 5000, expect100=True) as answer:
        assert await answer.json() == {"size": 5000}


async def test_a_named_server_has_its_own_address(world: Any, start_backend: Any) -> None:
    two = start_backend("L-two")
    await world.put("open", two, workspace="alice/two", prefix="/user/alice/two/")
    async with world.get("two/tell") as answer:
        assert (await answer.json())["backend"] == "L-two"
    async with world.get("tell") as answer:
        assert (await answer.json())["backend"] == "L1"


async def test_encoded_prefixes_meet_however_the_browser_writes_them(
    world: Any, start_backend: Any
) -> None:
    at = start_backend("L-at")
    await world.put("open", at, workspace="a@b/default", prefix="/user/a%40b/")
    for written in ("a%40b", "a@b"):
        url = aiohttp.client.URL(f"{world.switch.url}/user/{written}/tell", encoded=True)
        async with world.http.get(url) as answer:
            told = await answer.json()
        assert told["backend"] == "L-at"
        assert told["uri"] == f"/user/{written}/tell"


async def test_an_unknown_address_is_unavailable_and_never_not_found(world: Any) -> None:
    for path in ("/", "/user/bob/api/kernels", "/user/"):
        async with world.http.get(world.switch.url + path) as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"]
            assert (await answer.json())["error"] == "unavailable"
    async with world.http.get(world.switch.url, headers={"Accept": "text/html"}) as answer:
        assert answer.status == 503
        assert answer.content_type == "text/html"
        assert "No workspace" in await answer.text()


async def test_b42_a_server_that_is_gone_is_unavailable(world: Any) -> None:
    await world.backend.close()
    for method in ("GET", "POST"):
        async with world.http.request(method, world.base + "tell") as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"]


async def test_b42_a_server_that_never_accepts_is_given_up_in_seconds(make_world: Any) -> None:
    world = await make_world(connect_s=0.2)
    with socket.socket() as deaf:  # its backlog is full: the kernel drops our SYN
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        try:
            await world.put("open", backend=f"http://127.0.0.1:{address[1]}")
            async with world.get("tell") as answer:
                assert answer.status == 503
        finally:
            for filler in fillers:
                filler.close()


async def test_b42_a_reset_in_the_middle_breaks_that_answer_off_and_nothing_else(
    world: Any,
) -> None:
    world.backend.reset_stream = True
    async with world.get("stream") as answer:
        assert await answer.content.readline() == b"first\n"
        world.backend.go_on.set()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()
    async with world.get("tell") as answer:
        assert answer.status == 200


async def test_b45_a_port_that_another_server_has_taken_tells_nothing(
    world: Any, start_backend: Any
) -> None:
    port = world.backend.port
    await world.backend.close()
    start_backend("L-of-bob", port)
    async with world.get("tell") as answer:
        assert answer.status == 503
        assert "secret" not in await answer.text()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await world.websocket()
    assert refused.value.status == 503


async def test_a_reader_that_is_slow_slows_the_server(world: Any) -> None:
    async with world.get("big?mib=256") as answer:
        await answer.content.readexactly(1)
        blocks = -1
        while blocks != world.backend.blocks:  # until the server comes no further
            blocks = world.backend.blocks
            await asyncio.sleep(0.2)
        assert blocks < 64  # MiB in all buffers on the way, of which most are the kernel's
        answer.close()


async def test_requests_of_a_client_that_is_gone_are_dropped(world: Any, eventually: Any) -> None:
    waiting = asyncio.create_task(world.get("slow").__aenter__())
    await eventually(lambda: world.backend.slow_began == 1)
    waiting.cancel()
    await eventually(lambda: world.gate.under_way == 0)


async def test_a_change_goes_on_when_its_client_is_gone(world: Any, eventually: Any) -> None:
    waiting = asyncio.create_task(world.http.post(world.base + "slow").__aenter__())
    await eventually(lambda: world.backend.slow_began == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert world.gate.under_way == 1
    world.backend.go_on.set()
    await eventually(lambda: world.backend.slow_ended == 1 and world.gate.under_way == 0)
