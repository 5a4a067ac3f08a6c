"""Letting moves begin: one function, one transaction, for every door.

Placing and reserving happen in the same transaction, from leases alone, so two
requests at once cannot get one GPU, and nothing can drift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from devcluster.core.errors import DevClusterError
from devcluster.core.lifecycle import MOVING, MoveKind, State
from devcluster.core.resources import Flavor, find_flavor
from devcluster.core.scheduler import Ask, Placement, Snapshot, Taken, impossible, plan

from .hosts import HostBook
from .store import Move, Role, Transaction, Workspace
from .store.store import UNDER_WAY

#: Kinds that need hardware.
PLACED = frozenset({MoveKind.start, MoveKind.switch, MoveKind.inflate})

#: The resting states that each kind begins from.
FROM: dict[MoveKind, frozenset[State]] = {
    MoveKind.start: frozenset({State.created, State.stopped, State.failed}),
    MoveKind.switch: frozenset({State.running}),
    MoveKind.deflate: frozenset({State.running}),
    MoveKind.inflate: frozenset({State.deflated}),
    MoveKind.stop: frozenset({State.running, State.deflated, State.failed, State.created}),
}


@dataclass
class Queue:
    """The requests for hardware that can begin as soon as there is some."""

    asks: list[Ask] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    @property
    def places(self) -> dict[str, int]:
        """The place in the queue, from 1, by move id."""
        return {m.id: place for place, m in enumerate(self.moves, 1)}


class Admission:
    """Decides which of the moves that were asked for may begin."""

    def __init__(
        self, hosts: HostBook, flavors: Sequence[Flavor], clock: Callable[[], float]
    ) -> None:
        self._hosts, self._flavors, self._clock = hosts, flavors, clock

    def snapshot(self, tx: Transaction) -> Snapshot:
        """Return the cluster as it is now: durable leases, and hosts as they told."""
        return Snapshot(
            self._hosts.rooms(),
            tuple(
                Taken(
                    workspace=x.workspace,
                    host=x.host,
                    cpus=x.flavor["cpus"],
                    memory=x.flavor["memory"],
                    gpus=frozenset(g["uuid"] for g in x.gpus),
                    owner=x.role == Role.owner,
                )
                for x in tx.leases()
            ),
        )

    def ask(self, tx: Transaction, row: Workspace, move: Move) -> Ask:
        """Return a move's request as the scheduler looks at it."""
        home = row.home_host
        if move.kind == MoveKind.inflate and row.capture:
            home = row.capture["host"]
        elif move.kind == MoveKind.switch and (lease := tx.lease(row.lease_id)):
            home = lease.host
        return Ask(
            row.id,
            find_flavor(self._flavors, move.flavor or ""),
            home,
            frozenset(move.options.get("avoid", ())),
        )

    def queue(self, tx: Transaction) -> Queue:
        """Return the requests that wait for nothing but hardware, in their order."""
        found = Queue()
        seen: set[str] = set()
        for move in tx.open_moves():
            first = move.workspace not in seen
            seen.add(move.workspace)
            if not first or move.status in UNDER_WAY or move.kind not in PLACED:
                continue
            row = tx.workspace(move.workspace)
            kind = MoveKind(move.kind)
            if row.state not in FROM[kind] and row.state != MOVING[kind]:
                continue
            try:
                found.asks.append(self.ask(tx, row, move))
            except DevClusterError as error:  # the admin took the flavor away
                self.end(tx, row, move, "failed", error.message)
                continue
            found.moves.append(move)
        return found

    def admit(self, tx: Transaction) -> set[str]:
        """Let every move begin that can; return the workspaces whose moves did."""
        begun = self._begin_unplaced(tx)
        queue = self.queue(tx)
        decided = plan(self.snapshot(tx), queue.asks)
        places = {p.workspace: p for p in decided.placements}
        reasons = {w.workspace: w.reason for w in decided.waits}
        for move, ask in zip(queue.moves, queue.asks, strict=True):
            row = tx.workspace(move.workspace)
            kind = MoveKind(move.kind)
            if kind is not MoveKind.switch:  # these show that they wait by their state
                tx.enter(
                    row, MOVING[kind], reasons.get(row.id, ""), f"{kind} by {move.requested_by}"
                )
            placed = places.get(row.id)
            if placed is None:
                self._wait(tx, row, move, ask, reasons[row.id])
                continue
            tx.enter(row, MOVING[kind], "", f"{kind} by {move.requested_by}")
            self._reserve(tx, row, move, ask.flavor, placed)
            begun.add(row.id)
        return begun

    def end(self, tx: Transaction, row: Workspace, move: Move, status: str, reason: str) -> None:
        """End a move that has not begun, and put its workspace where it was."""
        move.status, move.reason, move.ended = status, reason, self._clock()
        if tx.active_move(row.id) is not None:
            return  # where the workspace goes is up to that one
        if row.state == MOVING[MoveKind.start] and move.kind == MoveKind.start:
            tx.enter(row, State.failed, reason, f"{move.kind} {status}")
        elif row.state == MOVING[MoveKind.inflate] and move.kind == MoveKind.inflate:
            tx.enter(row, State.deflated, reason, f"{move.kind} {status}")

    def _begin_unplaced(self, tx: Transaction) -> set[str]:
        """Begin what needs no hardware: deflate and stop."""
        begun: set[str] = set()
        seen: set[str] = set()
        for move in tx.open_moves():
            first = move.workspace not in seen
            seen.add(move.workspace)
            if not first or move.status in UNDER_WAY or move.kind in PLACED:
                continue
            row = tx.workspace(move.workspace)
            kind = MoveKind(move.kind)
            if row.state in FROM[kind]:
                move.status, move.reason = "running", ""
                if row.state == State.created:  # nothing to stop; the table knows a short way
                    move.status, move.ended = "done", self._clock()
                    tx.enter(row, State.stopped, "", f"stop by {move.requested_by}")
                    continue
                tx.enter(row, MOVING[kind], "", f"{kind} by {move.requested_by}")
                move.source = row.lease_id
                begun.add(row.id)
            elif row.state == State.stopped and kind is MoveKind.stop:
                move.status, move.ended = "done", self._clock()
            elif row.state not in MOVING.values():
                self.end(tx, row, move, "failed", f"The workspace is {row.state}.")
        return begun

    def _wait(self, tx: Transaction, row: Workspace, move: Move, ask: Ask, reason: str) -> None:
        if ask.avoid and not any(
            h.name not in ask.avoid and not impossible(Snapshot((h,)), ask.flavor)
            for h in self._hosts.rooms()
        ):
            self.end(tx, row, move, "failed", move.options.get("why", reason))
            return
        move.reason = reason
        if move.kind != MoveKind.switch:
            row.reason = reason

    def _reserve(
        self, tx: Transaction, row: Workspace, move: Move, flavor: Flavor, place: Placement
    ) -> None:
        report = self._hosts.report(place.host)
        gpus = [g for g in report.gpus if g.uuid in place.gpus] if report else []
        lease = tx.reserve(
            row,
            place.host,
            flavor.model_dump(mode="json"),
            [g.model_dump(mode="json") for g in gpus],
        )
        move.status, move.reason = "running", ""
        move.source, move.target = row.lease_id, lease.id
