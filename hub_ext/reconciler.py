"""Take a workspace, look at what is recorded, do the one thing that comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from devcluster.core.lifecycle import State
from devcluster.core.records import LeasePhase, Route

from .moves import Moves
from .parts import Parts
from .tidying import Tidying
from .workqueue import Timer, WorkQueue

T = TypeVar("T")


class Reconciler:
    """The only one that changes states.

    Recovery after a crash is its normal path: :meth:`start` puts every workspace on
    the queue, and the step on record is taken again.
    """

    def __init__(
        self, parts: Parts, later: Callable[[float, Callable[[], Any]], Timer] | None = None
    ) -> None:
        self._parts = parts
        self._tidying = Tidying(parts)
        self._moves = Moves(parts, self._tidying, self._unless_woken)
        self._queue = WorkQueue(self.reconcile, later or asyncio.get_running_loop().call_later)
        self._wakers: dict[str, asyncio.Event] = {}

    @property
    def busy(self) -> list[asyncio.Task[None]]:
        """The work that is being done just now."""
        return self._queue.busy

    def start(self) -> None:
        """Put every workspace on the queue."""
        with self._parts.store.transaction() as tx:
            names = [row.id for row in tx.workspaces()]
        for name in names:
            self.wake(name)
        self.admit()

    def wake(self, workspace: str) -> None:
        """There is news about a workspace."""
        if workspace in self._wakers:
            self._wakers[workspace].set()
        self._queue.add(workspace)

    def admit(self) -> None:
        """Let the moves begin that can: hardware was freed, or a request is new."""
        with self._parts.store.transaction() as tx:
            begun = self._parts.admission.admit(tx)
        for workspace in begun:
            self.wake(workspace)

    def admit_waiting(self) -> None:
        """Look again at what waits, if anything does."""
        with self._parts.store.transaction() as tx:
            waiting = any(m.status == "queued" for m in tx.open_moves())
        if waiting:
            self.admit()

    async def reconcile(self, workspace: str) -> float | None:
        """Take one workspace one step on; return when to look again."""
        try:
            scene = self._parts.scene(workspace)
            if scene is not None:
                return await self._moves.advance(scene)
            if await self._heal(workspace):
                await self._tidying.tidy(workspace, patient=True)
            return None
        finally:
            if self._parts.admit_again:
                self._parts.admit_again = False
                self.admit_waiting()

    async def _heal(self, workspace: str) -> bool:
        """Bring the world to what is on record, where no move is under way.

        Returns
        -------
        bool
            False if there is no such workspace.
        """
        with self._parts.store.transaction() as tx:
            row = tx.find(workspace)
            lease = tx.lease(row.lease_id) if row else None
        if row is None:
            return False
        if row.route is not None and row.route_applied != row.route_revision:
            await self._parts.apply_route(Route.model_validate(row.route))
        if row.state != State.running or lease is None:
            return True
        report = self._parts.hosts.report(lease.host)
        told = [x.phase for x in (report.leases if report else []) if x.lease == lease.id]
        if told == [LeasePhase.frozen]:
            await self._parts.agent(lease.host).thaw(lease.id)
        return True

    async def _unless_woken(self, workspace: str, awaitable: Awaitable[T]) -> T | None:
        """Await something that is cut short by news; it must be safe to cut."""
        waker = self._wakers.setdefault(workspace, asyncio.Event())
        waker.clear()
        work = asyncio.ensure_future(awaitable)
        woken = asyncio.ensure_future(waker.wait())
        try:
            await asyncio.wait({work, woken}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            for task in (work, woken):
                task.cancel()
            await asyncio.gather(work, woken, return_exceptions=True)
            self._wakers.pop(workspace, None)

    async def close(self) -> None:
        """Stop; the next start goes on where this ends."""
        await self._queue.close()
