"""Every step of every move, broken in every way: it ends on one side, whole, and nothing leaks."""

from __future__ import annotations

import pytest
from devcluster.core.errors import StepFailed, Unavailable
from devcluster.core.lifecycle import STEPS, MoveKind, State, Step

from tests.hub_ext.rig import Rig

#: The port that each step of a switch acts through, and on which host.
CALLS = {
    Step.prepare: [("a100-1", "fetch"), ("a100-1", "ensure"), ("cpu-1", "plan")],
    Step.check: [("cpu-1", "plan")],
    Step.capture: [("cpu-1", "capture")],
    Step.send: [("a100-1", "fetch")],
    Step.restore: [("a100-1", "restore")],
    Step.release: [("cpu-1", "remove"), ("cpu-1", "drop_capture")],
}

MANAGER = [
    (kind, step, when)
    for kind in MoveKind
    for step in STEPS[kind]
    for when in ("recorded", "acted")
]


async def begin(rig: Rig, kind: MoveKind) -> None:
    """Bring the workspace to where a kind of move begins, and ask for it."""
    if kind is MoveKind.start:
        rig.start()
        return
    await rig.running()
    if kind is MoveKind.switch:
        rig.switch()
    elif kind is MoveKind.deflate:
        rig.deflate()
    elif kind is MoveKind.stop:
        rig.stop()
    else:
        rig.deflate()
        await rig.settle(5)
        assert rig.view().state == State.deflated
        rig.reached.clear()
        rig.inflate(flavor="1xA100")


ENDS = {
    MoveKind.start: State.running,
    MoveKind.switch: State.running,
    MoveKind.deflate: State.deflated,
    MoveKind.inflate: State.running,
    MoveKind.stop: State.stopped,
}


async def check_end(rig: Rig, kind: MoveKind) -> str:
    """Assert that all is whole; return how the move ended."""
    await rig.settle(12)
    rig.check()
    view = rig.view()
    assert view.move is not None
    status = view.move.status
    if status == "failed":
        assert view.move.reason
    if kind is MoveKind.start:
        assert view.state == (State.running if status == "done" else State.failed)
    elif status == "done":
        assert view.state == ENDS[kind]
    else:
        assert view.state == (State.deflated if kind is MoveKind.inflate else State.running)
    if view.state == State.deflated:  # nothing is lost: it comes back
        rig.inflate(flavor="cpu")
        await rig.settle(12)
        view = rig.view()
        assert view.state == State.running
    if view.state == State.running and kind is not MoveKind.start:
        rig.check_whole()
        assert not rig.world.captures(), "a capture leaked"
    with rig.store.transaction() as tx:
        assert len(tx.leases()) == (1 if view.state == State.running else 0), "a lease leaked"
    assert not rig.frozen()
    return status


@pytest.mark.parametrize("kind", list(MoveKind))
async def test_without_a_fault_every_move_is_done(rig: Rig, kind: MoveKind) -> None:
    await begin(rig, kind)
    assert await check_end(rig, kind) == "done"


@pytest.mark.parametrize(("kind", "step", "when"), MANAGER)
async def test_the_manager_is_killed_at_a_step(
    rig: Rig, kind: MoveKind, step: Step, when: str
) -> None:
    if kind is MoveKind.start or kind is MoveKind.inflate:
        await begin(rig, kind)
        rig.crash_at = f"manager.{step}.{when}"
    else:
        await rig.running()
        rig.crash_at = f"manager.{step}.{when}"
        {MoveKind.switch: rig.switch, MoveKind.deflate: rig.deflate, MoveKind.stop: rig.stop}[
            kind
        ]()
    assert await check_end(rig, kind) == "done"
    assert rig.crash_at == "", "the fault point was not reached"


@pytest.mark.parametrize(("kind", "step", "when"), MANAGER)
async def test_a_step_raises_before_and_after_its_act(
    rig: Rig, kind: MoveKind, step: Step, when: str
) -> None:
    point = f"manager.{step}.{when}"
    if kind in (MoveKind.start, MoveKind.inflate):
        await begin(rig, kind)
        rig.raise_at[point] = StepFailed("planted")
    else:
        await rig.running()
        rig.raise_at[point] = StepFailed("planted")
        {MoveKind.switch: rig.switch, MoveKind.deflate: rig.deflate, MoveKind.stop: rig.stop}[
            kind
        ]()
    status = await check_end(rig, kind)
    assert not rig.raise_at
    committed = STEPS[kind].index(step) >= STEPS[kind].index(Step.commit)
    assert status == ("done" if committed else "failed")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("step", "host", "call"), [(s, h, c) for s, calls in CALLS.items() for h, c in calls]
)
@pytest.mark.parametrize("error", [StepFailed("it does not fit"), Unavailable("cut")])
async def test_an_agent_fails_at_a_step_of_a_switch(
    rig: Rig, step: Step, host: str, call: str, before: bool, error: Exception
) -> None:
    await rig.running()
    skip = 1 if (step, call) in ((Step.check, "plan"), (Step.send, "fetch")) else 0
    planted = rig.world.hosts[host].faults.setdefault(call, [])
    if skip:  # the call of an earlier step has the same name
        reach = rig.parts.reach

        def plant(point: str) -> None:
            reach(point)
            if point == f"manager.{step}.recorded":
                planted.append((before, error))
                rig.parts.reach = reach

        rig.parts.reach = plant
    else:
        planted.append((before, error))
    rig.switch()
    status = await check_end(rig, MoveKind.switch)
    assert not planted, "the fault was not met"
    fails = isinstance(error, StepFailed) and step is not Step.release
    assert status == ("failed" if fails else "done")


@pytest.mark.parametrize("host", ["cpu-1", "a100-1"])
@pytest.mark.parametrize(
    ("kind", "step"),
    [(k, s) for k in (MoveKind.switch, MoveKind.deflate, MoveKind.inflate) for s in STEPS[k]],
)
async def test_b07_an_agent_is_away_for_five_minutes(
    rig: Rig, kind: MoveKind, host: str, step: Step
) -> None:
    await begin(rig, kind)

    gone = rig.world.hosts[host]
    original = rig.parts.reach

    def reach(point: str) -> None:
        original(point)
        if point == f"manager.{step}.recorded":
            gone.down = True

    rig.parts.reach = reach
    await rig.settle(300, beats=False)
    rig.parts.reach = original
    view = rig.view()
    assert view.state != State.stopped
    assert view.state != State.failed, view.reason
    gone.down = False
    rig.heartbeat()
    status = await check_end(rig, kind)
    assert status in ("done", "failed")
