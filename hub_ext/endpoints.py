"""The REST interface: one table that drives the handlers and the OpenAPI document alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

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
from pydantic import BaseModel

from .auth import Caller
from .service import Service


@dataclass(frozen=True)
class Request:
    """A request that was parsed and whose sender is known.

    Attributes
    ----------
    path
        The path's variables; ``workspace`` is the id made of user and name.
    """

    caller: Caller
    path: dict[str, str]
    query: dict[str, str]
    body: Any = None

    @property
    def workspace(self) -> str:
        """The workspace that the path names."""
        return self.path["workspace"]


Act = Callable[[Service, Request], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """One call of the interface.

    Attributes
    ----------
    who
        ``workspace``: whoever may use the workspace of the path. ``part``: agents and
        the Net Switch. ``hub``: the spawner. ``any``: every known caller. ``all``: no
        token needed.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    who: Literal["workspace", "part", "hub", "any", "all"]
    act: Act
    returns: Any
    body: type[BaseModel] | None = None
    query: tuple[str, ...] = ()


_W = "/api/workspaces/{user}/{name}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/api/flavors",
        "List the flavors and how many of each are free.",
        "any",
        lambda s, r: s.flavors(),
        list[FlavorView],
    ),
    Endpoint(
        "GET",
        "/api/hosts",
        "List the hosts. Others' workspaces are named only to admins.",
        "any",
        lambda s, r: s.hosts(r.caller.may_use),
        list[HostView],
    ),
    Endpoint(
        "GET",
        "/api/workspaces",
        "List the workspaces that the caller may see.",
        "any",
        lambda s, r: s.workspaces(r.caller.may_use),
        list[WorkspaceView],
    ),
    Endpoint(
        "GET",
        _W,
        "One workspace; with wait and after, as soon as it has changed.",
        "workspace",
        lambda s, r: s.workspace(r.workspace, r.query),
        WorkspaceView,
        query=("wait", "after"),
    ),
    Endpoint(
        "GET",
        f"{_W}/events",
        "The story of a workspace, oldest first.",
        "workspace",
        lambda s, r: s.events(r.workspace),
        list[EventView],
    ),
    Endpoint(
        "POST",
        f"{_W}/start",
        "Wish a workspace to run (the hub's spawner only).",
        "hub",
        lambda s, r: s.start(r.workspace, r.body, r.caller.name),
        WorkspaceView,
        StartRequest,
    ),
    Endpoint(
        "POST",
        f"{_W}/stop",
        "Wish a workspace to stop.",
        "workspace",
        lambda s, r: s.stop(r.workspace, r.caller.name),
        WorkspaceView,
    ),
    Endpoint(
        "POST",
        f"{_W}/switch",
        "Ask for other hardware; queued if none is free.",
        "workspace",
        lambda s, r: s.switch(r.workspace, r.body, r.caller.name),
        MoveView,
        SwitchRequest,
    ),
    Endpoint(
        "POST",
        f"{_W}/deflate",
        "Free the hardware and keep everything warm.",
        "workspace",
        lambda s, r: s.deflate(r.workspace, r.body, r.caller.name),
        MoveView,
        DeflateRequest,
    ),
    Endpoint(
        "POST",
        f"{_W}/inflate",
        "Bring a deflated workspace back.",
        "workspace",
        lambda s, r: s.inflate(r.workspace, r.body, r.caller.name),
        MoveView,
        InflateRequest,
    ),
    Endpoint(
        "POST",
        f"{_W}/plan",
        "What a switch would carry and lose; nothing moves.",
        "workspace",
        lambda s, r: s.plan(r.workspace, r.body),
        PlanAnswer,
        PlanRequest,
    ),
    Endpoint(
        "POST",
        f"{_W}/answer",
        "Answer the question that a move asks.",
        "workspace",
        lambda s, r: s.answer(r.workspace, r.body, r.caller.name),
        MoveView,
        AnswerRequest,
    ),
    Endpoint(
        "POST",
        f"{_W}/cancel",
        "Cancel the move that is not committed yet.",
        "workspace",
        lambda s, r: s.cancel(r.workspace, r.caller.name),
        MoveView,
    ),
    Endpoint(
        "POST",
        "/api/agents/{host}/heartbeat",
        "A host's account (agents only).",
        "part",
        lambda s, r: s.heartbeat(r.path["host"], r.body),
        HeartbeatReply,
        HostReport,
    ),
    Endpoint(
        "GET",
        "/api/routes",
        "The whole routing table (the Net Switch only).",
        "part",
        lambda s, r: s.routes(),
        list[Route],
    ),
    Endpoint(
        "GET",
        "/api/health",
        "Whether the manager and its database answer.",
        "all",
        lambda s, r: s.health(),
        dict[str, str],
    ),
)
