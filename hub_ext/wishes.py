"""What people, and the hub, ask of workspaces: checked, written down, and queued.

Nothing here acts. A wish is one transaction; the reconciler makes it true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from devcluster.core.errors import BadRequest, Conflict
from devcluster.core.lifecycle import MoveKind, State, Wish, is_committed
from devcluster.core.lifecycle import Step as StepName
from devcluster.core.names import canonical_id
from devcluster.core.records import (
    AnswerRequest,
    DeflateRequest,
    InflateRequest,
    StartRequest,
    SwitchRequest,
)
from devcluster.core.resources import Flavor, find_flavor
from devcluster.core.scheduler import Ask, impossible, waits_in_circle

from .admission import Admission
from .reconciler import Reconciler
from .store import Move, Store, Transaction, Workspace
from .store.store import UNDER_WAY


class Wishes:
    """The doors. Each leads through the same admission."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        reconciler: Reconciler,
        flavors: Sequence[Flavor],
        clock: Callable[[], float],
    ) -> None:
        self._store, self._admission, self._reconciler = store, admission, reconciler
        self._flavors, self._clock = flavors, clock

    def start(self, workspace: str, request: StartRequest, by: str) -> None:
        """Wish a workspace to run. Done already if it runs or is about to."""
        workspace = canonical_id(workspace)
        with self._store.transaction() as tx:
            flavor = find_flavor(self._flavors, request.flavor)
            row = tx.find(workspace) or tx.create(workspace)
            pending = tx.open_moves(workspace)
            stopping = any(m.kind == MoveKind.stop for m in pending)
            if row.state not in (State.running, State.switching) or stopping:
                self._refuse_impossible(tx, flavor)
            row.launch = request.launch.model_dump(mode="json")
            row.wish = Wish.running
            if row.state in (State.running, State.switching) and not stopping:
                return
            if pending and pending[-1].kind in (MoveKind.start, MoveKind.inflate):
                if pending[-1].status == "queued":
                    pending[-1].flavor = flavor.name
                return
            ends_deflated = row.state == State.deflated or any(
                m.kind == MoveKind.deflate for m in pending
            )
            kind = MoveKind.inflate if ends_deflated and not stopping else MoveKind.start
            tx.add_move(row, kind, by, flavor.name)
        self._news(workspace)

    def stop(self, workspace: str, by: str) -> None:
        """Wish a workspace to stop. What is not committed is taken back first."""
        with self._store.transaction() as tx:
            row = tx.workspace(workspace)
            row.wish = Wish.stopped
            for move in tx.open_moves(workspace):
                if move.kind != MoveKind.stop:
                    self._take_back(tx, row, move, "The workspace is to stop.")
            pending = tx.open_moves(workspace)
            if row.state != State.stopped and not any(m.kind == MoveKind.stop for m in pending):
                tx.add_move(row, MoveKind.stop, by)
        self._news(workspace)

    def switch(self, workspace: str, request: SwitchRequest, by: str) -> str:
        """Ask for other hardware; return the id of the move."""
        with self._store.transaction() as tx:
            row = tx.workspace(workspace)
            flavor = find_flavor(self._flavors, request.flavor)
            self._refuse_moving(tx, row, MoveKind.switch)
            if row.state != State.running:
                raise Conflict(f"{row.id} is {row.state}. {_REMEDY.get(State(row.state), '')}")
            waiting = self._admission.queue(tx)
            if row.flavor == flavor.name:
                raise Conflict(f"{row.id} is already on {flavor.label}.", flavor=flavor.name)
            self._refuse_impossible(tx, flavor)
            others = [a for a in waiting.asks if a.workspace != row.id]
            lease = tx.lease(row.lease_id)
            ask = Ask(row.id, flavor, lease.host if lease else None)
            circle = waits_in_circle(self._admission.snapshot(tx), others, ask)
            if circle:
                raise Conflict(
                    f"{' and '.join(circle)} would wait for each other's hardware for ever. "
                    "Deflate one of them, or ask for something else."
                )
            for move in tx.open_moves(workspace):
                self._admission.end(tx, row, move, "cancelled", "Replaced by a newer request.")
            options = {"on_busy": request.on_busy, "on_loss": request.on_loss}
            row.wish = Wish.running
            move_id = tx.add_move(row, MoveKind.switch, by, flavor.name, options).id
        self._news(workspace)
        return move_id

    def deflate(self, workspace: str, request: DeflateRequest, by: str) -> str:
        """Ask to free the hardware; during another move it is done after it."""
        with self._store.transaction() as tx:
            row = tx.workspace(workspace)
            pending = tx.open_moves(workspace)
            same = [m for m in pending if m.kind == MoveKind.deflate]
            if same:
                return same[0].id
            if any(m.kind == MoveKind.stop for m in pending) or row.state not in (
                State.running,
                State.switching,
                State.starting,
                State.inflating,
            ):
                state = "stopping" if pending else row.state
                raise Conflict(f"{row.id} is {state}; only a running workspace can be deflated.")
            for move in pending:
                if move.status == "queued" and move.kind == MoveKind.switch:
                    self._admission.end(tx, row, move, "cancelled", "Deflated instead.")
            options = {"on_busy": request.on_busy, "on_loss": request.on_loss}
            row.wish = Wish.deflated
            added = tx.add_move(row, MoveKind.deflate, by, row.flavor, options)
            if row.state != State.running:
                added.reason = f"Begins when the workspace is no longer {row.state}."
            move_id = added.id
        self._news(workspace)
        return move_id

    def inflate(self, workspace: str, request: InflateRequest, by: str) -> str:
        """Ask to bring a deflated workspace back; return the id of the move."""
        with self._store.transaction() as tx:
            row = tx.workspace(workspace)
            pending = tx.open_moves(workspace)
            coming = [m for m in pending if m.kind == MoveKind.inflate]
            deflated = row.state in (State.deflated, State.deflating)
            if not coming and (not deflated or any(m.kind == MoveKind.stop for m in pending)):
                raise Conflict(f"{row.id} is {row.state}; only a deflated workspace is inflated.")
            flavor = find_flavor(self._flavors, request.flavor or row.flavor or "")
            if coming and coming[-1].status == "queued":
                coming[-1].flavor = flavor.name
                move_id = coming[-1].id
            elif coming:
                move_id = coming[-1].id
            else:
                self._refuse_impossible(tx, flavor)
                row.wish = Wish.running
                move_id = tx.add_move(row, MoveKind.inflate, by, flavor.name).id
        self._news(workspace)
        return move_id

    def answer(self, workspace: str, request: AnswerRequest, by: str) -> str:
        """Answer the question that a move asks."""
        with self._store.transaction() as tx:
            row = tx.workspace(workspace)
            move = tx.active_move(workspace)
            if move is None or move.status != "asking" or move.question is None:
                raise Conflict(f"No move of {row.id} asks anything just now.")
            if move.id != request.move:
                raise Conflict(f"The move that asks is {move.id}, not {request.move}.")
            choices = move.question["choices"]
            if request.choice not in choices:
                raise BadRequest(
                    f"choice: {request.choice!r} cannot be answered. Allowed: {', '.join(choices)}."
                )
            move.answer, options = request.choice, dict(move.options)
            if request.choice == "cancel":
                move.undo, move.reason = "cancelled", f"Cancelled by {by}."
            elif request.choice == "accept":
                options["accepted"] = [*options.get("accepted", []), *move.question["items"]]
            else:
                options["on_busy"] = request.choice
            move.options = options
            move.status, move.question = "running", None
            move_id = move.id
        self._news(workspace)
        return move_id

    def cancel(self, workspace: str, by: str) -> str:
        """Cancel what is queued, asks, or is not committed yet."""
        with self._store.transaction() as tx:
            row = tx.workspace(workspace)
            cancelled = [
                move
                for move in tx.open_moves(workspace)
                if move.kind != MoveKind.stop
                and self._take_back(tx, row, move, f"Cancelled by {by}.")
            ]
            if not cancelled:
                raise Conflict(
                    f"{row.id} has no move that can be cancelled: none is queued, and one that "
                    "has reached its last steps only goes on."
                )
            if row.wish != Wish.stopped:
                at_rest = State(row.state) is State.deflated or cancelled[0].kind == "inflate"
                row.wish = Wish.deflated if at_rest else Wish.running
            move_id = cancelled[0].id
        self._news(workspace)
        return move_id

    def _take_back(self, tx: Transaction, row: Workspace, move: Move, reason: str) -> bool:
        if move.status not in UNDER_WAY:
            self._admission.end(tx, row, move, "cancelled", reason)
            return True
        step = StepName(move.step) if move.step else None
        if move.committed or is_committed(MoveKind(move.kind), step):
            return False
        if move.undo in (None, "elsewhere"):
            move.undo, move.reason = "cancelled", reason
            move.status, move.question = "running", None
        return True

    def _refuse_moving(self, tx: Transaction, row: Workspace, asked: MoveKind) -> None:
        for move in tx.open_moves(row.id):
            if move.status in UNDER_WAY or move.kind not in (MoveKind.switch,):
                raise Conflict(
                    f"{row.id} is busy with a {move.kind}"
                    + (f" to {move.flavor}" if move.flavor else "")
                    + f"; a {asked} can be asked for when it has ended, or after cancelling it.",
                    move=move.id,
                )

    def _refuse_impossible(self, tx: Transaction, flavor: Flavor) -> None:
        why = impossible(self._admission.snapshot(tx), flavor)
        if why:
            raise Conflict(why, flavor=flavor.name)

    def _news(self, workspace: str) -> None:
        self._reconciler.admit()
        self._reconciler.wake(workspace)


_REMEDY: dict[State, str] = {
    State.deflated: "Inflate it with the flavor that you want.",
    State.created: "Start it first.",
    State.stopped: "Start it first.",
    State.failed: "Start it first.",
    State.starting: "Wait until it runs.",
    State.inflating: "Wait until it runs.",
    State.stopping: "It can be started again when it has stopped.",
}
