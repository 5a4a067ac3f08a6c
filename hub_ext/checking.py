"""The check of a move: what would be lost, what is busy, and what the person says to that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from devcluster.core.errors import StepFailed
from devcluster.core.lifecycle import MoveKind
from devcluster.core.records import KernelHint, KernelPlan, Plan, Question, RouteMode

from .parts import Parts, Scene

T = TypeVar("T")

#: Awaits something for a workspace, but gives up (None) when there is news about it.
Woken = Callable[[str, Awaitable[T]], Awaitable[T | None]]

#: How long one wait for idle kernels is, in seconds; then it is asked again.
_WAIT_S = 25.0


class Checking:
    """Makes the plan, and asks. Nothing of the workspace is touched by it."""

    def __init__(self, parts: Parts, woken: Woken[Any]) -> None:
        self._parts, self._woken = parts, woken

    async def check(self, scene: Scene) -> bool:
        """Take one look; True once nothing is busy and every loss is accepted."""
        source, options = scene.needed_source, scene.move.options
        agent = self._parts.agent(source.host)
        if options.get("unpark"):
            await self._go_on(scene)
        plan = await agent.plan(source.id)
        self._note(scene, plan)
        if plan.busy:
            on_busy = options.get("on_busy", "ask")
            if on_busy == "ask":
                self._ask(scene, _busy_question(plan.busy, scene))
                return False
            if on_busy == "interrupt":
                await agent.interrupt(source.id)
                if not await agent.wait_idle(source.id, self._parts.settings.interrupt_timeout_s):
                    raise StepFailed(
                        "The running cell did not end when it was interrupted. Wait for it, or "
                        "restart its kernel, then ask again."
                    )
                return False
            await self._woken(scene.row.id, agent.wait_idle(source.id, _WAIT_S))
            return False
        accepted = options.get("accepted", [])
        if options.get("on_loss", "ask") == "ask" and not set(plan.losses) <= set(accepted):
            self._ask(scene, _loss_question(plan.losses, scene))
            return False
        await self._warm_the_new(scene, [k.hint for k in plan.kernels])
        return True

    async def _go_on(self, scene: Scene) -> None:
        """Let the source go on where a cell slipped in before the capture."""
        source = scene.needed_source
        await self._parts.agent(source.host).thaw(source.id)
        await self._parts.put_route(scene.row.id, RouteMode.open, source)
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None:
                move.options = {k: v for k, v in move.options.items() if k != "unpark"}

    async def _warm_the_new(self, scene: Scene, hints: list[KernelHint]) -> None:
        """Warm the kernels that appeared after the target was prepared."""
        target = scene.target
        if target is None:
            return
        warmed = set(scene.move.options.get("warmed", []))
        new = [h for h in hints if h.kernel_id not in warmed]
        if new:
            await self._parts.agent(target.host).warm(target.id, new)

    def _note(self, scene: Scene, plan: Plan) -> None:
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None:
                move.plan = plan.model_dump(mode="json")
                if plan.busy and move.steps:
                    note = f"waits for {_names(plan.busy)}"
                    move.steps = [*move.steps[:-1], {**move.steps[-1], "note": note}]

    def _ask(self, scene: Scene, question: Question) -> None:
        with self._parts.store.transaction() as tx:
            move = tx.move(scene.move.id)
            if move is not None and move.undo is None:
                move.status = "asking"
                move.question = question.model_dump(mode="json")
                move.asked = self._parts.clock()


def _names(kernels: list[KernelPlan]) -> str:
    return ", ".join(k.title or k.kernel_id[:8] for k in kernels)


def _verb(scene: Scene) -> str:
    return "switch" if scene.move.kind == MoveKind.switch else "deflate"


def _busy_question(busy: list[KernelPlan], scene: Scene) -> Question:
    return Question(
        kind="busy",
        text=f"A cell is running in {_names(busy)}. Wait for it to end, interrupt it, "
        f"or cancel the {_verb(scene)}?",
        items=[k.title or k.kernel_id for k in busy],
        choices=["wait", "interrupt", "cancel"],
    )


def _loss_question(losses: list[str], scene: Scene) -> Question:
    return Question(
        kind="loss",
        text=f"This would not survive the {_verb(scene)}; everything else does. Go on?",
        items=losses,
        choices=["accept", "cancel"],
    )
