"""Going back: the workspace ends where it was, whatever the move had done so far."""

from __future__ import annotations

import logging

from devcluster.core.errors import DevClusterError, NotFound, Unavailable
from devcluster.core.lifecycle import STEPS, MoveKind, State, Step
from devcluster.core.records import LeasePhase, RouteMode

from .parts import Parts, Scene
from .store import Move, Role, Transaction, Workspace
from .tidying import Tidying

log = logging.getLogger("devcluster.manager")

#: How long the source waits for the target to be gone before it goes on, in seconds.
_TARGET_GONE_S = 5.0


class Undoing:
    """Takes a move back that is not committed. Every part of it may be repeated."""

    def __init__(self, parts: Parts, tidying: Tidying) -> None:
        self._parts, self._tidying = parts, tidying

    async def undo(self, scene: Scene) -> None:
        """Remove the target, let the source go on, lead the route to it, end the move.

        Raises
        ------
        DevClusterError
            If the source cannot be reached: it stays the owner, and this is tried again.
        """
        self._parts.admit_again = True
        self._give_up_target(scene)
        if scene.target is not None:
            target = scene.target
            await self._tidying.quickly(scene.row.id, target.id, target.host, _TARGET_GONE_S)
        if scene.source is not None:
            try:
                await self._source_goes_on(scene)
            except NotFound as error:
                self._source_is_gone(scene, error)
                return
            except DevClusterError as error:
                self._tell(scene, error)
                raise
        self._end(scene)

    def _give_up_target(self, scene: Scene) -> None:
        """Write down what is not needed any more, once."""
        with self._parts.store.transaction() as tx:
            move, target = tx.move(scene.move.id), tx.lease(scene.move.target)
            if target is not None:
                target.role = Role.releasing
            if move is None or move.options.get("given_up"):
                return
            move.options = {**move.options, "given_up": True}
            if scene.source is not None and _begun(move, Step.capture):
                hosts = {x.host for x in (scene.source, target) if x is not None}
                tx.discard(scene.row.id, move.id, hosts)
            elif target is not None and scene.row.capture and _begun(move, Step.send):
                # Inflating: what the target has is a copy, unless it is the very host.
                copies = {target.host} - {scene.row.capture["host"]}
                tx.discard(scene.row.id, scene.row.capture["id"], copies)

    async def _source_goes_on(self, scene: Scene) -> None:
        move, source = scene.move, scene.needed_source
        again = bool(move.options.get("unpark"))
        if again or _begun(move, Step.capture):
            agent = self._parts.agent(source.host)
            try:
                await agent.thaw(source.id)
            except Unavailable:
                raise
            except DevClusterError:
                report = await agent.lease(source.id)
                if report.phase is LeasePhase.exited:
                    raise NotFound(report.reason or "Its processes have ended.") from None
                raise
        if again or _begun(move, Step.park):
            await self._parts.put_route(scene.row.id, RouteMode.open, source)

    def _source_is_gone(self, scene: Scene, error: DevClusterError) -> None:
        """Give up where the agent knows for certain that the processes are no more."""
        log.error("The source of %s is gone: %s", scene.row.id, error.message)
        with self._parts.store.transaction() as tx:
            row, move = tx.workspace(scene.row.id), tx.move(scene.move.id)
            if move is None:
                return
            reason = f"{move.reason} Its processes on the source have ended: {error.message}"
            _close(move, "failed", reason, self._parts.clock())
            if row.state == State.deflating:
                tx.enter(row, State.running, reason, f"{move.kind} failed")
            give_up(tx, row, reason, f"{move.kind} failed")

    def _end(self, scene: Scene) -> None:
        kind = MoveKind(scene.move.kind)
        with self._parts.store.transaction() as tx:
            row, move = tx.workspace(scene.row.id), tx.move(scene.move.id)
            if move is None or move.undo is None:
                return
            cause = f"{kind} {move.undo}"
            if move.undo == "elsewhere":
                self._ask_again(tx, row, move, scene)
                return
            _close(move, move.undo, move.reason, self._parts.clock())
            ends = {
                MoveKind.start: State.failed,
                MoveKind.switch: State.running,
                MoveKind.deflate: State.running,
                MoveKind.inflate: State.deflated,
            }
            reason = move.reason if kind in (MoveKind.start, MoveKind.inflate) else ""
            tx.enter(row, ends[kind], reason, cause)
            if row.wish == "deflated" and row.state == State.running:
                row.wish = "running"

    def _ask_again(self, tx: Transaction, row: Workspace, move: Move, scene: Scene) -> None:
        """Put the request back into the queue, for another host than the one that failed."""
        failed = [scene.target.host] if scene.target else []
        kept = {k: v for k, v in move.options.items() if k not in ("given_up", "warmed")}
        avoid = [*kept.get("avoid", []), *failed]
        move.options = {**kept, "avoid": avoid, "why": move.reason}
        move.status, move.undo, move.step, move.step_done = "queued", None, None, False
        move.steps, move.source, move.target = [], None, None
        if row.state == State.switching:
            tx.enter(row, State.running, "", "the target did not answer")

    def _tell(self, scene: Scene, error: DevClusterError) -> None:
        with self._parts.store.transaction() as tx:
            row = tx.workspace(scene.row.id)
            row.reason = f"Going back; tried until it works: {error.message}"


def give_up(tx: Transaction, row: Workspace, reason: str, cause: str) -> None:
    """Let a workspace be failed whose processes are gone for certain."""
    lease = tx.lease(row.lease_id)
    if lease is not None:
        lease.role = Role.releasing
    row.lease_id = None
    tx.enter(row, State.failed, reason, cause)


def _close(move: Move, status: str, reason: str, now: float) -> None:
    move.status, move.reason, move.ended, move.question = status, reason, now, None
    move.undo = None
    if move.steps and move.steps[-1]["ended"] is None:
        move.steps = [*move.steps[:-1], {**move.steps[-1], "ended": now}]


def _begun(move: Move, step: Step) -> bool:
    order = STEPS[MoveKind(move.kind)]
    if move.step is None or step not in order:
        return False
    return order.index(Step(move.step)) >= order.index(step)
