"""Start and restart: the routes are the manager's, never a file's."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType
from devcluster.agent.netswitch.app import TOKEN_VARIABLE, NetSwitch
from devcluster.core.names import object_name
from devcluster.core.records import Route


def route(backend: Any, revision: int = 1, **more: Any) -> Route:
    fields = {
        "workspace": "alice/default",
        "prefix": "/user/alice/",
        "revision": revision,
        "mode": "open",
        "backend": backend.url,
        "lease": backend.lease,
    }
    return Route(**{**fields, **more})


async def test_b45_requests_wait_until_the_manager_has_told_the_routes(
    manager: Any, start_switch: Any, start_backend: Any, http: Any, eventually: Any
) -> None:
    manager.ready = False
    switch = await start_switch()
    asking = [
        asyncio.create_task(http.get(f"{switch.url}/user/{name}/tell").__aenter__())
        for name in ("alice", "bob")
    ]
    await eventually(lambda: len(manager.asked) >= 2)
    assert manager.asked[0] == "/api/routes token cluster-token"
    assert not any(task.done() for task in asking)
    manager.table = [route(start_backend("L1"))]
    manager.ready = True
    alices, bobs = await asyncio.gather(*asking)
    assert (await alices.json())["backend"] == "L1"
    assert bobs.status == 503
    bobs.release()


async def test_waiting_for_the_routes_is_bounded(
    manager: Any, start_switch: Any, http: Any
) -> None:
    manager.ready = False
    switch = await start_switch(hold_s=0.2)
    async with http.get(f"{switch.url}/user/alice/lab", headers={"Accept": "text/html"}) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert "does not know the workspaces yet" in await answer.text()


async def test_a_newer_route_that_came_directly_outlives_the_table(
    manager: Any, start_switch: Any, start_backend: Any, eventually: Any
) -> None:
    manager.ready = False
    switch = await start_switch()
    old, new = start_backend("L1"), start_backend("L2")
    manager.table = [
        route(old, 5),
        route(old, 1, workspace="bob/default", prefix="/user/alice/"),  # cannot take effect
        route(old, 1, workspace="eve/default", prefix="/user/eve/"),
    ]
    newer = route(new, 6)
    await switch.board.apply(object_name("alice/default"), newer)
    manager.ready = True
    await eventually(switch.board.loaded.is_set)
    assert [r.workspace for r in switch.board.routes] == ["alice/default", "eve/default"]
    assert switch.board.match("/user/alice/").route == newer


async def test_a_workspace_that_is_parked_at_start_is_held(
    manager: Any, start_switch: Any, start_backend: Any, http: Any, eventually: Any
) -> None:
    manager.table = [route(start_backend("L1"), 3, mode="parked")]
    switch = await start_switch()
    asking = asyncio.create_task(http.get(f"{switch.url}/user/alice/tell").__aenter__())
    await eventually(lambda: [g.held for g in switch.board.gates] == [1])
    await switch.board.apply(object_name("alice/default"), route(start_backend("L2"), 4))
    assert (await (await asking).json())["backend"] == "L2"


async def test_without_a_token_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(SystemExit, match=TOKEN_VARIABLE):
        await NetSwitch(port=0, control_port=0).open()


class Process:
    """The Net Switch as a process of its own."""

    def __init__(self, manager: Any, port: int, folder: Any) -> None:
        self.command = [
            sys.executable,
            "-m",
            "devcluster.agent.netswitch",
            f"--port={port}",
            "--control-port=0",
            f"--manager-url={manager.url}",
            "--log-level=INFO",
        ]
        self.folder = folder

    async def __aenter__(self) -> Process:
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            cwd=self.folder,
            env={**os.environ, TOKEN_VARIABLE: "t"},
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stderr is not None
        async with asyncio.timeout(20):
            while not (line := await self.process.stderr.readline()).count(b"listens at"):
                assert line, "it ended without listening"
        self.url = re.findall(r"http://[\d.]+:\d+", line.decode())[0]
        return self

    async def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        async with asyncio.timeout(20):
            _, _ = await self.process.communicate()
        return self.process.returncode or 0

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.communicate()


async def test_b45_a_restart_takes_the_routes_from_the_manager_and_nothing_from_disk(
    manager: Any, start_backend: Any, http: Any, tmp_path: Any
) -> None:
    old, new = start_backend("L1"), start_backend("L2")
    manager.table = [route(old)]
    async with Process(manager, 0, tmp_path) as first:
        port = int(first.url.rsplit(":", 1)[1])
        async with http.get(f"{first.url}/user/alice/tell") as answer:
            assert (await answer.json())["backend"] == "L1"
        browser = await http.ws_connect(f"{first.url}/user/alice/ws", origin="http://hub.example")
        assert await browser.receive_str() == "L1 says hello"
        assert await first.end(signal.SIGTERM) == 0
        close = await browser.receive(timeout=10)
        assert (close.type, close.data) == (WSMsgType.CLOSE, 1012), "the lab comes back at once"
        await browser.close()
    manager.table = [route(new, 2)]
    async with Process(manager, port, tmp_path) as second:
        async with http.get(f"{second.url}/user/alice/tell") as answer:
            assert (await answer.json())["backend"] == "L2"
        assert await second.end(signal.SIGKILL) == -signal.SIGKILL
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"{second.url}/user/alice/tell")
    assert list(tmp_path.iterdir()) == []
