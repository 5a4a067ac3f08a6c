"""A Net Switch on loopback between a real client, real tornado servers and a small manager."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from devcluster.agent.netswitch.app import TOKEN_VARIABLE, NetSwitch
from devcluster.agent.netswitch.client import put_route
from devcluster.core.calls import Call
from devcluster.core.records import Route
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, stream_request_body
from tornado.websocket import WebSocketHandler

TOKEN = "cluster-token"
DEADLINE_S = 10.0


async def until(condition: Callable[[], Any], within_s: float = DEADLINE_S) -> None:
    """Wait for a condition, or fail."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


class _Checked:
    """As the server extension does it: another lease than one's own is answered with 421."""

    def prepare(self) -> None:
        backend: Backend = self.application.backend
        backend.requests.append(self.request)
        if self.request.headers.get("X-DevCluster-Lease") != backend.lease:
            self.set_status(421)
            self.finish(f"this is {backend.lease}, a secret")


class _Tell(_Checked, RequestHandler):
    async def _tell(self) -> None:
        self.set_header("X-Method", self.request.method)
        self.add_header("Set-Cookie", "a=1; Path=/")
        self.add_header("Set-Cookie", "b=2; Path=/")
        self.write(
            {
                "backend": self.application.backend.lease,
                "uri": self.request.uri,
                "headers": dict(self.request.headers.get_all()),
                "body": self.request.body.decode("latin-1"),
            }
        )

    get = post = put = patch = delete = head = _tell


class _Slow(_Checked, RequestHandler):
    async def _wait(self) -> None:
        backend: Backend = self.application.backend
        backend.slow_began += 1
        await backend.go_on.wait()
        backend.slow_ended += 1
        self.write({"backend": backend.lease})

    get = post = _wait


class _Stream(_Checked, RequestHandler):
    async def get(self) -> None:
        backend: Backend = self.application.backend
        self.write(b"first\n")
        await self.flush()
        await backend.go_on.wait()
        if backend.reset_stream:
            stream = self.request.connection.stream
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.close()  # with RST, since it may not linger
            return
        self.write(b"second\n")


class _Big(_Checked, RequestHandler):
    async def get(self) -> None:
        block, count = b"x" * (1 << 20), int(self.get_argument("mib"))
        self.set_header("Content-Length", str(len(block) * count))
        for _ in range(count):
            self.write(block)
            await self.flush()
            self.application.backend.blocks += 1


@stream_request_body
class _Upload(_Checked, RequestHandler):
    size = 0

    def data_received(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.application.backend.uploaded += len(chunk)

    def put(self) -> None:
        self.write({"size": self.size})


class _Raw(_Checked, RequestHandler):
    """Answers with a status, headers and a body that the query names."""

    def get(self) -> None:
        self.set_status(int(self.get_argument("status", "200")))
        for pair in self.get_arguments("header"):
            name, _, value = pair.partition(":")
            self.set_header(name, value)
        if body := self.get_argument("body", ""):
            self.write(body.encode("latin-1"))


class _Gzip(_Checked, RequestHandler):
    def get(self) -> None:
        self.set_header("Content-Encoding", "gzip")
        self.write(gzip.compress(b"hello", mtime=0))


class _Kernels(_Checked, RequestHandler):
    def get(self) -> None:
        backend: Backend = self.application.backend
        backend.polls += 1
        self.set_header("Content-Type", "application/json")
        self.write(json.dumps([{"id": "k1", "poll": backend.polls}]))

    def post(self) -> None:
        self.set_status(201)


class _Socket(_Checked, WebSocketHandler):
    def prepare(self) -> None:
        super().prepare()
        refuse = self.application.backend.refuse
        if refuse and not self._finished:
            self.set_status(refuse)
            self.set_header("X-Why", "refused")
            self.finish("not you")

    def check_origin(self, origin: str) -> bool:
        return origin == "http://hub.example"

    def select_subprotocol(self, offered: list[str]) -> str | None:
        wanted = "v1.kernel.websocket.jupyter.org"
        return wanted if wanted in offered else None

    async def open(self, *_: str) -> None:
        backend: Backend = self.application.backend
        backend.sockets.append(self)
        await self.write_message(f"{backend.lease} says hello")

    async def on_message(self, message: str | bytes) -> None:
        backend: Backend = self.application.backend
        await asyncio.sleep(0)  # handlers of the real server are not instantaneous either
        backend.messages.append(message)
        if isinstance(message, str) and message.startswith("close "):
            _, code, reason = message.split(" ", 2)
            self.close(int(code), reason)
        elif message == "vanish":
            self.ws_connection.stream.close()
        else:
            await backend.answer.wait()
            await self.write_message(message, binary=isinstance(message, bytes))

    def on_ping(self, data: bytes) -> None:
        self.application.backend.pings.append(data)

    def on_pong(self, data: bytes) -> None:
        self.application.backend.pongs.append(data)

    def on_close(self) -> None:
        self.application.backend.closes.append((self.close_code, self.close_reason))


class Backend:
    """A workspace's server: tornado, as Jupyter's is."""

    def __init__(self, lease: str, port: int = 0) -> None:
        self.lease = lease
        self.requests: list[Any] = []
        self.messages: list[str | bytes] = []
        self.sockets: list[WebSocketHandler] = []
        self.pings: list[bytes] = []
        self.pongs: list[bytes] = []
        self.closes: list[tuple[int | None, str | None]] = []
        self.go_on, self.answer = asyncio.Event(), asyncio.Event()
        self.answer.set()
        self.slow_began = self.slow_ended = self.polls = self.refuse = 0
        self.uploaded = self.blocks = 0
        self.reset_stream = False
        paths = {
            "tell": _Tell,
            "slow": _Slow,
            "stream": _Stream,
            "big": _Big,
            "upload": _Upload,
            "raw": _Raw,
            "gzip": _Gzip,
            "api/kernels": _Kernels,
            "ws": _Socket,
        }
        application = Application([(f".*/{path}", handler) for path, handler in paths.items()])
        application.backend = self
        self._server = HTTPServer(application, max_body_size=1 << 40)
        sockets = bind_sockets(port, "127.0.0.1")
        self._server.add_sockets(sockets)
        self.port = sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def close(self) -> None:
        """End as a killed process does: nobody is told."""
        self.go_on.set()
        self.answer.set()
        self._server.stop()
        for joined in self.sockets:
            if joined.ws_connection is not None:
                joined.ws_connection.stream.close()
        await self._server.close_all_connections()


class Manager:
    """Answers the one call that the Net Switch makes."""

    def __init__(self) -> None:
        self.table: list[Route] = []
        self.ready = True
        self.asked: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(f"{request.raw_path} {request.headers['Authorization']}")
        if not self.ready:
            return web.Response(status=503, text="not yet")
        return web.json_response(text=f"[{','.join(r.model_dump_json() for r in self.table)}]")


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    manager = Manager()
    runner = web.ServerRunner(web.Server(manager.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    manager.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield manager
    await runner.cleanup()


@pytest.fixture
async def start_backend() -> AsyncIterator[Callable[..., Backend]]:
    started: list[Backend] = []

    def start(lease: str, port: int = 0) -> Backend:
        started.append(Backend(lease, port))
        return started[-1]

    yield start
    for backend in started:
        await backend.close()


@pytest.fixture
async def start_switch(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Any]]:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    started: list[NetSwitch] = []

    async def start(**traits: Any) -> NetSwitch:
        switch = NetSwitch(port=0, control_port=0, manager_url=manager.url, **traits)
        await switch.open()
        started.append(switch)
        return switch

    yield start
    for switch in started:
        await switch.close()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield session


class Control:
    """Sends the manager's calls; ``AgentClient`` does the same but loads TLS roots first."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url, self._http = url, http

    async def send(self, call: Call[Any]) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self._http.request(
            call.method, self._url + call.path, data=call.body, headers=headers
        ) as answer:
            return call.answer(answer.status, await answer.read())


class World:
    """One workspace, alice's, on server L1, reached through the Net Switch."""

    prefix = "/user/alice/"

    def __init__(self, switch: NetSwitch, backend: Backend, http: aiohttp.ClientSession) -> None:
        self.switch = switch
        self.backend = backend
        self.http = http
        self.control = Control(switch.control_url, http)
        self._revision = 0

    @property
    def base(self) -> str:
        return f"{self.switch.url}{self.prefix}"

    @property
    def gate(self) -> Any:
        return self.switch.board.match(self.prefix)

    def route(self, mode: str, to: Backend | None = None, **more: Any) -> Route:
        self._revision += 1
        at = to or self.backend
        where = {"backend": at.url, "lease": at.lease} if mode in ("open", "parked") else {}
        fields = {
            "workspace": "alice/default",
            "prefix": self.prefix,
            "revision": self._revision,
            "mode": mode,
            **where,
            **more,
        }
        return Route(**fields)

    async def put(self, mode: str, to: Backend | None = None, **more: Any) -> Route:
        return await self.control.send(put_route(self.route(mode, to, **more)))

    def get(self, path: str, **more: Any) -> Any:
        return self.http.get(self.base + path, allow_redirects=False, **more)

    def websocket(self, path: str = "ws", **more: Any) -> Any:
        more.setdefault("origin", "http://hub.example")
        return self.http.ws_connect(self.base + path, max_msg_size=0, **more)


@pytest.fixture
async def make_world(
    start_switch: Any, start_backend: Any, http: aiohttp.ClientSession
) -> Callable[..., Any]:
    async def make(**traits: Any) -> World:
        world = World(await start_switch(**traits), start_backend("L1"), http)
        await world.put("open")
        return world

    return make


@pytest.fixture
async def world(make_world: Any) -> World:
    return await make_world()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    return until
