"""Two real Jupyter servers, as an agent would start them, and a browser's side of a notebook."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import httpx
import pytest
from devcluster.core.errors import from_json
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

V1 = "v1.kernel.websocket.jupyter.org"
SECRET = "the-lease's-own-secret"
TOKEN = "token-of-the-server"
HUB_TOKEN = "hub-token-that-no-capture-may-hold"

#: A kernel of another language: it echoes, and has no state that we could move.
ECHO = """
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

class Echo(Kernel):
    implementation, implementation_version, banner = "echo", "1", ""
    language_info = {"name": "echo", "mimetype": "text/plain", "file_extension": ".txt"}

    async def do_execute(self, code, silent, *args, **kwargs):
        return {"status": "ok", "execution_count": self.execution_count,
                "payload": [], "user_expressions": {}}

IPKernelApp.launch_instance(kernel_class=Echo)
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """A Jupyter server in a process of its own."""

    def __init__(self, folder: Path, host: str, command: list[str] | None = None, **env: str):
        self.folder, self.host = folder, host
        self.home = folder / "home"
        self.faults = folder / "faults"
        self.base = "/user/alice/"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        for each in (self.home, self.faults, folder / "kernels" / "echo"):
            each.mkdir(parents=True)
        (folder / "kernels" / "echo" / "kernel.json").write_text(
            json.dumps(
                {
                    "argv": [sys.executable, "-c", ECHO, "-f", "{connection_file}"],
                    "display_name": "Echo",
                    "language": "echo",
                }
            )
        )
        self.log = folder / "server.log"
        arguments = [
            *(command or [sys.executable, "-m", "jupyter_server"]),
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={self.home}",
            f"--ServerApp.base_url={self.base}",
            f"--IdentityProvider.token={TOKEN}",
            # JupyterLab takes seconds to load, and plays no part here.
            "--ServerApp.jpserver_extensions={'jupyterlab': False, 'jupyter_lsp': False, "
            "'notebook_shim': False}",
        ]
        environ = {
            **os.environ,
            "HOME": str(self.home),
            "JUPYTER_PATH": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTERHUB_API_TOKEN": HUB_TOKEN,
            "JUPYTERHUB_SERVICE_URL": f"{self.url}{self.base}",
            "DEVCLUSTER_LEASE": f"lease-{host}",
            "DEVCLUSTER_HOST": host,
            "DEVCLUSTER_WORKSPACE": "alice/default",
            "DEVCLUSTER_FLAVOR": "cpu",
            "DEVCLUSTER_CONTROL": SECRET,
            "DEVCLUSTER_FAULTS": str(self.faults),
            **env,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                arguments, env=environ, stdout=log, stderr=subprocess.STDOUT, cwd=self.home
            )

    def wait_up(self) -> Server:
        end = time.monotonic() + 150
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if httpx.get(f"{self.url}{self.base}api", timeout=5).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def fault(self, point: str, action: str) -> None:
        (self.faults / point).write_text(action)

    def raw(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        return httpx.request(method, f"{self.url}{self.base}{path}", timeout=60, **kwargs)

    def api(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.raw(
            method, f"api/{path}", json=body, headers={"Authorization": f"token {TOKEN}"}
        )
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def control(self, method: str, action: str, body: Any = None) -> Any:
        """Ask as the agent does; raises the error that came back."""
        async with httpx.AsyncClient() as client:
            answer = await client.request(
                method,
                f"{self.url}{self.base}devcluster/control/{action}",
                content=None if body is None else json.dumps(body),
                headers={"X-DevCluster-Control": SECRET},
                timeout=60,
            )
        if answer.is_success:
            return answer.json()
        raise from_json(answer.status_code, answer.json())

    def new_notebook(self, name: str = "a.ipynb", kernel: str = "python3") -> dict[str, Any]:
        """Open a notebook as the lab does; returns the session's model."""
        path = name
        model: dict[str, Any] = self.api(
            "POST",
            "sessions",
            {
                "path": path,
                "name": name.rpartition("/")[2],
                "type": "notebook",
                "kernel": {"name": kernel},
            },
        )
        return model

    def clear(self) -> None:
        for kernel in self.api("GET", "kernels"):
            self.api("DELETE", f"kernels/{kernel['id']}")
        for file in self.faults.iterdir():
            file.unlink()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Tab:
    """One browser tab's websocket to a kernel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self.socket, self.session = socket, session
        self.messages: list[dict[str, Any]] = []

    async def send(
        self, kind: str, content: dict[str, Any], channel: str = "shell", **header: Any
    ) -> str:
        msg_id = uuid4().hex
        header = {
            "msg_id": msg_id,
            "msg_type": kind,
            "session": self.session,
            "username": "",
            "date": "2026-12-01T00:00:00Z",
            "version": "5.4",
            **header,
        }
        if self.socket.protocol == V1:
            parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
            await self.socket.send_bytes(serialize_msg_to_ws_v1(parts, channel))
        else:
            await self.socket.send_json(
                {
                    "header": header,
                    "parent_header": {},
                    "metadata": {},
                    "content": content,
                    "channel": channel,
                }
            )
        return msg_id

    async def execute(self, code: str, **content: Any) -> str:
        """Send a cell, and do not wait for it."""
        return await self.send("execute_request", {"code": code, "silent": False, **content})

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first message that is wanted, heard already or yet to come."""
        for message in self.messages:
            if wanted(message):
                return message
        async with asyncio.timeout(30):
            while True:
                message = await self._receive()
                self.messages.append(message)
                if wanted(message):
                    return message

    async def arrived(self) -> None:
        """Wait until the server has read all that was sent, as the Net Switch does to park."""
        await self.socket.ping()
        while (frame := await self.socket.receive()).type != aiohttp.WSMsgType.PONG:
            self.messages.append(self._message(frame))

    async def _receive(self) -> dict[str, Any]:
        while (frame := await self.socket.receive()).type == aiohttp.WSMsgType.PING:
            await self.socket.pong(frame.data)
        return self._message(frame)

    def _message(self, frame: aiohttp.WSMessage) -> dict[str, Any]:
        assert frame.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY), frame
        if self.socket.protocol != V1:
            message: dict[str, Any] = json.loads(frame.data)
            return message
        channel, parts = deserialize_msg_from_ws_v1(frame.data)
        names = ("header", "parent_header", "metadata", "content")
        message = {name: json.loads(part) for name, part in zip(names, parts, strict=False)}
        return {**message, "channel": channel, "msg_type": message["header"]["msg_type"]}

    async def reply(self, msg_id: str) -> dict[str, Any]:
        """Return the content of the reply to a request."""
        message = await self.until(
            lambda m: (
                m["parent_header"].get("msg_id") == msg_id and m["msg_type"].endswith("_reply")
            )
        )
        content: dict[str, Any] = message["content"]
        return content

    async def output(self, msg_id: str, text: str) -> None:
        """Wait until a cell has printed ``text``."""
        await self.until(
            lambda m: (
                m["parent_header"].get("msg_id") == msg_id
                and m["msg_type"] == "stream"
                and text in m["content"]["text"]
            )
        )

    async def run(self, code: str) -> dict[str, Any]:
        """Run a cell to its end."""
        reply = await self.reply(await self.execute(code))
        assert reply["status"] == "ok", reply
        return reply

    async def value(self, expression: str) -> str:
        """Return the repr of an expression, evaluated as the person could not see it."""
        msg_id = await self.execute("", silent=True, user_expressions={"it": expression})
        answer = (await self.reply(msg_id))["user_expressions"]["it"]
        assert answer["status"] == "ok", answer
        text: str = answer["data"]["text/plain"]
        return text


Open = Callable[..., Any]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    running = []
    try:
        for host in ("one", "two"):
            running.append(Server(tmp_path_factory.mktemp(host), host))
        for server in running:
            server.wait_up()
        yield running[0], running[1]
    finally:
        for server in running:
            server.stop()


@pytest.fixture
def source(servers: tuple[Server, Server]) -> Iterator[Server]:
    yield servers[0]
    httpx.post(
        f"{servers[0].url}/user/alice/devcluster/control/resume",
        headers={"X-DevCluster-Control": SECRET},
    )
    servers[0].clear()


@pytest.fixture
def target(servers: tuple[Server, Server]) -> Iterator[Server]:
    yield servers[1]
    servers[1].clear()


@pytest.fixture
async def tab() -> AsyncIterator[Open]:
    """Open websockets: ``await tab(server, kernel_id)``."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession())

        async def open_tab(
            server: Server, kernel_id: str, session: str = "", protocols: tuple[str, ...] = (V1,)
        ) -> Tab:
            session = session or uuid4().hex
            path = f"{server.base}api/kernels/{kernel_id}/channels?session_id={session}"
            socket = await client.ws_connect(
                server.url + path,
                protocols=protocols,
                headers={"Authorization": f"token {TOKEN}"},
                max_msg_size=0,
                autoping=False,
            )
            stack.push_async_callback(socket.close)
            opened = Tab(socket, session)
            await opened.reply(await opened.send("kernel_info_request", {}))
            return opened

        yield open_tab


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """A capture's folder and id, as the agent names them."""
    return {"path": str(tmp_path / "capture"), "capture": f"move-{uuid4().hex}"}
