"""The reconciler on a fake clock, with agents and a Net Switch in memory, and crashes."""

from __future__ import annotations

import asyncio
import atexit
import heapq
import itertools
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from devcluster.core.lifecycle import State
from devcluster.core.records import (
    DeflateRequest,
    InflateRequest,
    Launch,
    LeasePhase,
    MoveView,
    StartRequest,
    SwitchRequest,
    WorkspaceView,
)
from devcluster.core.resources import Flavor, Gpu
from devcluster.hub_ext.admission import Admission
from devcluster.hub_ext.changes import Changes
from devcluster.hub_ext.fakes import FakeHost, FakeNetSwitch, FakeWorld
from devcluster.hub_ext.heartbeats import Heartbeats
from devcluster.hub_ext.hosts import HostBook
from devcluster.hub_ext.parts import Parts
from devcluster.hub_ext.reconciler import Reconciler
from devcluster.hub_ext.store import Store
from devcluster.hub_ext.store.consistency import check_consistency
from devcluster.hub_ext.views import workspace_view
from devcluster.hub_ext.wishes import Wishes

GIB = 2**30
FLAVORS = [
    Flavor(name="cpu", title="CPU", cpus=1, memory=2 * GIB),
    Flavor(name="1xA100", title="1 × A100", gpu_model="A100", gpus=1, cpus=2, memory=4 * GIB),
    Flavor(name="2xA100", title="2 × A100", gpu_model="A100", gpus=2, cpus=4, memory=8 * GIB),
    Flavor(name="1xV100", title="1 × V100", gpu_model="V100", gpus=1, cpus=2, memory=4 * GIB),
    Flavor(name="8xA100", title="8 × A100", gpu_model="A100", gpus=8, cpus=4, memory=8 * GIB),
]


class Crash(BaseException):
    """The manager's end, without any farewell."""


class Clock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self._timers: list[tuple[float, int, Callable[[], Any]]] = []
        self._cancelled: set[int] = set()
        self._count = itertools.count()

    def __call__(self) -> float:
        return self.now

    def later(self, delay: float, call: Callable[[], Any]) -> _Timer:
        number = next(self._count)
        heapq.heappush(self._timers, (self.now + delay, number, call))
        return _Timer(lambda: self._cancelled.add(number))

    def forget(self) -> None:
        self._timers.clear()

    def fire(self, until: float) -> bool:
        """Go to the next timer up to a time, and call it; False if there is none."""
        while self._timers and self._timers[0][0] <= until:
            when, number, call = heapq.heappop(self._timers)
            if number in self._cancelled:
                continue
            self.now = max(self.now, when)
            call()
            return True
        return False


class _Timer:
    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel


def gpus(model: str, count: int) -> list[Gpu]:
    return [Gpu(uuid=f"GPU-{model}-{i}", model=model, memory=40 * GIB) for i in range(count)]


def three_hosts() -> list[FakeHost]:
    return [
        FakeHost("cpu-1", []),
        FakeHost("v100-1", gpus("V100", 2)),
        FakeHost("a100-1", gpus("A100", 2)),
    ]


@cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="devcluster-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "template.sqlite"
    Store(f"sqlite:///{path}", Clock()).close()
    return path


class Rig:
    """One manager over fakes; it can crash and start again."""

    def __init__(self, folder: Path, hosts: list[FakeHost] | None = None) -> None:
        database = folder / "devcluster.sqlite"
        shutil.copy(_template(), database)  # migrated once for all tests
        self.url = f"sqlite:///{database}"
        self.clock = Clock()
        self.world = FakeWorld(three_hosts() if hosts is None else hosts)
        self.net_switch = FakeNetSwitch()
        self.crash_at = ""
        self.raise_at: dict[str, Exception] = {}
        self.reached: list[str] = []
        self.crashed = False
        self.changes = Changes()
        self._boot()
        self.heartbeat()

    def _boot(self) -> None:
        self.store = Store(self.url, self.clock)
        self.store.on_change = self.changes.tell
        self.book = HostBook(self.store, self.clock)
        admission = Admission(self.book, FLAVORS, self.clock)
        self.parts = Parts(
            store=self.store,
            hosts=self.book,
            admission=admission,
            agents=self.world,
            net_switch=self.net_switch,
            clock=self.clock,
            reach=self._reach,
        )
        self.reconciler = Reconciler(self.parts, self.clock.later)
        self.heartbeats = Heartbeats(self.parts, self.book, self.reconciler)
        self.wishes = Wishes(self.store, admission, self.reconciler, FLAVORS, self.clock)

    def _reach(self, point: str) -> None:
        self.reached.append(point)
        if point == self.crash_at:
            self.crash_at, self.crashed = "", True
            raise Crash(point)
        if point in self.raise_at:
            raise self.raise_at.pop(point)

    async def close(self) -> None:
        await self.reconciler.close()
        self.store.close()

    async def restart(self) -> None:
        """End the manager as it stands, and start it again."""
        await self.reconciler.close()
        self.store.close()
        self.clock.forget()
        self.crashed = False
        self._boot()
        self.reconciler.start()

    def heartbeat(self, *names: str) -> list[str]:
        """Let hosts report; return what they were told to remove."""
        removed = []
        for host in self.world.hosts.values():
            if (not names or host.name in names) and not host.down:
                reply = self.heartbeats.receive(host.report())
                for lease in reply.remove:
                    host.leases.pop(lease, None)
                removed += reply.remove
        return removed

    async def settle(self, horizon_s: float = 30.0, beats: bool = True) -> None:
        """Let everything happen that does within some seconds of the fake clock."""
        until = self.clock.now + horizon_s
        beat = self.clock.now + 5
        while True:
            for _ in range(12):
                await asyncio.sleep(0)
            tasks = self.reconciler.busy
            if len(tasks) > self.world.waiting:
                await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                if self.crashed:
                    await self.restart()
                continue
            if self.crashed:
                await self.restart()
                continue
            if beats and self.clock.now >= beat:
                self.heartbeat()
                beat = self.clock.now + 5
            if not self.clock.fire(min(until, beat) if beats else until):
                if not beats or beat > until:
                    self.clock.now = until
                    return
                self.clock.now = beat

    # --- what people do ----------------------------------------------------------------

    def start(self, user: str = "alice", flavor: str = "cpu") -> None:
        launch = Launch(command=["server"], env={"SECRET": "s3cr3t"}, prefix=f"/user/{user}/")
        self.wishes.start(f"{user}/default", StartRequest(flavor=flavor, launch=launch), "hub")

    async def running(self, user: str = "alice", flavor: str = "cpu") -> WorkspaceView:
        """Have a workspace run, with something in its memory and its home."""
        self.start(user, flavor)
        await self.settle(1)
        view = self.view(user)
        assert view.state == State.running, view
        self.memory(user)["x"] = f"{user} 41"
        self.home(user)["f"] = f"{user} kept"
        return view

    def switch(self, user: str = "alice", flavor: str = "1xA100", **options: Any) -> str:
        request = SwitchRequest(flavor=flavor, **options)
        return self.wishes.switch(f"{user}/default", request, user)

    def deflate(self, user: str = "alice", **options: Any) -> str:
        return self.wishes.deflate(f"{user}/default", DeflateRequest(**options), user)

    def inflate(self, user: str = "alice", flavor: str | None = None) -> str:
        return self.wishes.inflate(f"{user}/default", InflateRequest(flavor=flavor), user)

    def stop(self, user: str = "alice") -> None:
        self.wishes.stop(f"{user}/default", "hub")

    # --- what is ------------------------------------------------------------------------

    def view(self, user: str = "alice") -> WorkspaceView:
        with self.store.transaction() as tx:
            row = tx.workspace(f"{user}/default")
            return workspace_view(tx, row, self.parts.admission.queue(tx).places)

    def memory(self, user: str) -> dict[str, Any]:
        [lease] = self.world.alive(f"{user}/default").values()
        return lease.memory

    def home(self, user: str) -> dict[str, Any]:
        return self.world.hosts[self.view(user).host or ""].homes[f"{user}/default"]

    def check(self) -> None:
        """Assert what must hold whenever nothing is under way and all hosts answer."""
        assert check_consistency(self.store) == []
        with self.store.transaction() as tx:
            known = {x.id for x in tx.leases()}
            rows = tx.workspaces()
        there = {key for h in self.world.hosts.values() for key in h.leases}
        assert there <= known, "processes that nobody knows"
        for row in rows:
            alive = self.world.alive(row.id)
            assert len(alive) <= 1, f"{row.id} runs twice"
            route = self.net_switch.routes.get(row.id)
            if row.state == State.running:
                assert set(alive) == {row.lease_id}, f"{row.id} runs on nothing"
                assert route is not None
                assert (route.mode, route.lease) == ("open", row.lease_id)
            elif row.state in (State.deflated, State.stopped, State.failed):
                assert not alive
                assert route is None or route.mode != "open"

    def check_whole(self, user: str = "alice") -> None:
        """Assert that a running workspace has its variables and files."""
        self.check()
        assert self.view(user).state == State.running
        assert self.memory(user)["x"] == f"{user} 41"
        assert self.home(user)["f"] == f"{user} kept"

    def frozen(self) -> list[str]:
        return [
            key
            for host in self.world.hosts.values()
            for key, lease in host.leases.items()
            if lease.phase is LeasePhase.frozen
        ]


def move(rig: Rig, user: str = "alice") -> MoveView:
    found = rig.view(user).move
    assert found is not None
    return found


async def until_step(rig: Rig, step: str) -> None:
    """Let things happen until a step is recorded."""
    for _ in range(500):
        if f"manager.{step}.recorded" in rig.reached:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{step} was not reached: {rig.reached}")
