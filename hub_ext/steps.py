"""What each step of a move does. Every one may be taken again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from devcluster.core.lifecycle import MoveKind, State, Step
from devcluster.core.records import Fetch, KernelHint, KernelPlan, Launch, LeaseRequest, RouteMode
from devcluster.core.resources import Flavor

from .checking import Checking, Woken
from .parts import Parts, Scene
from .store import Role
from .tidying import Tidying

MOVING_MESSAGE = "The workspace is moving to other hardware. This takes a few seconds."


class Steps:
    """The acts behind the steps."""

    def __init__(self, parts: Parts, tidying: Tidying, woken: Woken[Any]) -> None:
        self._parts, self._tidying = parts, tidying
        self._checking = Checking(parts, woken)
        #: Each act returns False if it is not over, though nothing went wrong.
        self.acts: dict[Step, Callable[[Scene], Awaitable[bool]]] = {
            Step.prepare: self._prepare,
            Step.check: self._checking.check,
            Step.park: self._park,
            Step.capture: self._capture,
            Step.send: self._send,
            Step.restore: self._restore,
            Step.commit: self._commit,
            Step.reroute: self._reroute,
            Step.release: self._release,
        }

    async def _prepare(self, scene: Scene) -> bool:
        row, target = scene.row, scene.needed_target
        home = scene.source.host if scene.source else row.home_host
        # What this workspace left here, or where its home is, must be gone for certain:
        # its processes would write to the home that the new ones use.
        await self._tidying.clear(row.id, {target.host, home or target.host})
        agent = self._parts.agent(target.host)
        pull = self._pull_home(target.id, row.id, home, target.host)
        hints, _ = await asyncio.gather(self._hints(scene), pull)
        report = await agent.ensure(
            LeaseRequest(
                lease=target.id,
                workspace=row.id,
                epoch=target.epoch,
                flavor=Flavor.model_validate(target.flavor),
                gpus=[g["uuid"] for g in target.gpus],
                launch=Launch.model_validate(row.launch),
                warm=hints,
            )
        )
        with self._parts.store.transaction() as tx:
            lease, move = tx.lease(target.id), tx.move(scene.move.id)
            if lease is not None and move is not None:
                lease.url = report.url
                move.options = {**move.options, "warmed": [h.kernel_id for h in hints]}
        return True

    async def _pull_home(self, lease: str, workspace: str, home: str | None, target: str) -> None:
        if home is not None and home != target:
            await self._parts.agent(target).fetch(
                lease, Fetch(workspace=workspace, source=self._parts.hosts.url(home))
            )

    async def _hints(self, scene: Scene) -> list[KernelHint]:
        if scene.source is not None:
            plan = await self._parts.agent(scene.source.host).plan(scene.source.id)
            kernels = plan.kernels
        else:
            kernels = _captured_kernels(scene)
        return [k.hint for k in kernels]

    async def _park(self, scene: Scene) -> bool:
        await self._parts.put_route(
            scene.row.id, RouteMode.parked, scene.needed_source, MOVING_MESSAGE
        )
        return True

    async def _capture(self, scene: Scene) -> bool:
        source = scene.needed_source
        report = await self._parts.agent(source.host).capture(source.id, scene.move.id)
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None:
                move.capture = report.model_dump(mode="json")
        return True

    async def _send(self, scene: Scene) -> bool:
        row, target = scene.row, scene.needed_target
        capture, host = _capture_of(scene)
        await self._parts.agent(target.host).fetch(
            target.id,
            Fetch(
                workspace=row.id,
                source=self._parts.hosts.url(host),
                capture=capture,
                # Deflated, the home did not change since it was pulled in prepare.
                home=scene.source is not None and host != target.host,
            ),
        )
        return True

    async def _restore(self, scene: Scene) -> bool:
        target = scene.needed_target
        await self._parts.agent(target.host).restore(target.id, _capture_of(scene)[0])
        return True

    async def _commit(self, scene: Scene) -> bool:
        """Change the owner: in the database, or not at all."""
        kind, now = MoveKind(scene.move.kind), self._parts.clock()
        with self._parts.store.transaction() as tx:
            row, move = tx.workspace(scene.row.id), tx.move(scene.move.id)
            source, target = tx.lease(scene.move.source), tx.lease(scene.move.target)
            if move is None or (target and target.role == Role.owner):
                return True  # taken before the crash
            if source is not None and source.role == Role.owner:
                source.role = Role.releasing
            if target is not None:
                target.role, row.lease_id = Role.owner, target.id
                row.flavor, row.epoch = move.flavor, target.epoch
                row.home_host = target.host
            else:
                row.lease_id = None
            if kind is MoveKind.switch and source and target:
                tx.discard(row.id, move.id, {source.host, target.host})
            elif kind is MoveKind.deflate and source:
                row.capture = {
                    "id": move.id,
                    "host": source.host,
                    "kernels": (move.capture or {}).get("kernels", []),
                    "since": now,
                }
            elif kind in (MoveKind.inflate, MoveKind.stop) and row.capture:
                hosts = {row.capture["host"], target.host if target else row.capture["host"]}
                tx.discard(row.id, row.capture["id"], hosts)
                row.capture = None
        return True

    async def _reroute(self, scene: Scene) -> bool:
        kind, row = MoveKind(scene.move.kind), scene.row
        if kind is MoveKind.deflate:
            message = "The workspace is deflated: its hardware is free, its state is kept."
            await self._parts.put_route(row.id, RouteMode.deflated, None, message)
        elif kind is MoveKind.stop:
            await self._parts.put_route(row.id, RouteMode.closed, None, "The workspace is stopped.")
        else:
            await self._parts.put_route(row.id, RouteMode.open, scene.needed_target)
        return True

    async def _release(self, scene: Scene) -> bool:
        await self._tidying.tidy(scene.row.id)
        return True


def _capture_of(scene: Scene) -> tuple[str, str]:
    """Return id and host of the capture that a switch made, or an inflation uses."""
    if scene.source is not None:
        return scene.move.id, scene.source.host
    capture = scene.row.capture or {}
    return capture["id"], capture["host"]


def _captured_kernels(scene: Scene) -> list[KernelPlan]:
    if scene.row.state != State.inflating or not scene.row.capture:
        return []
    return [KernelPlan.model_validate(k) for k in scene.row.capture["kernels"]]
