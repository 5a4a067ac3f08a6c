"""A person at work, by HTTP and websockets: what a browser does, without its pixels.

Everything goes the long way round: hub proxy, Net Switch, the workspace's server,
its kernels.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from devcluster.core.calls import Call
from devcluster.core.records import (
    AnswerRequest,
    DeflateRequest,
    InflateRequest,
    MoveView,
    SwitchRequest,
    WorkspaceView,
)
from devcluster.hub_ext import client as manager

DEADLINE_S = 60.0


@dataclass
class CellResult:
    """What a cell gave: its reply's status, its printed text, and the value's text."""

    status: str
    text: str = ""
    value: str | None = None
    error: str = ""
    execution_count: int | None = None
    idle: bool = False


@dataclass
class Notebook:
    """One notebook with its kernel, its session, and one open websocket like a tab's."""

    person: Person
    path: str
    kernel_id: str
    session_id: str
    socket: aiohttp.ClientWebSocketResponse
    client_session: str = field(default_factory=lambda: uuid.uuid4().hex)
    _waiting: dict[str, asyncio.Future[CellResult]] = field(default_factory=dict)
    _partial: dict[str, CellResult] = field(default_factory=dict)
    _reader: asyncio.Task[None] | None = None

    def start_reading(self) -> None:
        """Begin to collect what the kernel says."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self.socket:
            if frame.type is not aiohttp.WSMsgType.TEXT:
                continue
            message = json.loads(frame.data)
            parent = message.get("parent_header", {}).get("msg_id")
            result = self._partial.get(parent)
            if result is None:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                result.text += content["text"]
            elif kind == "execute_result":
                result.value = content["data"]["text/plain"]
            elif kind == "error":
                result.error = f"{content['ename']}: {content['evalue']}"
            elif kind == "execute_reply":
                result.status = content["status"]
                result.execution_count = content.get("execution_count")
            elif kind == "status" and content["execution_state"] == "idle":
                result.idle = True
            # Reply and idle come on two channels, so in either order.
            if result.status == "aborted" or (result.status != "running" and result.idle):
                future = self._waiting.pop(parent, None)
                if future is not None and not future.done():
                    future.set_result(result)

    async def send(self, code: str, **extra: Any) -> asyncio.Future[CellResult]:
        """Send a cell; the returned future is its end."""
        msg_id = uuid.uuid4().hex
        future: asyncio.Future[CellResult] = asyncio.get_running_loop().create_future()
        self._waiting[msg_id] = future
        self._partial[msg_id] = CellResult("running")
        await self.socket.send_json(
            {
                "channel": "shell",
                "header": {
                    "msg_id": msg_id,
                    "msg_type": "execute_request",
                    "username": self.person.name,
                    "session": self.client_session,
                    "version": "5.3",
                    "date": "",
                },
                "parent_header": {},
                "metadata": {},
                "buffers": [],
                "content": {
                    "code": code,
                    "silent": False,
                    "store_history": True,
                    "user_expressions": {},
                    "allow_stdin": False,
                    "stop_on_error": True,
                }
                | extra,
            }
        )
        return future

    async def run(self, code: str, deadline_s: float = DEADLINE_S) -> CellResult:
        """Run a cell to its end."""
        future = await self.send(code)
        async with asyncio.timeout(deadline_s):
            return await future

    async def value(self, expression: str) -> Any:
        """Return the value of an expression, through its repr."""
        result = await self.run(f"print('\\x02' + __import__('json').dumps({expression}))")
        assert result.status == "ok", result
        return json.loads(result.text.split("\x02")[-1])

    async def close(self) -> None:
        """Close the tab."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self.socket.close()


class Person:
    """Someone with a JupyterHub account and a token of their own.

    Parameters
    ----------
    hub
        The public address of the hub's proxy, without a slash at the end.
    admin_token
        A hub token that may make tokens and start servers.
    """

    def __init__(self, name: str, hub: str, admin_token: str, server: str = "") -> None:
        self.name, self.hub, self.server = name, hub, server
        self._admin_token = admin_token
        self.token = ""
        self.http: aiohttp.ClientSession

    @property
    def workspace(self) -> str:
        """The id of the workspace that this person uses."""
        return f"{self.name}/{self.server or 'default'}"

    @property
    def base(self) -> str:
        """The workspace's one address, with a slash at the end."""
        return f"{self.hub}/user/{self.name}/" + (f"{self.server}/" if self.server else "")

    async def hub_api(self, method: str, path: str, /, token: str = "", **json_body: Any) -> Any:
        """Call the hub's REST interface."""
        async with self.http.request(
            method,
            f"{self.hub}/hub/api{path}",
            headers={"Authorization": f"token {token or self._admin_token}"},
            json=json_body or None,
        ) as answer:
            text = await answer.text()
            assert answer.status < 300 or answer.status in (409,), (answer.status, text)
            return json.loads(text) if text else None

    async def log_in(self) -> None:
        """Get a token with all that this person may do."""
        async with self.http.post(
            f"{self.hub}/hub/api/users/{self.name}",
            headers={"Authorization": f"token {self._admin_token}"},
        ) as answer:
            assert answer.status in (201, 409), await answer.text()
        made = await self.hub_api("POST", f"/users/{self.name}/tokens", note="test")
        self.token = made["token"]

    async def spawn(self, flavor: str = "cpu") -> None:
        """Start the server through the hub and wait until the hub calls it ready."""
        where = f"/users/{self.name}/" + (f"servers/{self.server}" if self.server else "server")
        await self.hub_api("POST", where, flavor=flavor)
        async with asyncio.timeout(DEADLINE_S):
            while not await self.hub_ready():
                await asyncio.sleep(0.1)

    async def hub_ready(self) -> bool:
        """Whether the hub calls the server ready."""
        user = await self.hub_api("GET", f"/users/{self.name}")
        return bool(user["servers"].get(self.server, {}).get("ready"))

    async def hub_stop(self) -> None:
        """Stop the server through the hub and wait until it is gone."""
        where = f"/users/{self.name}/" + (f"servers/{self.server}" if self.server else "server")
        async with asyncio.timeout(DEADLINE_S):
            while True:
                async with self.http.delete(
                    f"{self.hub}/hub/api{where}",
                    headers={"Authorization": f"token {self._admin_token}"},
                ) as answer:
                    # 400: already being stopped, or not running
                    assert answer.status in (202, 204, 400, 404), await answer.text()
                user = await self.hub_api("GET", f"/users/{self.name}")
                if self.server not in user["servers"]:
                    return
                await asyncio.sleep(0.1)

    async def api(self, method: str, path: str, /, **json_body: Any) -> Any:
        """Call the workspace's Jupyter server at its one address."""
        async with self.http.request(
            method,
            self.base + path,
            headers={"Authorization": f"token {self.token}"},
            json=json_body or None,
        ) as answer:
            text = await answer.text()
            assert answer.status < 300, (answer.status, text[:500])
            return json.loads(text) if text else None

    async def open_notebook(self, path: str) -> Notebook:
        """Open a notebook as the lab does: a session with a kernel, then its socket."""
        made = await self.api(
            "POST",
            "api/sessions",
            path=path,
            name=path,
            type="notebook",
            kernel={"name": "python3"},
        )
        return await self.attach(path, made["kernel"]["id"], made["id"])

    async def attach(self, path: str, kernel_id: str, session_id: str) -> Notebook:
        """Open a socket to a kernel that runs."""
        client_session = uuid.uuid4().hex
        socket = await self.http.ws_connect(
            f"{self.base}api/kernels/{kernel_id}/channels?session_id={client_session}",
            headers={"Authorization": f"token {self.token}"},
            max_msg_size=0,
        )
        notebook = Notebook(self, path, kernel_id, session_id, socket, client_session)
        notebook.start_reading()
        return notebook

    async def kernels(self) -> list[str]:
        """The ids of the kernels that the server lists, sorted."""
        return sorted(k["id"] for k in await self.api("GET", "api/kernels"))

    async def sessions(self) -> list[tuple[str, str, str]]:
        """(session id, path, kernel id) of the sessions that the server lists, sorted."""
        listed = await self.api("GET", "api/sessions")
        return sorted((s["id"], s["path"], s["kernel"]["id"]) for s in listed)

    # --- through the manager, with this person's own token --------------------------

    async def ask(self, call: Call[Any]) -> Any:
        """Send one call to the manager through the hub's proxy."""
        one = manager.AsyncManagerClient(f"{self.hub}/services/devcluster", self.token)
        try:
            return await one.send(call)
        finally:
            await one.close()

    async def view(self) -> WorkspaceView:
        """The workspace as the manager sees it."""
        return await self.ask(manager.workspace(self.workspace))

    async def until(self, accept: Any, what: str, deadline_s: float = DEADLINE_S) -> WorkspaceView:
        """Follow the workspace until ``accept(view)`` holds; survives restarts of parts."""
        view = None
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    try:
                        call = (
                            manager.workspace(self.workspace)
                            if view is None
                            else manager.workspace(self.workspace, 1.0, view.since)
                        )
                        view = await self.ask(call)
                        if accept(view):
                            return view
                    except Exception:  # the manager or the hub is on its way back
                        await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {what}; last seen: {view}") from None

    async def switch(self, flavor: str, on_busy: str = "wait", on_loss: str = "accept") -> MoveView:
        """Ask for another flavor."""
        request = SwitchRequest(flavor=flavor, on_busy=on_busy, on_loss=on_loss)  # type: ignore[arg-type]
        return await self.ask(manager.switch(self.workspace, request))

    async def moved(self, move: MoveView, deadline_s: float = DEADLINE_S) -> WorkspaceView:
        """Follow a move to its end, whatever that is."""
        return await self.until(
            lambda v: (
                v.move is not None
                and v.move.id == move.id
                and v.move.status in ("done", "failed", "cancelled")
                and v.state in ("running", "deflated", "stopped", "failed")
            ),
            f"the end of the {move.kind}",
            deadline_s,
        )

    async def switch_and_wait(self, flavor: str, **how: str) -> WorkspaceView:
        """Switch and follow it to its end."""
        return await self.moved(await self.switch(flavor, **how))

    async def deflate(self, on_busy: str = "wait", on_loss: str = "accept") -> MoveView:
        """Ask to free the hardware."""
        request = DeflateRequest(on_busy=on_busy, on_loss=on_loss)  # type: ignore[arg-type]
        return await self.ask(manager.deflate(self.workspace, request))

    async def inflate(self, flavor: str | None = None) -> MoveView:
        """Ask to come back."""
        return await self.ask(manager.inflate(self.workspace, InflateRequest(flavor=flavor)))

    async def answer(self, move: MoveView, choice: str) -> MoveView:
        """Answer the question of a move."""
        return await self.ask(
            manager.answer(self.workspace, AnswerRequest(move=move.id, choice=choice))
        )

    async def cancel(self) -> MoveView:
        """Cancel the move in progress."""
        return await self.ask(manager.cancel(self.workspace))


@asynccontextmanager
async def person(name: str, hub: str, admin_token: str, server: str = "") -> AsyncIterator[Person]:
    """Log somebody in."""
    one = Person(name, hub, admin_token, server)
    timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        one.http = http
        await one.log_in()
        yield one
