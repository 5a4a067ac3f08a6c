"""Carrying a move on by one step: record, act, record; before commit back, after it on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from devcluster.core.errors import Busy, DevClusterError, Stale, StepFailed, Unavailable
from devcluster.core.lifecycle import STEPS, MoveKind, State, Step, is_committed

from .checking import Woken
from .parts import Parts, Scene, sentence
from .steps import Steps
from .store import Move, Transaction, Workspace
from .tidying import Tidying
from .undoing import Undoing

log = logging.getLogger("devcluster.manager")

#: How often a step before commit is tried where a part does not answer.
TRIES = 4
#: The first pause between two tries, in seconds; doubled each time.
FIRST_PAUSE_S = 0.3
#: How often a cell may slip in between check and capture before the move is given up.
ROUNDS = 20

#: Steps that end early when the move is cancelled: they work on the target alone, which
#: may be slow, or hang, while the source is frozen and the browser waits.
CUTTABLE = frozenset({Step.prepare, Step.send, Step.restore})

#: The resting state that each kind of move ends in.
ENDS: dict[MoveKind, State] = {
    MoveKind.start: State.running,
    MoveKind.switch: State.running,
    MoveKind.deflate: State.deflated,
    MoveKind.inflate: State.running,
    MoveKind.stop: State.stopped,
}


class Moves:
    """Carries moves on."""

    def __init__(self, parts: Parts, tidying: Tidying, woken: Woken[Any]) -> None:
        self._parts = parts
        self._steps, self._woken = Steps(parts, tidying, woken), woken
        self._undoing = Undoing(parts, tidying)
        self._tries: dict[tuple[str, str], int] = {}

    async def advance(self, scene: Scene) -> float | None:
        """Take the next step of the move under way.

        Returns
        -------
        float or None
            In how many seconds to go on; None if there is nothing to do until news.

        Raises
        ------
        DevClusterError
            If what must be done could not be; to be tried again later.
        """
        if scene.move.undo is not None:
            await self._undoing.undo(scene)
            return 0
        if scene.move.status == "asking":
            return self._wait_for_answer(scene)
        kind = MoveKind(scene.move.kind)
        step = _next_step(scene.move)
        if step is None:
            self._finish(scene)
            return 0
        if not self._begin(scene, step):
            return 0
        try:
            return await self._take(scene, kind, step)
        except DevClusterError as error:
            return self._failed(scene, kind, step, error)
        except TimeoutError:
            limit = self._parts.settings.step_deadlines.get(step, 0)
            late = StepFailed(f"The step {step} took longer than {limit:g} seconds.")
            return self._failed(scene, kind, step, late)
        except Exception as error:
            log.exception("The step %s of %s failed", step, scene.row.id)
            return self._failed(scene, kind, step, StepFailed(sentence(error)))

    # --- one step -----------------------------------------------------------------

    def _begin(self, scene: Scene, step: Step) -> bool:
        """Write down that a step begins; False if there is news to look at first."""
        now = self._parts.clock()
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is None or move.undo is not None or move.status != "running":
                return False
            if move.step == step and not move.step_done:
                return True  # again, after a crash or a fault
            move.step, move.step_done = step, False
            move.committed = is_committed(MoveKind(move.kind), step)
            move.reason = ""
            move.steps = [*move.steps, {"step": step, "began": now, "ended": None, "note": ""}]
        return True

    async def _take(self, scene: Scene, kind: MoveKind, step: Step) -> float | None:
        self._parts.reach(f"manager.{step}.recorded")
        limit = self._parts.settings.step_deadlines.get(step)
        if step is Step.release and kind is MoveKind.stop:
            limit = None  # a stop is over only when its host says so
        over = await asyncio.wait_for(self._act(scene, step), limit)
        if not over:
            return 0
        self._parts.reach(f"manager.{step}.acted")
        self._done(scene, step)
        self._tries.pop((scene.move.id, step), None)
        return 0

    async def _act(self, scene: Scene, step: Step) -> bool:
        """Take a step; False if it is not over, or was called off where that loses nothing."""
        act = asyncio.ensure_future(self._steps.acts[step](scene))
        try:
            while step in CUTTABLE and not act.done():
                await self._woken(scene.row.id, asyncio.wait({act}))
                if not act.done() and self._is_called_off(scene):
                    return False
            return await act
        finally:
            act.cancel()
            await asyncio.gather(act, return_exceptions=True)

    def _is_called_off(self, scene: Scene) -> bool:
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            return move is None or move.undo is not None

    def _done(self, scene: Scene, step: Step, note: str = "") -> None:
        now = self._parts.clock()
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is None or move.step != step or move.step_done:
                return
            move.step_done = True
            if move.undo is None:  # else its reason is why it goes back
                move.reason = note
            move.steps = [*move.steps[:-1], {**move.steps[-1], "ended": now}]
            parked = [s["began"] for s in move.steps if s["step"] == Step.park]
            if step is Step.reroute and parked and move.kind == MoveKind.switch:
                move.pause_s = now - parked[-1]

    def _failed(
        self, scene: Scene, kind: MoveKind, step: Step, error: DevClusterError
    ) -> float | None:
        """Decide what an error means: again, back to check, undo, or on and on."""
        if is_committed(kind, step):
            if step is Step.release and kind is not MoveKind.stop:
                # The person has what was asked for. The old hardware counts as taken
                # until its host says that it is free; tidying goes on about that.
                self._done(scene, step, f"The old hardware is not free yet: {error.message}")
                return 0
            self._tell(scene, error)
            raise error
        if isinstance(error, Busy) and step in (Step.park, Step.capture):
            return self._back_to_check(scene, error)
        tries = self._tries.get((scene.move.id, step), 0) + 1
        self._tries[(scene.move.id, step)] = tries
        if isinstance(error, Unavailable | Stale) and tries < TRIES:
            return FIRST_PAUSE_S * float(2 ** (tries - 1))
        self._tries.pop((scene.move.id, step), None)
        log.warning("%s of %s failed at %s: %s", kind, scene.row.id, step, error.message)
        elsewhere = step is Step.prepare and isinstance(error, Unavailable)
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None and move.undo is None:
                move.undo = "elsewhere" if elsewhere else "failed"
                move.reason = f"{step}: {error.message}"
        return 0

    def _back_to_check(self, scene: Scene, error: DevClusterError) -> float:
        """Let the source go on where a cell slipped in, and look again."""
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is None or move.undo is not None:
                return 0
            rounds: int = move.options.get("rounds", 0) + 1
            if rounds > ROUNDS:
                move.undo = "failed"
                move.reason = (
                    f"A kernel was busy again each of {ROUNDS} times when its state was to be "
                    "captured. Ask again when it is calmer, or choose to interrupt it."
                )
                return 0
            move.options = {**move.options, "rounds": rounds, "unpark": True}
            kept = [s for s in move.steps if s["step"] not in (Step.park, Step.capture)]
            move.steps = [*kept[:-1], {**kept[-1], "ended": None, "note": error.message}]
            move.step, move.step_done = Step.check, False
        return 0

    def _tell(self, scene: Scene, error: DevClusterError) -> None:
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None:
                move.reason = f"{move.step} is tried until it works: {error.message}"

    # --- waiting and ending ---------------------------------------------------------

    def _wait_for_answer(self, scene: Scene) -> float:
        asked = scene.move.asked or 0.0
        left: float = asked + self._parts.settings.question_timeout_s - self._parts.clock()
        if left > 0:
            return left
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None and move.status == "asking":
                move.undo, move.reason = "cancelled", "Nobody answered the question in time."
        return 0

    def _finish(self, scene: Scene) -> None:
        kind = MoveKind(scene.move.kind)
        self._parts.admit_again = True
        with self._parts.store.transaction() as tx:
            row, move = tx.workspace(scene.row.id), tx.move(scene.move.id)
            if move is not None:
                _end(tx, row, move, "done", self._parts.clock())
                tx.enter(row, ENDS[kind], "", f"{kind} by {move.requested_by}")


def _end(tx: Transaction, row: Workspace, move: Move, status: str, now: float) -> None:
    move.status, move.ended, move.question = status, now, None


def _next_step(move: Move) -> Step | None:
    order = STEPS[MoveKind(move.kind)]
    if move.step is None:
        return order[0]
    at = order.index(Step(move.step))
    if not move.step_done:
        return order[at]
    return order[at + 1] if at + 1 < len(order) else None
