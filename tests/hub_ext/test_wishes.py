"""Wishes that meet, questions, queues, and hosts that fall silent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from devcluster.core.errors import BadRequest, Busy, Conflict, StepFailed
from devcluster.core.lifecycle import State
from devcluster.core.records import AnswerRequest, LeasePhase, RouteMode
from devcluster.hub_ext.fakes import FakeHost

from tests.hub_ext.rig import Rig, gpus, move, until_step


def answer(rig: Rig, choice: str) -> None:
    rig.wishes.answer("alice/default", AnswerRequest(move=move(rig).id, choice=choice), "alice")


# --- wishes that meet -------------------------------------------------------------------


async def test_two_switches_at_once_make_one(rig: Rig) -> None:
    await rig.running()
    first = rig.switch()
    with pytest.raises(Conflict, match=r"busy with a switch to 1xA100.*cancelling"):
        rig.switch(flavor="1xV100")
    await rig.settle(5)
    assert (move(rig).id, move(rig).status) == (first, "done")
    rig.check_whole()


@pytest.mark.parametrize("step", ["prepare", "check", "park", "capture", "restore", "commit"])
async def test_b02_a_stop_during_a_switch(rig: Rig, step: str) -> None:
    await rig.running()
    rig.reached.clear()
    switch = rig.switch()
    await until_step(rig, step)
    rig.stop()
    rig.stop()
    await rig.settle(5)
    rig.check()
    assert rig.view().state == State.stopped
    with rig.store.transaction() as tx:
        found = tx.move(switch)
        assert found is not None
        assert found.status == ("done" if step == "commit" else "cancelled")
        assert tx.leases() == []
    rig.start()
    await rig.settle(5)
    assert rig.home("alice")["f"] == "alice kept"


async def test_b02_a_start_during_a_stop_comes_after_it(rig: Rig) -> None:
    await rig.running()
    rig.world.hosts["cpu-1"].faults["remove"] = [(True, StepFailed("will not die"))] * 3
    rig.stop()
    await rig.settle(0.2)
    assert rig.view().state == State.stopping, "a stop is over only when its host says so"
    with pytest.raises(Conflict):
        rig.switch()
    rig.start()
    await rig.settle(20)
    assert rig.view().state == State.running
    rig.check()
    assert rig.home("alice")["f"] == "alice kept"


async def test_b02_a_stop_whose_processes_are_gone_already(rig: Rig) -> None:
    await rig.running()
    rig.world.hosts["cpu-1"].leases.clear()
    rig.stop()
    await rig.settle(5)
    assert rig.view().state == State.stopped


async def test_a_stop_of_what_never_ran_or_is_deflated(rig: Rig) -> None:
    await rig.running()
    rig.deflate()
    await rig.settle(5)
    rig.stop()
    await rig.settle(5)
    rig.check()
    assert rig.view().state == State.stopped
    assert not rig.world.captures()


async def test_deflate_during_a_switch_comes_after_it(rig: Rig) -> None:
    await rig.running()
    switch = rig.switch()
    deflate = rig.deflate()
    assert deflate != switch
    assert move(rig).id == switch, "people see the move that is under way"
    await rig.settle(5)
    assert (move(rig).id, rig.view().state) == (deflate, State.deflated)
    rig.inflate(flavor="cpu")
    await rig.settle(5)
    rig.check_whole()


async def test_inflate_of_what_never_ran_names_its_state(rig: Rig) -> None:
    with rig.store.transaction() as tx:
        tx.create("alice/default")
    with pytest.raises(Conflict, match="is created; only a deflated workspace is inflated"):
        rig.inflate()


@pytest.mark.parametrize("step", ["prepare", "check", "park", "capture", "send", "restore"])
async def test_b10_cancel_at_each_step(rig: Rig, step: str) -> None:
    await rig.running()
    before = rig.view()
    rig.reached.clear()
    rig.switch()
    await until_step(rig, step)
    rig.wishes.cancel("alice/default", "alice")
    await rig.settle(5)
    assert (move(rig).status, move(rig).reason) == ("cancelled", "Cancelled by alice.")
    assert rig.view().host == before.host
    rig.check_whole()
    with rig.store.transaction() as tx:
        assert len(tx.leases()) == 1
    assert not rig.world.captures()


async def test_b10_what_is_committed_only_goes_on(rig: Rig) -> None:
    await rig.running()
    rig.net_switch.faults[RouteMode.open] = [(True, StepFailed("no"))] * 2
    rig.switch()
    await rig.settle(0.2)
    with pytest.raises(Conflict, match="only goes on"):
        rig.wishes.cancel("alice/default", "alice")
    await rig.settle(10)
    rig.check_whole()
    assert rig.view().host == "a100-1"


async def test_b10_the_target_fails_and_another_host_is_tried(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path,
        [FakeHost("c", []), FakeHost("a", gpus("A100", 1)), FakeHost("b", gpus("A100", 1))],
    )
    rig.world.hosts["b"].gpus = [g.model_copy(update={"uuid": "other"}) for g in gpus("A100", 1)]
    rig.heartbeat()
    await rig.running()
    rig.world.hosts["a"].down = True
    rig.switch()
    await rig.settle(10, beats=False)
    assert rig.view().host == "b"
    rig.world.hosts["a"].down = False
    rig.heartbeat()
    await rig.settle(15)
    rig.check_whole()
    await rig.close()


# --- questions --------------------------------------------------------------------------


async def test_a_running_cell_is_asked_about(rig: Rig) -> None:
    await rig.running()
    rig.world.busy["alice/default"] = ["a.ipynb"]
    rig.switch()
    await rig.settle(1)
    question = move(rig).question
    assert question is not None
    assert (question.kind, set(question.choices)) == ("busy", {"wait", "interrupt", "cancel"})
    with pytest.raises(BadRequest, match="Allowed: wait, interrupt, cancel"):
        answer(rig, "perhaps")
    with pytest.raises(Conflict):
        rig.wishes.answer("alice/default", AnswerRequest(move="other", choice="wait"), "alice")
    answer(rig, "wait")
    await rig.settle(1)
    assert move(rig).status == "running"
    assert rig.view().host == "cpu-1"
    rig.world.set_idle("alice/default")
    await rig.settle(1)
    assert rig.view().host == "a100-1"
    rig.check_whole()


async def test_waiting_for_a_cell_can_be_cancelled(rig: Rig) -> None:
    await rig.running()
    rig.world.busy["alice/default"] = ["a.ipynb"]
    rig.switch(on_busy="wait")
    await rig.settle(1)
    assert "a.ipynb" in move(rig).steps[-1].note
    rig.wishes.cancel("alice/default", "alice")
    await rig.settle(1)
    assert move(rig).status == "cancelled"
    rig.check_whole()


@pytest.mark.parametrize(
    ("step", "call"), [("prepare", "ensure"), ("send", "fetch"), ("restore", "restore")]
)
async def test_b10_cancel_while_the_target_hangs(rig: Rig, step: str, call: str) -> None:
    await rig.running()
    rig.reached.clear()
    target = rig.world.hosts["a100-1"]
    rig.switch()
    if call == "fetch":  # the pre-copy of the home goes well
        await until_step(rig, "check")
    target.hangs.add(call)
    await until_step(rig, step)
    while target.calls[-1:] != [call]:
        await asyncio.sleep(0)
    rig.wishes.cancel("alice/default", "alice")
    await rig.settle(5)
    assert (move(rig).status, move(rig).reason) == ("cancelled", "Cancelled by alice.")
    target.hangs.clear()
    rig.check_whole()


@pytest.mark.parametrize("obeys", [True, False])
async def test_interrupting_a_cell(rig: Rig, obeys: bool) -> None:
    await rig.running()
    rig.world.busy["alice/default"] = ["a.ipynb"]
    rig.world.interruptible = obeys
    rig.switch(on_busy="interrupt")
    await rig.settle(2)
    assert move(rig).status == ("done" if obeys else "failed")
    assert obeys or "did not end when it was interrupted" in move(rig).reason
    rig.check_whole()


async def test_losses_are_asked_about_after_busy_and_only_once(rig: Rig) -> None:
    await rig.running()
    rig.world.losses["alice/default"] = ["g: a generator cannot be carried."]
    rig.switch()
    await rig.settle(1)
    question = move(rig).question
    assert question is not None
    assert (question.kind, question.items) == ("loss", ["r: g: a generator cannot be carried."])
    answer(rig, "accept")
    await rig.settle(1)
    assert move(rig).status == "done"
    rig.check_whole()


async def test_a_cancelled_or_unanswered_question_leaves_all_as_it_was(rig: Rig) -> None:
    await rig.running()
    rig.world.losses["alice/default"] = ["lost"]
    rig.switch()
    await rig.settle(1)
    answer(rig, "cancel")
    await rig.settle(1)
    assert move(rig).status == "cancelled"
    rig.switch()
    await rig.settle(1)
    await rig.settle(601, beats=False)
    assert (move(rig).status, move(rig).reason) == (
        "cancelled",
        "Nobody answered the question in time.",
    )
    rig.heartbeat()
    rig.check_whole()


@pytest.mark.parametrize("before", [True, False])
async def test_a_cell_that_slips_in_sends_the_move_back_to_check(rig: Rig, before: bool) -> None:
    await rig.running()
    rig.world.hosts["cpu-1"].faults["capture"] = [(before, Busy("a cell"))] * 2
    rig.net_switch.faults[RouteMode.parked] = [(True, Busy("a request"))]
    rig.switch()
    await rig.settle(5)
    assert move(rig).status == "done"
    assert [s.step for s in move(rig).steps].count("capture") == 1
    rig.check_whole()


async def test_the_rounds_are_bounded(rig: Rig) -> None:
    await rig.running()
    rig.world.hosts["cpu-1"].faults["capture"] = [(True, Busy("a cell"))] * 50
    rig.switch()
    await rig.settle(5)
    assert move(rig).status == "failed"
    assert "busy again" in move(rig).reason
    rig.check_whole()


# --- queues ------------------------------------------------------------------------------


async def test_a_taken_gpu_queues_and_its_release_begins_the_move(rig: Rig) -> None:
    await rig.running("bob", "2xA100")
    await rig.running("alice", "cpu")
    await rig.running("carol", "cpu")
    rig.switch("alice", "1xA100")
    rig.switch("carol", "1xA100")
    await rig.settle(1)
    assert (move(rig).status, move(rig).place) == ("queued", 1)
    assert move(rig).reason == "waits for 1 × A100: both are taken"
    assert move(rig, "carol").place == 2
    assert rig.view().state == State.running
    rig.deflate("bob")
    await rig.settle(1, beats=False)
    assert {rig.view(u).host for u in ("alice", "carol")} == {"a100-1"}
    rig.check_whole("alice")
    rig.check_whole("carol")


async def test_a_queued_switch_is_replaced_or_cancelled(rig: Rig) -> None:
    await rig.running("bob", "2xA100")
    await rig.running()
    rig.switch(flavor="1xA100")
    newer = rig.switch(flavor="1xV100")
    await rig.settle(1)
    assert (move(rig).id, move(rig).status) == (newer, "done")
    rig.switch(flavor="2xA100")
    rig.wishes.cancel("alice/default", "alice")
    assert move(rig).status == "cancelled"
    with pytest.raises(Conflict):
        rig.wishes.cancel("alice/default", "alice")
    rig.check_whole()


async def test_b32_many_requests_at_once_get_no_more_than_there_is(rig: Rig) -> None:
    users = [f"u{i}" for i in range(12)]
    for user in users:
        rig.start(user, "1xA100")
    await rig.settle(2)
    states = [rig.view(u).state for u in users]
    assert states.count(State.running) == 2
    assert states.count(State.starting) == 10
    rig.check()


async def test_b33_a_full_cluster_lets_its_user_change_shape(rig: Rig) -> None:
    await rig.running(flavor="1xA100")
    rig.switch(flavor="2xA100")
    await rig.settle(2)
    assert len(rig.view().gpus) == 2
    rig.check_whole()
    rig.switch(flavor="1xA100")
    await rig.settle(2)
    assert len(rig.view().gpus) == 1
    rig.check_whole()


async def test_b33_what_can_never_be_and_circles_are_refused_at_once(rig: Rig) -> None:
    await rig.running("alice", "2xA100")
    with pytest.raises(Conflict, match="largest is a100-1 with 2"):
        rig.switch(flavor="8xA100")
    await rig.running("bob", "1xV100")
    await rig.running("carol", "1xV100")
    rig.switch("bob", "1xA100")
    with pytest.raises(Conflict, match="wait for each other"):
        rig.switch("alice", "1xV100")
    assert rig.view().state == State.running


# --- hosts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silence", "freshness"),
    [(5, "fresh"), (12, "fresh"), (30, "suspect"), (90, "lost"), (600, "lost")],
)
async def test_b35_silence_never_means_stopped(rig: Rig, silence: int, freshness: str) -> None:
    await rig.running()
    route = rig.net_switch.routes["alice/default"]
    rig.world.hosts["cpu-1"].down = True
    rig.clock.now += silence
    rig.heartbeat()
    assert rig.book.freshness("cpu-1") == freshness
    rig.start("bob")
    await rig.settle(1)
    assert (rig.view("bob").host == "cpu-1") is False or freshness == "fresh"
    assert rig.view().state == State.running
    assert rig.net_switch.routes["alice/default"] == route
    rig.world.hosts["cpu-1"].down = False
    rig.heartbeat()
    await rig.settle(20)
    rig.check_whole()


async def test_b34_old_reports_are_ignored(rig: Rig) -> None:
    await rig.running()
    host = rig.world.hosts["cpu-1"]
    kept = dict(host.leases)
    host.leases.clear()
    stale = host.report()
    host.leases.update(kept)
    rig.heartbeat()
    for _ in range(5):  # delayed and doubled
        rig.heartbeats.receive(stale)
    host.boot = "cpu-1-boot-2"
    rig.heartbeat()
    for sequence in range(100, 105):  # from before the restart of its agent
        rig.heartbeats.receive(stale.model_copy(update={"sequence": sequence}))
    await rig.settle(1)
    rig.check_whole()


async def test_b34_what_a_host_does_not_have_is_believed_the_second_time(rig: Rig) -> None:
    await rig.running()
    rig.world.hosts["cpu-1"].leases.clear()
    rig.heartbeat()
    assert rig.view().state == State.running
    rig.heartbeat()
    await rig.settle(1)
    view = rig.view()
    assert (view.state, view.gpus) == (State.failed, [])
    assert "cpu-1 does not have" in view.reason
    assert rig.net_switch.routes["alice/default"].mode == "closed"
    rig.check()
    rig.start()
    await rig.settle(2)
    assert rig.home("alice")["f"] == "alice kept"


async def test_a_server_that_ended_fails_its_workspace(rig: Rig) -> None:
    await rig.running()
    [lease] = rig.world.hosts["cpu-1"].leases.values()
    lease.phase, lease.reason = LeasePhase.exited, "out of memory"
    rig.net_switch.down = True
    rig.heartbeat()
    await rig.settle(1)
    assert (rig.view().state, rig.view().reason) == (State.failed, "out of memory")
    rig.net_switch.down = False
    await rig.settle(15)
    assert rig.net_switch.routes["alice/default"].mode == "closed"
    rig.check()


async def test_b34_leases_that_nobody_knows_are_removed_with_care(rig: Rig) -> None:
    await rig.running()
    host = rig.world.hosts["v100-1"]
    [known] = rig.world.alive("alice/default").values()
    report = host.report()
    [entry] = rig.world.hosts["cpu-1"].report().leases
    old = entry.model_copy(update={"lease": "old", "epoch": known.epoch})
    newer = entry.model_copy(update={"lease": "newer", "epoch": known.epoch + 1})
    foreign = entry.model_copy(update={"lease": "foreign", "workspace": "zoe/default"})
    reply = rig.heartbeats.receive(report.model_copy(update={"leases": [old, newer, foreign]}))
    assert reply.remove == ["old"], "what this database may have forgotten is left alone"


async def test_b07_a_host_that_returns_with_an_old_owner_is_told(rig: Rig) -> None:
    await rig.running()
    host = rig.world.hosts["cpu-1"]
    host.faults["remove"] = [(True, StepFailed("cut"))] * 99
    rig.switch()
    await rig.settle(2)
    assert move(rig).status == "done"
    assert "not free yet" in move(rig).reason
    [old] = host.leases
    assert rig.heartbeat() == [old]
    host.faults.clear()
    await rig.settle(15)
    rig.check_whole()
    with rig.store.transaction() as tx:
        assert len(tx.leases()) == 1


async def test_a_workspace_that_is_frozen_for_no_reason_is_thawed(rig: Rig) -> None:
    await rig.running()
    [lease] = rig.world.hosts["cpu-1"].leases.values()
    lease.phase = LeasePhase.frozen
    rig.heartbeat()
    await rig.settle(1)
    rig.check_whole()


async def test_a_deflated_workspace_waits_for_the_host_of_its_capture(rig: Rig) -> None:
    await rig.running()
    rig.deflate()
    await rig.settle(2)
    rig.world.hosts["cpu-1"].down = True
    await rig.settle(90)
    rig.inflate(flavor="1xA100")
    await rig.settle(1)
    assert rig.view().state == State.inflating
    assert "cpu-1, which holds its home" in move(rig).reason
    rig.world.hosts["cpu-1"].down = False
    await rig.settle(10)
    assert rig.view().host == "a100-1"
    rig.check_whole()


async def test_the_source_dies_for_certain_in_the_middle(rig: Rig) -> None:
    await rig.running()
    host = rig.world.hosts["cpu-1"]

    def reach(point: str) -> None:
        if point == "manager.send.recorded":
            for lease in host.leases.values():
                lease.phase = LeasePhase.exited
            raise StepFailed("planted")

    rig.parts.reach = reach
    rig.switch()
    await rig.settle(5)
    assert rig.view().state == State.failed
    assert "have ended" in move(rig).reason
    rig.check()
