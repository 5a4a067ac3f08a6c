"""Agents and a Net Switch in memory, for tests of whatever moves workspaces.

They keep what the real ones promise: idempotence by lease, capture and revision,
epochs that only rise, a home that is one folder on each host.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from devcluster.core.errors import Busy, DevClusterError, NotFound, Stale, Unavailable
from devcluster.core.records import (
    CaptureReport,
    Fetch,
    FetchReport,
    HostReport,
    KernelHint,
    KernelPlan,
    LeasePhase,
    LeaseReport,
    LeaseRequest,
    Plan,
    RestoreReport,
    Route,
    RouteMode,
)
from devcluster.core.resources import Gpu


@dataclass
class FakeLease:
    """The processes of a lease: their kernels' variables, and whether they go on."""

    workspace: str
    epoch: int
    gpus: list[str]
    phase: LeasePhase = LeasePhase.running
    memory: dict[str, Any] = field(default_factory=dict)
    warm: list[str] = field(default_factory=list)
    reason: str = ""


class FakeHost:
    """A host with its agent.

    Attributes
    ----------
    faults
        What the next call of a name raises: ``(before the act?, error)``.
    hangs
        Calls that never come back, though the agent answers others.
    down
        The agent does not answer; its processes go on.
    """

    def __init__(self, name: str, gpus: list[Gpu], cpus: float = 8, memory: int = 2**35) -> None:
        self.name, self.gpus, self.cpus, self.memory = name, gpus, cpus, memory
        self.leases: dict[str, FakeLease] = {}
        self.homes: dict[str, dict[str, Any]] = {}
        self.captures: dict[tuple[str, str], dict[str, Any]] = {}
        self.faults: dict[str, list[tuple[bool, BaseException]]] = {}
        self.hangs: set[str] = set()
        self.calls: list[str] = []
        self.down = False
        self.trouble = ""
        self.boot, self.sequence = f"{name}-boot-1", 0

    def report(self) -> HostReport:
        """Return the host's account."""
        self.sequence += 1
        return HostReport(
            host=self.name,
            url=f"fake://{self.name}",
            boot=self.boot,
            sequence=self.sequence,
            cpus=self.cpus,
            memory=self.memory,
            gpus=self.gpus,
            leases=[self.lease_report(x) for x in self.leases],
            trouble=self.trouble,
        )

    def lease_report(self, lease_id: str) -> LeaseReport:
        """Return the account of one lease."""
        if lease_id not in self.leases:
            raise NotFound(f"{self.name} has no lease {lease_id}.")
        lease = self.leases[lease_id]
        return LeaseReport(
            lease=lease_id,
            workspace=lease.workspace,
            epoch=lease.epoch,
            phase=lease.phase,
            gpus=lease.gpus,
            url=f"http://{self.name}:1",
            reason=lease.reason,
        )


class FakeWorld:
    """All hosts, and what kernels are doing."""

    def __init__(self, hosts: list[FakeHost]) -> None:
        self.hosts = {h.name: h for h in hosts}
        #: Titles of the busy kernels, by workspace.
        self.busy: dict[str, list[str]] = {}
        self.idle = asyncio.Event()
        #: How many calls wait for kernels to be idle.
        self.waiting = 0
        #: Whether an interrupt ends a cell.
        self.interruptible = True
        #: Sentences about what would be lost, by workspace.
        self.losses: dict[str, list[str]] = {}

    def at(self, url: str) -> FakeAgent:
        """Return the agent at an address."""
        return FakeAgent(self, self.hosts[url.removeprefix("fake://")])

    def set_idle(self, workspace: str) -> None:
        """Let the running cells of a workspace end."""
        self.busy.pop(workspace, None)
        self.idle.set()
        self.idle = asyncio.Event()

    def alive(self, workspace: str) -> dict[str, FakeLease]:
        """Return the processes of a workspace that could write something now."""
        return {
            key: lease
            for host in self.hosts.values()
            for key, lease in host.leases.items()
            if lease.workspace == workspace and lease.phase is LeasePhase.running
        }

    def captures(self) -> list[tuple[str, str, str]]:
        """Return all captures that lie anywhere: host, workspace, id."""
        return [(h.name, w, c) for h in self.hosts.values() for w, c in h.captures]


class FakeAgent:
    """The agent's calls on a :class:`FakeHost`."""

    def __init__(self, world: FakeWorld, host: FakeHost) -> None:
        self._world, self._host = world, host

    async def _reach(self, name: str, before: bool) -> None:
        if before:
            await asyncio.sleep(0)
            self._host.calls.append(name)
        if self._host.down:
            raise Unavailable(f"The agent on {self._host.name} does not answer.")
        if before and name in self._host.hangs:
            await asyncio.Event().wait()
        planted = self._host.faults.get(name, [])
        if planted and planted[0][0] is before:
            raise planted.pop(0)[1]

    def _get(self, lease: str) -> FakeLease:
        if lease not in self._host.leases:
            raise NotFound(f"{self._host.name} has no lease {lease}.")
        return self._host.leases[lease]

    async def ensure(self, request: LeaseRequest) -> LeaseReport:
        """Have the server of a lease running."""
        await self._reach("ensure", True)
        known = [x for x in self._host.leases.values() if x.workspace == request.workspace]
        if any(x.epoch > request.epoch for x in known):
            raise Stale(f"Epoch {request.epoch} of {request.workspace} is over.")
        self._host.homes.setdefault(request.workspace, {})
        lease = self._host.leases.setdefault(
            request.lease, FakeLease(request.workspace, request.epoch, request.gpus)
        )
        lease.warm = [h.kernel_id for h in request.warm]
        await self._reach("ensure", False)
        return self._host.lease_report(request.lease)

    async def lease(self, lease: str) -> LeaseReport:
        """Tell how a lease is."""
        await self._reach("lease", True)
        return self._host.lease_report(lease)

    async def warm(self, lease: str, hints: list[KernelHint]) -> None:
        """Start kernels empty."""
        await self._reach("warm", True)
        self._get(lease).warm += [h.kernel_id for h in hints]
        await self._reach("warm", False)

    async def plan(self, lease: str) -> Plan:
        """Tell what a move would carry and lose."""
        await self._reach("plan", True)
        found = self._get(lease)
        if found.phase is LeasePhase.exited:
            raise NotFound("The server has ended.")
        busy = self._world.busy.get(found.workspace, [])
        kernels = [KernelPlan(kernel_id="k1", kernel_name="python3", title="a.ipynb")]
        kernels += [
            KernelPlan(kernel_id=t, kernel_name="python3", title=t, busy=True) for t in busy
        ]
        kernels += [
            KernelPlan(kernel_id="r", kernel_name="ir", title="r", portable=False, reason=text)
            for text in ([] if busy else self._world.losses.get(found.workspace, []))
        ]
        await self._reach("plan", False)
        return Plan(kernels=kernels)

    async def wait_idle(self, lease: str, wait_s: float) -> bool:
        """Wait for all kernels to be idle."""
        await self._reach("wait_idle", True)
        workspace = self._get(lease).workspace
        if wait_s < 20:
            return workspace not in self._world.busy
        self._world.waiting += 1
        try:
            while workspace in self._world.busy:
                await self._world.idle.wait()
        finally:
            self._world.waiting -= 1
        return True

    async def interrupt(self, lease: str) -> None:
        """Interrupt the cells that run."""
        await self._reach("interrupt", True)
        if self._world.interruptible:
            self._world.busy.pop(self._get(lease).workspace, None)

    async def capture(self, lease: str, capture: str) -> CaptureReport:
        """Save all kernels and freeze the processes."""
        await self._reach("capture", True)
        found = self._get(lease)
        if self._world.busy.get(found.workspace):
            raise Busy("A cell is running.")
        if found.phase is LeasePhase.exited:
            raise NotFound("The server has ended.")
        self._host.captures[(found.workspace, capture)] = dict(found.memory)
        found.phase = LeasePhase.frozen
        await self._reach("capture", False)
        kernel = KernelPlan(kernel_id="k1", kernel_name="python3", title="a.ipynb")
        return CaptureReport(capture=capture, kernels=[kernel])

    async def thaw(self, lease: str) -> None:
        """Let frozen processes go on."""
        await self._reach("thaw", True)
        found = self._get(lease)
        if found.phase is LeasePhase.exited:
            raise DevClusterError("There is nothing to thaw.")
        found.phase = LeasePhase.running
        await self._reach("thaw", False)

    async def fetch(self, lease: str, request: Fetch) -> FetchReport:
        """Pull home and capture from another host."""
        await self._reach("fetch", True)
        source = self._world.hosts[request.source.removeprefix("fake://")]
        if source.down:
            raise Unavailable(f"The agent on {source.name} does not answer.")
        if request.home:
            self._host.homes[request.workspace] = dict(source.homes.get(request.workspace, {}))
        if request.capture is not None:
            key = (request.workspace, request.capture)
            if key not in source.captures:
                raise NotFound(f"{source.name} has no capture {request.capture}.")
            self._host.captures[key] = dict(source.captures[key])
        await self._reach("fetch", False)
        return FetchReport()

    async def restore(self, lease: str, capture: str) -> RestoreReport:
        """Load a capture."""
        await self._reach("restore", True)
        found = self._get(lease)
        key = (found.workspace, capture)
        if key not in self._host.captures:
            raise NotFound(f"{self._host.name} has no capture {capture}.")
        found.memory = dict(self._host.captures[key])
        await self._reach("restore", False)
        return RestoreReport()

    async def remove(self, lease: str) -> None:
        """End all processes of a lease."""
        await self._reach("remove", True)
        self._host.leases.pop(lease, None)
        await self._reach("remove", False)

    async def drop_capture(self, workspace: str, capture: str) -> None:
        """Delete a capture."""
        await self._reach("drop_capture", True)
        self._host.captures.pop((workspace, capture), None)
        await self._reach("drop_capture", False)


class FakeNetSwitch:
    """Routes in memory, under the rules of revisions."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.history: list[Route] = []
        self.faults: dict[RouteMode, list[tuple[bool, BaseException]]] = {}
        self.down = False

    async def put(self, route: Route) -> None:
        """Have a route in effect."""
        await asyncio.sleep(0)
        if self.down:
            raise Unavailable("The Net Switch does not answer.")
        planted = self.faults.get(route.mode, [])
        if planted and planted[0][0]:
            raise planted.pop(0)[1]
        known = self.routes.get(route.workspace)
        if known is not None and (
            route.revision < known.revision or (route.revision == known.revision and route != known)
        ):
            raise Stale("A higher revision is in effect.", revision=known.revision)
        if route != known:
            self.history.append(route)
        self.routes[route.workspace] = route
        if planted and not planted[0][0]:
            raise planted.pop(0)[1]
