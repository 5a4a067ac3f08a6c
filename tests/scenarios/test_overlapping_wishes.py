"""Wishes that meet: two switches, a stop during a switch, a switch during a stop, and so on."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from devcluster.core.errors import Conflict, DevClusterError

from tests.support.person import Notebook, Person
from tests.support.work import at_work, check_whole, other
from tests.support.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]


async def test_two_switches_at_once_make_one(world: World, alice: Person) -> None:
    notebook = await at_work(alice)
    target = other((await alice.view()).flavor)
    answers = await asyncio.gather(
        *(alice.switch(target) for _ in range(5)), return_exceptions=True
    )
    moves = [a for a in answers if not isinstance(a, BaseException)]
    refused = [a for a in answers if isinstance(a, BaseException)]
    assert len({move.id for move in moves}) == 1
    assert all(isinstance(error, Conflict) for error in refused), refused
    end = await alice.moved(moves[0])
    assert end.move is not None
    assert end.move.status == "done", end.move.reason
    await check_whole(alice, notebook)
    await notebook.close()


@pytest.mark.parametrize("step", ["prepare", "park", "commit"])
async def test_b02_a_stop_during_a_switch(world: World, alice: Person, step: str) -> None:
    notebook = await at_work(alice)
    await notebook.close()
    move = await alice.switch(other((await alice.view()).flavor))
    await alice.until(
        lambda v: any(s.step == step for s in v.move.steps) or v.move.status != "running",
        f"the step {step}",
    )
    await alice.hub_stop()
    view = await alice.until(lambda v: v.state == "stopped", "the stop")
    assert view.gpus == []
    assert "alice/default" not in world.servers()
    await alice.spawn("cpu")
    again = await alice.open_notebook("after.ipynb")
    assert await again.value("open('notes.txt').read()") == "kept", f"the home of {move.id}"
    await again.close()


async def test_b02_a_switch_during_a_stop_is_refused(world: World, alice: Person) -> None:
    notebook = await at_work(alice)
    await notebook.close()
    target = other((await alice.view()).flavor)
    stop = asyncio.create_task(alice.hub_stop())
    await alice.until(lambda v: v.state in ("stopping", "stopped"), "the stop to begin")
    with pytest.raises(DevClusterError):
        await alice.switch(target)
    await stop
    await alice.until(lambda v: v.state == "stopped", "the stop")


async def test_b02_a_start_right_after_a_stop(world: World, alice: Person) -> None:
    await at_work(alice)
    await alice.hub_stop()
    await alice.spawn("cpu")
    notebook = await alice.open_notebook("again.ipynb")
    assert await notebook.value("open('notes.txt').read()") == "kept"
    await notebook.close()


async def test_deflate_during_a_switch_comes_after_it(world: World, alice: Person) -> None:
    notebook = await at_work(alice)
    move = await alice.switch(other((await alice.view()).flavor))
    await alice.until(lambda v: bool(v.move.steps), "the switch to begin")
    await alice.deflate()
    view = await alice.until(lambda v: v.state == "deflated", "the deflation")
    assert view.move is not None
    assert view.move.id != move.id
    assert view.gpus == []
    assert "alice/default" not in world.servers()
    end = await alice.moved(await alice.inflate("cpu"))
    assert end.state == "running", end.reason
    await check_whole(alice, notebook)  # the very socket of before
    await notebook.close()


async def test_b10_cancel_at_each_step_leaves_the_session_usable(
    world: World, alice: Person
) -> None:
    notebook = await at_work(alice)
    for step in ("prepare", "check", "park", "send"):
        before = await alice.view()
        move = await alice.switch(other(before.flavor))
        await alice.until(
            lambda v, step=step: (
                any(s.step == step for s in v.move.steps) or v.move.status != "running"
            ),
            f"the step {step}",
        )
        with contextlib.suppress(Conflict):  # it may be past the point of no return
            await alice.cancel()
        end = await alice.moved(move)
        assert end.move is not None
        assert end.move.status in ("cancelled", "done"), end.move
        assert (end.host == before.host) == (end.move.status == "cancelled")
        await check_whole(alice, notebook)
    await notebook.close()


class TestARunningCell:
    """A cell that runs when the switch is asked: wait, interrupt, cancel; never a ``[*]``."""

    @staticmethod
    async def _busy(notebook: Notebook) -> asyncio.Future:  # type: ignore[type-arg]
        cell = await notebook.send(
            "import time, os\n"
            "while not os.path.exists('go'): time.sleep(0.02)\n"
            "done_on = os.environ['DEVCLUSTER_HOST']"
        )
        await notebook.person.until(lambda v: True, "a view")
        while not any(
            k["execution_state"] == "busy" for k in await notebook.person.api("GET", "api/kernels")
        ):
            await asyncio.sleep(0.02)
        return cell

    async def _asked(self, alice: Person) -> tuple[Notebook, asyncio.Future, object, object]:  # type: ignore[type-arg]
        notebook = await at_work(alice)
        await notebook.run("import os; os.path.exists('go') and os.remove('go')")
        before = await alice.view()
        cell = await self._busy(notebook)
        move = await alice.switch(other(before.flavor), on_busy="ask")
        view = await alice.until(
            lambda v: v.move.id == move.id and v.move.status == "asking", "the question"
        )
        assert view.move is not None
        assert view.move.question is not None
        assert view.move.question.kind == "busy"
        assert set(view.move.question.choices) == {"wait", "interrupt", "cancel"}
        return notebook, cell, move, before

    async def test_wait_for_it(self, world: World, alice: Person) -> None:
        notebook, cell, move, before = await self._asked(alice)
        await alice.answer(move, "wait")  # type: ignore[arg-type]
        await alice.api("PUT", "api/contents/go", type="file", format="text", content="")
        result = await asyncio.wait_for(cell, 30)
        assert result.status == "ok"
        end = await alice.moved(move)  # type: ignore[arg-type]
        assert end.move is not None
        assert end.move.status == "done", end.move.reason
        assert await notebook.value("done_on") == before.host  # type: ignore[attr-defined]
        await check_whole(alice, notebook)
        await notebook.close()

    async def test_interrupt_it(self, world: World, alice: Person) -> None:
        notebook, cell, move, _ = await self._asked(alice)
        await alice.answer(move, "interrupt")  # type: ignore[arg-type]
        result = await asyncio.wait_for(cell, 30)
        assert result.status == "error"
        assert "KeyboardInterrupt" in result.error
        end = await alice.moved(move)  # type: ignore[arg-type]
        assert end.move is not None
        assert end.move.status == "done", end.move.reason
        await check_whole(alice, notebook)
        await notebook.close()

    async def test_cancel_the_switch(self, world: World, alice: Person) -> None:
        notebook, cell, move, before = await self._asked(alice)
        await alice.answer(move, "cancel")  # type: ignore[arg-type]
        end = await alice.moved(move)  # type: ignore[arg-type]
        assert end.move is not None
        assert end.move.status == "cancelled"
        assert not cell.done()
        await alice.api("PUT", "api/contents/go", type="file", format="text", content="")
        result = await asyncio.wait_for(cell, 30)
        assert result.status == "ok"
        assert await check_whole(alice, notebook) == before.host  # type: ignore[attr-defined]
        await notebook.close()
