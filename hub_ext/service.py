"""What the interface does, without HTTP: wishes in, views out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from devcluster.core.errors import BadRequest, Conflict, NotFound
from devcluster.core.lifecycle import State
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
from devcluster.core.resources import Flavor, find_flavor
from devcluster.core.scheduler import Ask, plan

from . import views
from .changes import Changes
from .heartbeats import Heartbeats
from .parts import Parts
from .wishes import Wishes

#: The longest wait that a client may ask for, in seconds.
LONGEST_WAIT_S = 60.0


@dataclass
class Service:
    """The manager's calls."""

    parts: Parts
    flavor_list: Sequence[Flavor]
    wishes: Wishes
    heartbeats: Heartbeats
    changes: Changes

    async def flavors(self) -> list[FlavorView]:
        """List the flavors."""
        with self.parts.store.transaction() as tx:
            return views.flavor_views(tx, self.flavor_list, self.parts.admission)

    async def hosts(self, may_see: Callable[[str], bool]) -> list[HostView]:
        """List the hosts."""
        with self.parts.store.transaction() as tx:
            return views.host_views(tx, self.parts.hosts, may_see)

    async def workspaces(self, may_see: Callable[[str], bool]) -> list[WorkspaceView]:
        """List the workspaces that may be seen."""
        with self.parts.store.transaction() as tx:
            places = self.parts.admission.queue(tx).places
            return [
                views.workspace_view(tx, row, places) for row in tx.workspaces() if may_see(row.id)
            ]

    async def workspace(self, workspace: str, query: Mapping[str, str]) -> WorkspaceView:
        """Return one workspace, now or when it has changed."""
        wait_s = min(_number(query, "wait"), LONGEST_WAIT_S)
        after = _number(query, "after")
        end = self.parts.clock() + wait_s
        while True:
            view = self._view(workspace)
            left = end - self.parts.clock()
            # Nothing happens between looking and waiting: there is one event loop.
            if view.since > after or left <= 0 or not wait_s:
                return view
            if not await self.changes.wait(workspace, left):
                return self._view(workspace)

    async def events(self, workspace: str) -> list[EventView]:
        """Return the story of a workspace."""
        with self.parts.store.transaction() as tx:
            tx.workspace(workspace)
            return [views.event_view(e) for e in tx.events(workspace)]

    async def start(self, workspace: str, request: StartRequest, by: str) -> WorkspaceView:
        """Wish a workspace to run."""
        self.wishes.start(workspace, request, by)
        return self._view(workspace)

    async def stop(self, workspace: str, by: str) -> WorkspaceView:
        """Wish a workspace to stop."""
        self.wishes.stop(workspace, by)
        return self._view(workspace)

    async def switch(self, workspace: str, request: SwitchRequest, by: str) -> MoveView:
        """Ask for other hardware."""
        return self._move(self.wishes.switch(workspace, request, by))

    async def deflate(self, workspace: str, request: DeflateRequest, by: str) -> MoveView:
        """Ask to free the hardware."""
        return self._move(self.wishes.deflate(workspace, request, by))

    async def inflate(self, workspace: str, request: InflateRequest, by: str) -> MoveView:
        """Ask to come back."""
        return self._move(self.wishes.inflate(workspace, request, by))

    async def answer(self, workspace: str, request: AnswerRequest, by: str) -> MoveView:
        """Answer a question."""
        return self._move(self.wishes.answer(workspace, request, by))

    async def cancel(self, workspace: str, by: str) -> MoveView:
        """Cancel a move."""
        return self._move(self.wishes.cancel(workspace, by))

    async def plan(self, workspace: str, request: PlanRequest) -> PlanAnswer:
        """Tell what a switch would carry, and whether it could be now."""
        flavor = find_flavor(self.flavor_list, request.flavor)
        with self.parts.store.transaction() as tx:
            row = tx.workspace(workspace)
            lease = tx.lease(row.lease_id)
            if row.state != State.running or lease is None:
                raise Conflict(f"{row.id} is {row.state}; a plan is made of a running workspace.")
            asks = [a for a in self.parts.admission.queue(tx).asks if a.workspace != row.id]
            decided = plan(
                self.parts.admission.snapshot(tx), [*asks, Ask(row.id, flavor, lease.host)]
            )
        free = any(p.workspace == row.id for p in decided.placements)
        carried = await self.parts.agent(lease.host).plan(lease.id)
        return PlanAnswer(flavor=flavor, free=free, plan=carried)

    async def heartbeat(self, host: str, report: HostReport) -> HeartbeatReply:
        """Take in a host's account."""
        if report.host != host:
            raise BadRequest(f"host: the report is of {report.host!r}, the path says {host!r}.")
        return self.heartbeats.receive(report)

    async def routes(self) -> list[Route]:
        """Return the routing table."""
        with self.parts.store.transaction() as tx:
            return views.routes(tx)

    async def health(self) -> dict[str, str]:
        """Tell that the database answers."""
        with self.parts.store.transaction() as tx:
            tx.hosts()
        return {"status": "ok"}

    def _view(self, workspace: str) -> WorkspaceView:
        with self.parts.store.transaction() as tx:
            row = tx.workspace(workspace)
            return views.workspace_view(tx, row, self.parts.admission.queue(tx).places)

    def _move(self, move_id: str) -> MoveView:
        with self.parts.store.transaction() as tx:
            move = tx.move(move_id)
            if move is None:
                raise NotFound(f"There is no move {move_id!r}.")
            return views.move_view(move, self.parts.admission.queue(tx).places.get(move_id))


def _number(query: Mapping[str, str], name: str) -> float:
    text = query.get(name, "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BadRequest(f"{name}: {text!r} is not a number of seconds from 0 up.")
    return value
