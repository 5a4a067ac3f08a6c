"""The spawner against a manager over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
from devcluster.core.errors import BadRequest, DevClusterError, Forbidden, Unavailable
from devcluster.core.lifecycle import MoveKind, State, Wish
from devcluster.hub_ext import client
from jupyterhub.spawner import SpawnException

from tests.spawner.conftest import Make
from tests.support.stub_manager import StubManager, move, step

EXITS = {State.created: 0, State.stopped: 0, State.failed: 1}


def begins(stub: StubManager, *then: dict[str, Any]) -> None:
    """Answer a start with "starting", then change the record, once for each question."""

    def start(_path: str, _body: Any) -> Any:
        first = stub.set(state=State.starting, wish=Wish.running, move=move("queued", place=1))
        threading.Thread(target=go_on, daemon=True).start()
        return first

    def go_on() -> None:
        for change in then:
            seen = len(stub.asked)
            with stub.changed:
                stub.changed.wait_for(lambda seen=seen: len(stub.asked) > seen or stub.over, 5)
            stub.set(**change)

    stub.on["POST", "start"] = start


# --- start -----------------------------------------------------------------------------


async def test_start_gives_the_net_switch_address_once_the_workspace_runs(
    make: Make, stub: StubManager
) -> None:
    begins(stub, {"move": move(steps=[step("prepare")])}, {"state": State.running})
    spawner = make()
    spawner.user_options = {"flavor": "1xA100"}
    assert await spawner.start() == "http://127.0.0.1:9"
    (asked,) = stub.calls("POST", "/api/workspaces/alice/default/start")
    assert asked["flavor"] == "1xA100"
    launch = asked["launch"]
    assert launch["command"][0] == "jupyterhub-singleuser"
    assert launch["prefix"] == "/user/alice/"
    assert launch["env"]["JUPYTERHUB_API_TOKEN"] == "hub-token"
    assert launch["env"]["DEVCLUSTER_URL"] == spawner.manager_url
    assert launch["env"]["DEVCLUSTER_PUBLIC_URL"] == "/services/devcluster"
    assert stub.tokens == {"token s3"}
    assert await spawner.get_url() == "http://127.0.0.1:9/user/alice/"


async def test_a_failed_start_tells_the_reason(make: Make, stub: StubManager) -> None:
    begins(stub, {"state": State.failed, "reason": "The image is gone.", "move": move("failed")})
    with pytest.raises(SpawnException) as refused:
        await make().start()
    assert refused.value.message == "The image is gone."


async def test_a_start_that_somebody_stops_ends(make: Make, stub: StubManager) -> None:
    begins(stub, {"state": State.stopping, "wish": Wish.stopped}, {"state": State.stopped})
    with pytest.raises(SpawnException, match="stopped"):
        await make().start()


@pytest.mark.parametrize("state", [State.deflated, State.inflating, State.running])
async def test_the_stop_after_a_failed_start_spares_what_was_there_before(
    make: Make, stub: StubManager, state: State
) -> None:
    def refuse(_path: str, _body: Any) -> None:
        raise Forbidden("There is no quota.")

    stub.set(state=state)
    stub.on["POST", "start"] = refuse
    spawner = make()
    with pytest.raises(SpawnException, match="no quota"):
        await spawner.start()
    await spawner.stop()  # by the hub
    assert not stub.calls("POST", "/stop")
    stub.on["POST", "stop"] = lambda _path, _body: stub.set(state=State.stopped)
    await spawner.stop()  # by a person
    assert stub.calls("POST", "/stop")


async def test_a_failure_of_yesterday_does_not_end_the_start_of_today(
    make: Make, stub: StubManager
) -> None:
    stub.set(state=State.failed, move=move("failed", id="yesterday"))
    stub.on["POST", "start"] = lambda _path, _body: stub.set()
    starting = asyncio.create_task(make().start())
    while not stub.calls("POST", "/start"):
        await asyncio.sleep(0.01)
    stub.set(state=State.starting, move=move(id="today"))
    stub.set(state=State.running)
    assert await asyncio.wait_for(starting, 10)


async def test_b02_a_start_during_a_stop_waits_for_the_stop(make: Make, stub: StubManager) -> None:
    stub.set(state=State.stopping, wish=Wish.stopped, move=move(kind=MoveKind.stop, id="stop"))
    stub.on["POST", "start"] = lambda _path, _body: stub.set(wish=Wish.running)
    spawner = make()
    starting = asyncio.create_task(spawner.start())
    while not stub.calls("POST", "/start"):
        await asyncio.sleep(0.01)
    told = [event async for event in _first(spawner, 1)]
    assert told == [{"progress": 5, "message": "Waiting for the former server to end"}]
    for change in (
        {"state": State.stopped, "move": move("done", MoveKind.stop, id="stop")},
        {"state": State.starting, "move": move(id="start")},
        {"state": State.running},
    ):
        assert not starting.done()
        stub.set(**change)
    assert await asyncio.wait_for(starting, 10)


@pytest.mark.parametrize("state", [State.running, State.deflated, State.switching])
async def test_what_already_runs_is_taken_up_with_its_own_token(
    make: Make, stub: StubManager, state: State
) -> None:
    first = make()
    begins(stub, {"state": State.running})
    await first.start()
    kept = first.get_state()
    assert "hub-token" not in str(kept)

    stub.set(state=state)
    begins(stub, {"state": State.running})
    again = make()
    again.load_state(kept)
    again.clear_state()  # as the hub does before each start
    again.api_token = "fresh-token"
    await again.start()
    assert again.api_token == "hub-token"
    assert stub.calls("POST", "/start")[-1]["launch"]["env"]["JUPYTERHUB_API_TOKEN"] == "hub-token"


async def test_what_has_stopped_gets_a_token_of_its_own(make: Make, stub: StubManager) -> None:
    spawner = make()
    begins(stub, {"state": State.running})
    await spawner.start()
    stub.on["POST", "stop"] = lambda _path, _body: stub.set(state=State.stopped)
    await spawner.stop()
    spawner.clear_state()
    assert spawner.get_state() == {}


async def test_a_manager_that_is_restarted_during_a_start_ends_nothing(
    make: Make, stub: StubManager
) -> None:
    begins(stub)
    starting = asyncio.create_task(make().start())
    while not stub.calls("POST", "/start"):
        await asyncio.sleep(0.01)
    stub.raw = (503, b"<html>Service unavailable</html>")
    stub.set()
    while len(stub.asked) < 4:
        await asyncio.sleep(0.01)
        if stub.raw is not None and len(stub.tokens):
            await asyncio.sleep(0.1)
            stub.raw = None
            stub.set(state=State.running)
    assert await asyncio.wait_for(starting, 10)


@pytest.mark.parametrize(
    ("user", "server", "says"),
    [("alice", "default", "unnamed"), ("a/b", "", "may not contain"), ("x" * 300, "", "at most")],
)
async def test_b01_a_name_that_cannot_be_mapped_is_refused(
    make: Make, stub: StubManager, user: str, server: str, says: str
) -> None:
    with pytest.raises(SpawnException, match=says) as refused:
        await make(user, server).start()
    assert refused.value.status_code == 400
    assert stub.asked == []


@pytest.mark.parametrize(
    ("user", "server", "workspace"),
    [
        ("user-name", "", "user-name/default"),
        ("user_2Dname", "", "user_2Dname/default"),
        ("a", "b-c", "a/b-c"),
        ("a-b", "c", "a-b/c"),
        ("user@x.y", "", "user@x.y/default"),
        ("ß", "", "ß/default"),
        ("per cent%2F", "né", "per cent%2F/né"),
    ],
)
async def test_b01_each_pair_of_names_is_one_workspace(
    make: Make, stub: StubManager, user: str, server: str, workspace: str
) -> None:
    stub.on["POST", "start"] = lambda path, _body: stub.set(workspace, state=State.running)
    await make(user, server).start()
    assert stub.calls("POST", f"/api/workspaces/{workspace}/start")


# --- options -----------------------------------------------------------------------------


async def test_b32_options_are_checked_through_whichever_door_they_came(
    make: Make, stub: StubManager
) -> None:
    spawner = make()
    for asked in ({"flavor": "9xH100"}, {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}):
        spawner.user_options = asked
        with pytest.raises(SpawnException) as refused:
            await spawner._run_apply_user_options(asked)
        assert refused.value.status_code == 400
        assert "Allowed" in refused.value.message
        with pytest.raises(SpawnException):  # and again where the hook did not run
            await spawner.start()
    assert not stub.calls("POST", "/start")


async def test_the_form_says_so_where_the_manager_is_away(make: Make, stub: StubManager) -> None:
    spawner = make()
    assert "devcluster-flavors" in await spawner.get_options_form()
    stub.raw = (502, b"<html>")
    assert "cannot tell" in await spawner.get_options_form()


# --- stop ---------------------------------------------------------------------------------


async def test_stop_waits_until_it_has_stopped(make: Make, stub: StubManager) -> None:
    stub.set(state=State.running)
    stub.on["POST", "stop"] = lambda _path, _body: stub.set(state=State.stopping)
    stopping = asyncio.create_task(make().stop())
    while not stub.calls("GET", "/alice/default"):
        assert not stopping.done()
        await asyncio.sleep(0.01)
    stub.set(state=State.stopped)
    await asyncio.wait_for(stopping, 10)


async def test_b02_a_stop_that_takes_too_long_says_so_and_can_be_repeated(
    make: Make, stub: StubManager
) -> None:
    stub.set(state=State.stopping)
    stub.on["POST", "stop"] = lambda _path, _body: stub.set(state=State.stopping)
    spawner = make(stop_timeout=1.0, wait_s=0.1)
    with pytest.raises(Unavailable, match="goes on"):
        await spawner.stop()
    stub.on["POST", "stop"] = lambda _path, _body: stub.set(state=State.stopped)
    await spawner.stop()


async def test_stopping_what_nobody_knows_is_done(make: Make, stub: StubManager) -> None:
    await make().stop()
    assert stub.calls("POST", "/stop")


# --- poll -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
async def test_b35_poll_says_of_each_state_what_the_hub_may_conclude(
    make: Make, stub: StubManager, state: State
) -> None:
    stub.set(state=state)
    assert await make().poll() == EXITS.get(state)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"<html>Internal Server Error</html>"),
        (401, b'{"status": 401}'),
        (403, b"Forbidden"),
        (404, b"<html>captive portal</html>"),
        (200, b"<html>please log in</html>"),
        (200, b""),
        (200, b'{"state": "stopped"}'),
        (302, b""),
        (503, b""),
    ],
)
async def test_b35_cannot_tell_is_never_stopped(
    make: Make, stub: StubManager, status: int, body: bytes
) -> None:
    stub.raw = (status, body)
    assert await make().poll() is None


async def test_b35_no_such_host_is_never_stopped(make: Make) -> None:
    assert await make(manager_url="http://no-such-host.invalid:1").poll() is None
    assert await make(manager_url="").poll() is None


async def test_b03_poll_has_a_total_deadline(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = client.workspace
    monkeypatch.setattr(client, "workspace", lambda *a, **k: _hurried(plain(*a, **k), 0.2))
    with socket.create_server(("127.0.0.1", 0)) as blackhole:  # takes connections, says nothing
        url = f"http://127.0.0.1:{blackhole.getsockname()[1]}"
        assert await asyncio.wait_for(make(manager_url=url).poll(), 5) is None


async def test_b03_a_trickle_of_bytes_does_not_prolong_the_deadline(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = client.workspace
    monkeypatch.setattr(client, "workspace", lambda *a, **k: _hurried(plain(*a, **k), 0.3))

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await asyncio.wait_for(make(manager_url=url).poll(), 5) is None


async def test_poll_during_a_start_says_running(make: Make, stub: StubManager) -> None:
    begins(stub)
    spawner = make()
    starting = asyncio.create_task(spawner.start())
    await asyncio.sleep(0)  # it has begun
    while not stub.calls("POST", "/start"):
        assert await spawner.poll() is None
        await asyncio.sleep(0.01)
    stub.set(state=State.running)
    await asyncio.wait_for(starting, 10)


# --- the hub's check of a server that it finds ------------------------------------------------


@pytest.mark.parametrize("state", [State.deflated, State.switching, State.deflating])
async def test_a_deflated_workspace_counts_as_up_after_a_restart_of_the_hub(
    make: Make, stub: StubManager, state: State
) -> None:
    stub.set(state=state)
    answer = await make().server.wait_up(timeout=1, http=True, extra_path="api")
    assert answer.headers["X-JupyterHub-Version"]


async def test_a_workspace_that_has_stopped_is_told_to_the_hub_as_such(
    make: Make, stub: StubManager
) -> None:
    stub.set(state=State.stopped)
    with pytest.raises(TimeoutError, match="is stopped"):
        await make().server.wait_up(timeout=1, http=True)


# --- progress ---------------------------------------------------------------------------------


async def test_progress_tells_each_thing_once_and_ends_with_the_start(
    make: Make, stub: StubManager
) -> None:
    begins(stub)
    spawner = make()
    starting = asyncio.create_task(spawner.start())
    told: list[str] = []

    async def listen() -> None:
        async for event in spawner.progress():
            told.append(event["message"])

    while not spawner._starting:
        await asyncio.sleep(0)
    listening = asyncio.create_task(listen())
    for change, expected in (
        ({"move": move("queued", place=1)}, "Waiting, 1st in the queue"),
        ({"move": move(steps=[step("prepare")])}, "Starting the server"),
        ({"move": move(steps=[step("prepare", 1.0, 2.0), step("reroute")])}, "Connecting"),
    ):
        stub.set(**change)
        async with asyncio.timeout(10):
            while not any(expected in message for message in told):
                await asyncio.sleep(0.01)
    stub.set(state=State.running)
    await asyncio.wait_for(starting, 10)
    await asyncio.wait_for(listening, 10)
    assert len(told) == len(set(told))


async def test_errors_of_the_manager_reach_the_person(make: Make, stub: StubManager) -> None:
    def refuse(_path: str, _body: Any) -> None:
        raise Forbidden("Your team has no quota.")

    stub.on["POST", "start"] = refuse
    with pytest.raises(SpawnException, match="no quota") as refused:
        await make().start()
    assert refused.value.status_code == 403


async def test_wrong_settings_say_which_to_set(make: Make, stub: StubManager) -> None:
    begins(stub, {"state": State.running})
    with pytest.raises((SpawnException, BadRequest), match="netswitch_url"):
        await make(netswitch_url="nowhere").start()
    with pytest.raises(SpawnException, match="manager_token"):
        await make(manager_token="").start()
    with pytest.raises(DevClusterError, match="manager_url"):
        await make(manager_url="", stop_timeout=1.0).stop()


async def _first(spawner: Any, count: int) -> Any:
    async for event in spawner.progress():
        yield event
        count -= 1
        if not count:
            return


def _hurried(call: Any, seconds: float) -> Any:
    return type(call)(call.method, call.path, call.read, call.body, seconds)
