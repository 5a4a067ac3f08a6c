"""Cells that run or wait are seen, waited for, interrupted, and never lost."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import psutil
import pytest
from devcluster.core.errors import Busy

from .conftest import V1, Open, Server

#: A cell that says that it runs, and ends when the test makes a file.
WAIT = """
import pathlib, time
print('running', flush=True)
while not pathlib.Path({path!r}).exists():
    time.sleep(0.01)
"""


async def start_waiting(tab: Any, path: Any) -> str:
    msg_id: str = await tab.execute(WAIT.format(path=str(path)))
    await tab.output(msg_id, "running")
    return msg_id


async def test_b16_a_running_cell_refuses_the_capture_and_is_awaited(
    source: Server, tab: Open, place: dict[str, str], tmp_path: Any
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    cell = await start_waiting(one, tmp_path / "go")
    with pytest.raises(Busy, match="1 of the kernels") as refused:
        await source.control("POST", "capture", place)
    assert refused.value.details["kernels"] == [session["kernel"]["id"]]
    (plan,) = (await source.control("POST", "plan"))["kernels"]
    assert (plan["busy"], plan["variables"]) == (True, [])
    assert await source.control("GET", "idle") is False
    assert await source.control("GET", "idle?wait=0.05") is False
    waiting = asyncio.create_task(source.control("GET", "idle?wait=30"))
    (tmp_path / "go").touch()
    assert await waiting is True
    assert (await one.reply(cell))["status"] == "ok"
    await source.control("POST", "capture", place)


@pytest.mark.parametrize("protocols", [(V1,), ()], ids=["v1", "legacy"])
async def test_b16_queued_cells_are_seen_and_run_before_the_capture(
    source: Server,
    target: Server,
    tab: Open,
    place: dict[str, str],
    tmp_path: Any,
    protocols: tuple[str, ...],
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"], protocols=protocols)
    await one.run("done = []")
    await start_waiting(one, tmp_path / "go")
    queued = [await one.execute(f"done.append({number})") for number in range(5)]
    waiting = asyncio.create_task(source.control("GET", "idle?wait=30"))
    await one.socket.close()  # the queue is not the browser's
    (tmp_path / "go").touch()
    assert await waiting is True
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    two = await tab(target, session["kernel"]["id"])
    assert await two.value("done") == repr(list(range(len(queued))))


async def test_b16_a_cell_that_the_kernel_has_not_even_read_refuses_the_capture(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    """Between the browser's message and the kernel's "busy" nothing but our record tells."""
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("n = 0")
    kernel = int(await one.value("__import__('os').getpid()"))
    os.kill(kernel, signal.SIGSTOP)
    try:
        cell = await one.execute("n += 1")
        await one.arrived()
        with pytest.raises(Busy):
            await source.control("POST", "capture", place)
    finally:
        os.kill(kernel, signal.SIGCONT)
    assert (await one.reply(cell))["status"] == "ok"
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    assert await (await tab(target, session["kernel"]["id"])).value("n") == "1"


async def test_b16_cells_that_are_dropped_after_an_error_leave_nobody_busy(
    source: Server, tab: Open, place: dict[str, str], tmp_path: Any
) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await start_waiting(one, tmp_path / "go")
    failing = await one.execute("1 / 0")
    dropped = [await one.execute("x = 1") for _ in range(3)]
    (tmp_path / "go").touch()
    assert (await one.reply(failing))["status"] == "error"
    for each in dropped:
        assert (await one.reply(each))["status"] == "aborted"
    assert await source.control("GET", "idle?wait=30") is True
    await source.control("POST", "capture", place)


async def test_b16_interrupt_ends_running_and_queued_cells_with_replies(
    source: Server, tab: Open, tmp_path: Any
) -> None:
    one = await tab(source, source.new_notebook("a.ipynb")["kernel"]["id"])
    quiet = await tab(source, source.new_notebook("b.ipynb")["kernel"]["id"])
    await quiet.run("x = 1")
    running = await start_waiting(one, tmp_path / "never")
    queued = await one.execute("x = 1")
    await source.control("POST", "interrupt")
    reply = await one.reply(running)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert (await one.reply(queued))["status"] == "aborted"
    assert await source.control("GET", "idle?wait=30") is True
    assert await quiet.value("x") == "1"


async def test_b16_a_pending_input_is_cancelled_with_a_reply(source: Server, tab: Open) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    asking = await one.execute("answer = input('name? ')", allow_stdin=True)
    await one.until(lambda m: m["msg_type"] == "input_request")
    assert await source.control("GET", "idle?wait=0") is False
    await source.control("POST", "interrupt")
    assert (await one.reply(asking))["ename"] == "KeyboardInterrupt"
    assert await source.control("GET", "idle?wait=30") is True


async def test_comm_messages_during_an_asynchronous_cell_leave_nobody_busy(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    """ipykernel 7 handles them at once and says nothing, neither busy nor idle."""
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await one.run(
        "import asyncio\n"
        "heard = asyncio.Event()\n"
        "def opened(comm, message):\n"
        "    heard.set()\n"
        "get_ipython().kernel.comm_manager.register_target('ours', opened)"
    )
    cell = await one.execute("print('running', flush=True)\nawait heard.wait()")
    await one.output(cell, "running")
    await one.send("comm_open", {"comm_id": "c", "target_name": "ours", "data": {}})
    assert (await one.reply(cell))["status"] == "ok"
    assert await source.control("GET", "idle?wait=10") is True
    await one.run("del heard, opened, asyncio")
    await source.control("POST", "capture", place)


async def test_a_restart_forgets_what_was_queued(source: Server, tab: Open, tmp_path: Any) -> None:
    kernel = source.new_notebook()["kernel"]["id"]
    one = await tab(source, kernel)
    await start_waiting(one, tmp_path / "never")
    await one.execute("x = 1")
    await asyncio.to_thread(source.api, "POST", f"kernels/{kernel}/restart")
    assert await source.control("GET", "idle?wait=30") is True
    two = await tab(source, kernel)
    await two.run("y = 2")
    (plan,) = (await source.control("POST", "plan"))["kernels"]
    assert "y" in [variable["name"] for variable in plan["variables"]]


async def test_requests_of_a_control_channel_make_nobody_busy(source: Server, tab: Open) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await one.send("kernel_info_request", {}, channel="control")
    await one.until(lambda m: m["channel"] == "control")
    assert await source.control("GET", "idle?wait=10") is True


async def test_a_kernel_that_dies_after_its_capture_stays_dead_until_resume(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    kernel = source.new_notebook()["kernel"]["id"]
    one = await tab(source, kernel)
    await one.run("x = 1")
    pid = int(await one.value("__import__('os').getpid()"))
    await source.control("POST", "capture", place)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TimeoutError):
        # jupyter-server looks every 3 seconds; a restart would say so here.
        async with asyncio.timeout(4):
            await one.until(lambda m: m["content"].get("execution_state") == "restarting")
    await source.control("POST", "resume")
    await one.until(lambda m: m["content"].get("execution_state") == "restarting")


async def test_a_kernel_that_dies_during_its_save_fails_the_capture(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await one.run(
        "import os, signal\n"
        "class Deadly:\n"
        "    def __reduce__(self):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "d = Deadly()"
    )
    with pytest.raises(Exception, match="process has ended"):
        await source.control("POST", "capture", place)
    await one.until(lambda m: m["content"].get("execution_state") == "restarting")


async def test_kernels_of_a_killed_server_end_by_themselves(tmp_path: Any, tab: Open) -> None:
    server = Server(tmp_path / "three", "three")
    try:
        server.wait_up()
        one = await tab(server, server.new_notebook()["kernel"]["id"])
        kernel = psutil.Process(int(await one.value("__import__('os').getpid()")))
        server.process.kill()
        await asyncio.to_thread(kernel.wait, 20)
    finally:
        server.process.kill()
        server.process.wait()


async def test_b16_output_for_a_browser_that_was_away_is_played_on_the_target(
    source: Server, target: Server, tab: Open, place: dict[str, str], tmp_path: Any
) -> None:
    session = source.new_notebook()
    kernel = session["kernel"]["id"]
    one = await tab(source, kernel)
    await one.run("import sys")
    cell = await start_waiting(one, tmp_path / "go")
    await one.socket.close()
    (tmp_path / "go").touch()
    assert await source.control("GET", "idle?wait=30") is True
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    two = await tab(target, kernel, session=one.session)
    assert (await two.reply(cell))["status"] == "ok"
    parents = {m["parent_header"].get("session", one.session) for m in two.messages}
    assert parents <= {one.session}


async def test_b16_all_output_has_left_before_the_capture_answers(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    cell = await one.execute("for i in range(300): print(f'line {i:04}', flush=True)")
    await source.control("GET", "idle?wait=30")
    await source.control("POST", "capture", place)
    source.process.send_signal(signal.SIGSTOP)  # what is not in the socket now is lost
    try:
        await one.reply(cell)
        await one.until(
            lambda m: (
                m["parent_header"].get("msg_id") == cell
                and m["content"].get("execution_state") == "idle"
            )
        )
    finally:
        source.process.send_signal(signal.SIGCONT)
    text = "".join(m["content"]["text"] for m in one.messages if m["msg_type"] == "stream")
    assert text.splitlines() == [f"line {i:04}" for i in range(300)]
