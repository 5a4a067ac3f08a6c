"""How the other parts talk to the manager.

Each function is one request of its REST interface, as a value; a client sends it::

    with ManagerClient(url, token) as manager:
        for workspace in manager.send(workspaces()):
            print(workspace.id, workspace.state)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import httpx
from devcluster.core.calls import Call, call, part
from devcluster.core.errors import BadRequest, Unavailable
from devcluster.core.names import split_id
from devcluster.core.records import (
    AnswerRequest,
    DeflateRequest,
    EventView,
    FlavorView,
    HeartbeatReply,
    HostReport,
    HostView,
    InflateRequest,
    MoveView,
    PlanAnswer,
    PlanRequest,
    Route,
    StartRequest,
    SwitchRequest,
    WorkspaceView,
)
from devcluster.core.trust import trust

T = TypeVar("T")


def _at(workspace: str, rest: str = "") -> str:
    user, server = split_id(workspace)
    return f"/api/workspaces/{part(user)}/{part(server or 'default')}{rest}"


def flavors() -> Call[list[FlavorView]]:
    """List the flavors, in the admin's order, with how many of each are free."""
    return call("GET", "/api/flavors", list[FlavorView])


def hosts() -> Call[list[HostView]]:
    """List the hosts. Workspaces of others are named only to admins."""
    return call("GET", "/api/hosts", list[HostView])


def workspaces() -> Call[list[WorkspaceView]]:
    """List the workspaces that the caller may see."""
    return call("GET", "/api/workspaces", list[WorkspaceView])


def workspace(workspace_id: str, wait_s: float = 0.0, after: float = 0.0) -> Call[WorkspaceView]:
    """Ask for one workspace.

    Parameters
    ----------
    wait_s
        With it, the answer comes as soon as the workspace or its move has changed
        since ``after`` (the ``since`` of the last answer), at the latest after
        this many seconds.
    """
    query = f"?wait={wait_s:g}&after={after!r}" if wait_s else ""
    return call("GET", _at(workspace_id, query), WorkspaceView, None, wait_s + 10)


def events(workspace_id: str) -> Call[list[EventView]]:
    """Ask for the story of a workspace, oldest first."""
    return call("GET", _at(workspace_id, "/events"), list[EventView])


def start(workspace_id: str, request: StartRequest) -> Call[WorkspaceView]:
    """Wish a workspace to run (the hub's spawner only). A deflated one is inflated."""
    return call("POST", _at(workspace_id, "/start"), WorkspaceView, request)


def stop(workspace_id: str) -> Call[WorkspaceView]:
    """Wish a workspace to stop: its kernels end, its home stays."""
    return call("POST", _at(workspace_id, "/stop"), WorkspaceView)


def switch(workspace_id: str, request: SwitchRequest) -> Call[MoveView]:
    """Ask for other hardware; queued if none is free."""
    return call("POST", _at(workspace_id, "/switch"), MoveView, request)


def deflate(workspace_id: str, request: DeflateRequest) -> Call[MoveView]:
    """Ask to free the hardware and keep everything warm."""
    return call("POST", _at(workspace_id, "/deflate"), MoveView, request)


def inflate(workspace_id: str, request: InflateRequest) -> Call[MoveView]:
    """Ask to bring a deflated workspace back."""
    return call("POST", _at(workspace_id, "/inflate"), MoveView, request)


def plan(workspace_id: str, request: PlanRequest) -> Call[PlanAnswer]:
    """Ask what a switch would carry and lose; nothing moves."""
    return call("POST", _at(workspace_id, "/plan"), PlanAnswer, request, 90.0)


def answer(workspace_id: str, request: AnswerRequest) -> Call[MoveView]:
    """Answer the question that a move asks."""
    return call("POST", _at(workspace_id, "/answer"), MoveView, request)


def cancel(workspace_id: str) -> Call[MoveView]:
    """Cancel the queued, asking or not yet committed move."""
    return call("POST", _at(workspace_id, "/cancel"), MoveView)


def heartbeat(report: HostReport) -> Call[HeartbeatReply]:
    """Send a host's account (agents only); the first one registers the host."""
    return call("POST", f"/api/agents/{part(report.host)}/heartbeat", HeartbeatReply, report)


def routes() -> Call[list[Route]]:
    """Ask for the whole routing table (the Net Switch only)."""
    return call("GET", "/api/routes", list[Route])


@dataclass(frozen=True)
class Access:
    """Where the manager is and what token opens it."""

    url: str
    token: str

    @classmethod
    def from_env(cls) -> Access:
        """Read ``DEVCLUSTER_URL`` and ``DEVCLUSTER_TOKEN``; workspaces have both set.

        ``JUPYTERHUB_API_TOKEN`` serves where there is no token of our own.
        """
        url = os.environ.get("DEVCLUSTER_URL", "")
        token = os.environ.get("DEVCLUSTER_TOKEN") or os.environ.get("JUPYTERHUB_API_TOKEN", "")
        if not url or not token:
            raise BadRequest(
                "Where is the Dev Cluster? Set DEVCLUSTER_URL to the manager's address and "
                "DEVCLUSTER_TOKEN to a JupyterHub token (made at /hub/token)."
            )
        return cls(url, token)


def _unavailable(url: str, call: Call[T], error: httpx.HTTPError) -> Unavailable:
    why = str(error) or type(error).__name__
    return Unavailable(f"The Dev Cluster manager at {url} does not answer {call.path}: {why}")


def _headers(token: str) -> dict[str, str]:
    # The hub's own scheme, so that hub tokens work as they are.
    return {"Authorization": f"token {token}", "Content-Type": "application/json"}


class ManagerClient:
    """Sends calls and blocks: for the CLI and for magics."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self._url = url.rstrip("/")
        self._http = httpx.Client(
            headers=_headers(token), transport=transport, verify=trust(httpx.URL(url).scheme)
        )

    def send(self, call: Call[T]) -> T:
        """Send one call and return its value, or raise the error that came back."""
        try:
            got = self._http.request(
                call.method, self._url + call.path, content=call.body, timeout=call.timeout_s
            )
        except httpx.HTTPError as error:
            raise _unavailable(self._url, call, error) from error
        return call.answer(got.status_code, got.content)

    def __enter__(self) -> ManagerClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()


class AsyncManagerClient:
    """Sends calls without blocking: for the spawner, agents and the server extension."""

    def __init__(
        self, url: str, token: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._http = httpx.AsyncClient(
            headers=_headers(token), transport=transport, verify=trust(httpx.URL(url).scheme)
        )

    async def send(self, call: Call[T]) -> T:
        """Send one call and return its value, or raise the error that came back."""
        try:
            got = await self._http.request(
                call.method, self._url + call.path, content=call.body, timeout=call.timeout_s
            )
        except httpx.HTTPError as error:
            raise _unavailable(self._url, call, error) from error
        return call.answer(got.status_code, got.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
