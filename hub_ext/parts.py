"""What the reconciler works with, wired once by the application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from devcluster.core import faults
from devcluster.core.errors import DevClusterError, Stale, StepFailed
from devcluster.core.lifecycle import Step
from devcluster.core.records import Launch, Route, RouteMode

from .admission import Admission
from .hosts import HostBook
from .ports import Agent, Agents, NetSwitch
from .store import Lease, Move, Store, Workspace

#: Seconds that each step may take before it counts as failed.
STEP_DEADLINES: dict[str, float] = {
    Step.prepare: 600.0,
    Step.check: 120.0,
    Step.park: 70.0,
    Step.capture: 1800.0,
    Step.send: 3600.0,
    Step.restore: 1800.0,
    Step.reroute: 70.0,
    Step.release: 5.0,
}


@dataclass
class Settings:
    """Deadlines, in seconds."""

    question_timeout_s: float = 600.0
    interrupt_timeout_s: float = 15.0
    step_deadlines: dict[str, float] = field(default_factory=lambda: dict(STEP_DEADLINES))


@dataclass
class Parts:
    """The store, the outside world, and the clock."""

    store: Store
    hosts: HostBook
    admission: Admission
    agents: Agents
    net_switch: NetSwitch
    clock: Callable[[], float]
    settings: Settings = field(default_factory=Settings)
    #: Passes a fault point.
    reach: Callable[[str], None] = faults.reach
    #: Set by whoever frees hardware or ends a move: others may begin now.
    admit_again: bool = False

    def agent(self, host: str) -> Agent:
        """Return the agent of a host."""
        return self.agents.at(self.hosts.url(host))

    def scene(self, workspace: str) -> Scene | None:
        """Return the move that is under way with all that belongs to it, or None."""
        with self.store.transaction() as tx:
            move = tx.active_move(workspace)
            if move is None:
                return None
            row = tx.workspace(workspace)
            return Scene(row, move, tx.lease(move.source), tx.lease(move.target))

    async def put_route(
        self, workspace: str, mode: RouteMode, lease: Lease | None = None, message: str = ""
    ) -> None:
        """Decide a workspace's route, write it down, and have it in effect.

        Asking for the same again sends the same revision, so a repeated step does not
        disturb anybody.
        """
        route = self.write_route(workspace, mode, lease, message)
        if route is not None:
            await self.apply_route(route)

    async def apply_route(self, route: Route) -> None:
        """Have a route in effect that is written down, and note that it is."""
        try:
            await self.net_switch.put(route)
        except Stale as error:
            # Our database is older than the Net Switch (restored from a backup, say).
            known = int(error.details.get("revision", route.revision))
            route = route.model_copy(update={"revision": known + 1})
            with self.store.transaction() as tx:
                row = tx.workspace(route.workspace)
                row.route, row.route_revision = route.model_dump(mode="json"), route.revision
            await self.net_switch.put(route)
        with self.store.transaction() as tx:
            row = tx.workspace(route.workspace)
            if row.route_revision == route.revision:
                row.route_applied = route.revision

    def write_route(
        self, workspace: str, mode: RouteMode, lease: Lease | None = None, message: str = ""
    ) -> Route | None:
        """Write a route down; None if the workspace never had an address."""
        with self.store.transaction() as tx:
            row = tx.workspace(workspace)
            if row.launch is None:
                return None
            wanted = Route(
                workspace=row.id,
                prefix=Launch.model_validate(row.launch).prefix,
                revision=row.route_revision,
                mode=mode,
                backend=lease.url if lease else None,
                lease=lease.id if lease else None,
                message=message,
            )
            if wanted.model_dump(mode="json") != row.route:
                row.route_revision += 1
                wanted = wanted.model_copy(update={"revision": row.route_revision})
                row.route = wanted.model_dump(mode="json")
            return wanted


@dataclass(frozen=True)
class Scene:
    """A move under way. The rows are to be read; changes go through a transaction."""

    row: Workspace
    move: Move
    source: Lease | None
    target: Lease | None

    @property
    def needed_source(self) -> Lease:
        """The lease it comes from."""
        return _needed(self.source, "source")

    @property
    def needed_target(self) -> Lease:
        """The lease it goes to."""
        return _needed(self.target, "target")


def _needed(lease: Lease | None, what: str) -> Lease:
    if lease is None:
        raise StepFailed(f"The {what} of this move is not there any more.")
    return lease


def sentence(error: BaseException) -> str:
    """Return an error for people; never a traceback, never a secret."""
    if isinstance(error, DevClusterError):
        return error.message
    return f"Something unexpected happened ({type(error).__name__}); the manager's log has more."
