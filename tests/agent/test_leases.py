"""Leases on one host: real agent, real processes, a stand-in for the Jupyter server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from devcluster.agent import client
from devcluster.core.errors import (
    BadRequest,
    Busy,
    Conflict,
    Forbidden,
    NotFound,
    Stale,
    StepFailed,
)
from devcluster.core.records import KernelHint, LeasePhase

from tests.agent.conftest import HOSTS, HostAgent, MakeAgent, alive, refusal, request, until


async def test_a_server_starts_answers_and_ends(agent: HostAgent) -> None:
    hint = KernelHint(kernel_id="k1", kernel_name="python3")
    report = await agent.client.send(client.ensure(request("l1", warm=[hint])))
    assert report.phase == LeasePhase.running
    state = await agent.state("l1")
    assert state["kernels"] == 1
    assert state["cwd"] == state["env"]["HOME"]
    assert Path(state["cwd"]).parent == agent.home_root
    assert (await agent.client.send(client.plan("l1"))).terminals == 1
    assert await agent.client.send(client.wait_idle("l1", 0.1)) is True
    await agent.client.send(client.interrupt("l1"))
    pids = agent.pids("l1")
    await agent.client.send(client.remove("l1"))
    await agent.client.send(client.remove("l1"))
    assert not any(alive(pid) for pid in pids.values())
    assert isinstance(await refusal(agent.client.send(client.lease("l1"))), NotFound)
    assert list((agent.data / "run").iterdir()) == []


async def test_a_duplicate_ensure_joins_and_starts_one_server(agent: HostAgent) -> None:
    asked = [agent.client.send(client.ensure(request("l1"))) for _ in range(4)]
    urls = {report.url for report in await asyncio.gather(*asked)}
    assert len(urls) == 1
    pid = agent.pids("l1")
    assert (await agent.client.send(client.ensure(request("l1")))).url in urls
    assert agent.pids("l1") == pid


async def test_b61_the_lease_alone_decides_about_gpus(agent: HostAgent) -> None:
    hostile = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "DEVCLUSTER_LEASE": "other",
        "DEVCLUSTER_CONTROL": "guessed",
        "HOME": "/root",
        "JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:80/",
    }
    await agent.client.send(client.ensure(request("l1", env=hostile)))
    env = (await agent.state("l1"))["env"]
    assert (env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")
    assert env["DEVCLUSTER_LEASE"] == "l1"
    assert env["DEVCLUSTER_CONTROL"] != "guessed"
    assert "SECRET_OF_THE_AGENT" not in env
    assert "DEVCLUSTER_CLUSTER_TOKEN" not in env
    await agent.client.send(client.remove("l1"))
    uuids = ["GPU-declared-h1-1", "GPU-declared-h1-0"]
    await agent.client.send(client.ensure(request("l2", env=hostile, gpus=uuids)))
    env = (await agent.state("l2"))["env"]
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == ",".join(uuids)
    assert (env["DEVCLUSTER_GPUS"], env["DEVCLUSTER_GPU_MODEL"]) == ("2", "V100")
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


async def test_secrets_are_in_private_files_and_in_no_argument_or_log(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1", env={"JUPYTERHUB_API_TOKEN": "tok-123"})))
    for pid in agent.pids("l1").values():
        assert "tok-123" not in " ".join(psutil.Process(pid).cmdline())
    for path in agent.base.rglob("*"):
        if path.is_file() and b"tok-123" in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0, path
            assert path.suffix == ".json"


async def test_a_stale_epoch_is_refused_also_after_a_restart(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l2", epoch=5)))
    await agent.client.send(client.remove("l2"))
    assert isinstance(
        await refusal(agent.client.send(client.ensure(request("l1", epoch=4)))), Stale
    )
    await agent.kill()
    await agent.start()
    assert isinstance(
        await refusal(agent.client.send(client.ensure(request("l1", epoch=4)))), Stale
    )
    assert (await agent.client.send(client.host())).leases == []


async def test_bad_requests_say_what_is_wrong(agent: HostAgent) -> None:
    error = await refusal(agent.client.send(client.ensure(request("l1", gpus=["GPU-x"]))))
    assert isinstance(error, BadRequest)
    assert "GPU-declared-h1-0" in error.message
    foreign = client.AgentClient(agent.url, "wrong")
    error = await refusal(foreign.send(client.host()))
    await foreign.close()
    assert isinstance(error, Forbidden)
    async with httpx.AsyncClient(headers={"Authorization": "Bearer cluster-secret"}) as http:
        assert (await httpx.AsyncClient().get(f"{agent.url}/v1/host")).status_code == 401
        for method, path, body, words in (
            ("PUT", "/v1/leases/l1", b"{no json", "body"),
            ("PUT", "/v1/leases/l1", b'{"lease": "l1", "gpu": 1}', "workspace"),
            ("PUT", "/v1/leases/other", request("l1").model_dump_json().encode(), "'other'"),
            ("GET", "/v1/leases/l1/idle?wait=soon", b"", "seconds"),
        ):
            answer = await http.request(method, agent.url + path, content=body)
            assert answer.status_code == 400, path
            assert words in answer.json()["message"]
        answer = await http.get(f"{agent.url}/v1/nothing")
        assert (answer.status_code, answer.json()["error"]) == (404, "internal")
        for name in ("..", "a%2Fb", ".hidden"):
            answer = await http.delete(f"{agent.url}/v1/captures/alice%2Fdefault/{name}")
            assert answer.status_code in (400, 404)


async def test_a_server_that_dies_at_start_tells_its_last_words(agent: HostAgent) -> None:
    error = await refusal(agent.client.send(client.ensure(request("l1", mode="die"))))
    assert isinstance(error, StepFailed)
    assert "exit code 7" in error.message
    assert "cannot open the shop" in error.message
    assert (await agent.client.send(client.lease("l1"))).phase == LeasePhase.exited
    assert (await agent.client.send(client.ensure(request("l1")))).phase == LeasePhase.running


async def test_a_port_with_another_server_is_never_taken_for_ours(make_agent: MakeAgent) -> None:
    agent = await make_agent(start_timeout_s=1)
    error = await refusal(agent.client.send(client.ensure(request("l1", mode="foreign"))))
    assert "another lease" in error.message


async def test_freeze_and_thaw_hold_every_process_however_detached(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    await agent.state("l1", x=41)
    ticker = await agent.ticker("l1")
    report = await agent.client.send(client.capture("l1", "m1"))
    assert report.bytes > 100_000
    assert psutil.Process(ticker).status() == psutil.STATUS_STOPPED
    ticks = agent.home() / "ticks"
    size = ticks.stat().st_size
    assert (await agent.client.send(client.lease("l1"))).phase == LeasePhase.frozen
    assert await agent.client.send(client.capture("l1", "m1")) == report
    assert isinstance(await refusal(agent.client.send(client.capture("l1", "m2"))), Conflict)
    assert isinstance(await refusal(agent.client.send(client.plan("l1"))), Conflict)
    dropped = agent.client.send(client.drop_capture("alice/default", "m1"))
    assert isinstance(await refusal(dropped), Conflict)
    assert ticks.stat().st_size == size
    await agent.client.send(client.thaw("l1"))
    await agent.client.send(client.thaw("l1"))
    await until(lambda: ticks.stat().st_size > size)
    state = await agent.state("l1")
    assert (state["x"], state["resumed"]) == (41, 1)


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_the_person_had_stopped_stays_stopped(agent: HostAgent, restarted: bool) -> None:
    await agent.client.send(client.ensure(request("l1")))
    stopped = psutil.Process(await agent.ticker("l1"))
    going = psutil.Process(await agent.ticker("l1", "others"))
    stopped.suspend()
    await until(lambda: stopped.status() == psutil.STATUS_STOPPED)
    agent.plant("capture.saved", "raise before the freeze")
    await refusal(agent.client.send(client.capture("l1", "m1")))
    assert stopped.status() == psutil.STATUS_STOPPED
    await agent.client.send(client.capture("l1", "m2"))
    if restarted:
        await agent.kill()
        await agent.start()
    assert going.status() == psutil.STATUS_STOPPED
    await agent.client.send(client.thaw("l1"))
    await until(lambda: going.status() != psutil.STATUS_STOPPED)
    assert stopped.status() == psutil.STATUS_STOPPED


async def test_a_source_is_not_ended_before_its_capture_is_durable(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    await agent.client.send(client.capture("l1", "m1"))
    server = agent.pids("l1")["server"]
    await agent.kill()
    (folder,) = agent.data.glob("captures/*/m1")
    unreadable = folder / "unreadable"
    unreadable.symlink_to("nothing")
    await agent.start()
    for _ in range(2):
        error = await refusal(agent.client.send(client.remove("l1")))
        assert "cannot be written to the disk" in error.message
        assert alive(server)
    unreadable.unlink()
    await agent.client.send(client.remove("l1"))
    assert not alive(server)


async def test_a_frozen_tree_ends_without_running_again(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    ticker = await agent.ticker("l1")
    await agent.client.send(client.capture("l1", "m1"))
    size = (agent.home() / "ticks").stat().st_size
    await agent.client.send(client.remove("l1"))
    assert not alive(ticker)
    assert (agent.home() / "ticks").stat().st_size == size
    listing = await agent.client.send(client.drop_capture("alice/default", "m1"))
    assert listing is None
    assert list((agent.data / "captures").iterdir()) == []


async def test_a_stubborn_server_is_ended_after_the_grace(make_agent: MakeAgent) -> None:
    agent = await make_agent(grace_s=0.2)
    await agent.client.send(client.ensure(request("l1", mode="stubborn")))
    ticker = await agent.ticker("l1")
    await agent.client.send(client.remove("l1"))
    assert not alive(ticker)


async def test_b49_servers_outlive_the_agent_and_are_adopted(agent: HostAgent) -> None:
    report = await agent.client.send(client.ensure(request("l1")))
    await agent.state("l1", x=1)
    before = await agent.client.send(client.host())
    await agent.kill()
    await agent.start()
    after = await agent.client.send(client.host())
    assert after.leases == [report]
    assert after.boot == before.boot
    assert after.sequence > before.sequence
    assert (await agent.state("l1"))["x"] == 1


async def test_b49_a_frozen_lease_is_frozen_still_after_a_restart(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    ticker = await agent.ticker("l1")
    report = await agent.client.send(client.capture("l1", "m1"))
    await agent.kill()
    os.kill(ticker, signal.SIGCONT)  # somebody meddles meanwhile
    await agent.start()
    assert psutil.Process(ticker).status() == psutil.STATUS_STOPPED
    assert (await agent.client.send(client.lease("l1"))).phase == LeasePhase.frozen
    assert await agent.client.send(client.capture("l1", "m1")) == report
    await agent.client.send(client.thaw("l1"))
    assert (await agent.state("l1"))["resumed"] == 1


@pytest.mark.parametrize("point", ["capture", "capture.saved", "capture.frozen"])
async def test_b49_an_agent_killed_during_capture_loses_nothing(
    agent: HostAgent, point: str
) -> None:
    await agent.client.send(client.ensure(request("l1")))
    await agent.state("l1", x=7)
    agent.plant(point, "kill")
    await refusal(agent.client.send(client.capture("l1", "m1")))
    await agent.kill()
    await agent.start()
    phase = (await agent.client.send(client.lease("l1"))).phase
    assert phase == (LeasePhase.frozen if point == "capture.frozen" else LeasePhase.running)
    await agent.client.send(client.thaw("l1"))
    assert (await agent.state("l1"))["x"] == 7
    await agent.client.send(client.capture("l1", "m1"))


@pytest.mark.parametrize("point", ["capture", "capture.saved", "capture.frozen"])
async def test_a_capture_that_fails_leaves_all_running(agent: HostAgent, point: str) -> None:
    await agent.client.send(client.ensure(request("l1")))
    await agent.state("l1", x=7)
    agent.plant(point, "raise on purpose")
    error = await refusal(agent.client.send(client.capture("l1", "m1")))
    assert error.message == "on purpose"
    assert (await agent.client.send(client.lease("l1"))).phase == LeasePhase.running
    assert (await agent.state("l1"))["x"] == 7
    assert list((agent.data / "captures").rglob("*.json")) == []


async def test_a_busy_server_keeps_its_error_and_goes_on(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1", mode="refuse")))
    assert isinstance(await refusal(agent.client.send(client.capture("l1", "m1"))), Busy)
    assert (await agent.state("l1"))["resumed"] == 1


async def test_an_agent_killed_right_after_the_spawn_finds_its_server(agent: HostAgent) -> None:
    agent.plant("ensure.spawned", "kill")
    await refusal(agent.client.send(client.ensure(request("l1"))))
    pids = agent.pids("l1")
    await agent.kill()
    await agent.start()
    assert (await agent.client.send(client.lease("l1"))).phase == LeasePhase.starting
    await agent.client.send(client.ensure(request("l1")))
    assert agent.pids("l1") == pids


async def test_an_agent_killed_while_removing_goes_on_with_it(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    pids = agent.pids("l1")
    agent.plant("remove", "kill")
    await refusal(agent.client.send(client.remove("l1")))
    await agent.kill()
    await agent.start()
    await agent.client.send(client.remove("l1"))
    assert not any(alive(pid) for pid in pids.values())


async def test_a_tree_whose_launcher_was_killed_is_found_and_ended(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    ticker = await agent.ticker("l1")
    pids = agent.pids("l1")
    os.kill(pids["launcher"], signal.SIGKILL)
    await agent.client.send(client.remove("l1"))
    assert not alive(ticker)
    assert not alive(pids["server"])


async def test_a_server_that_ends_by_itself_is_reported_with_the_reason(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    os.kill(agent.pids("l1")["server"], signal.SIGABRT)

    for _ in range(500):
        report = await agent.client.send(client.lease("l1"))
        if report.phase == LeasePhase.exited:
            break
        await asyncio.sleep(0.01)
    assert report.phase == LeasePhase.exited
    assert report.url is None
    for _ in range(500):
        report = await agent.client.send(client.lease("l1"))
        if "SIGABRT" in report.reason:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(report.reason)


async def test_a_remove_calls_off_a_start_that_hangs(agent: HostAgent) -> None:
    starting = asyncio.create_task(agent.client.send(client.ensure(request("l1", mode="foreign"))))
    await until(lambda: list((agent.data / "run").glob("*/pids.json")))
    await agent.client.send(client.remove("l1"))
    await refusal(starting)
    assert list((agent.data / "run").iterdir()) == []


def run_agent(*arguments: str, token: str = "t") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DEVCLUSTER_CLUSTER_TOKEN": token}
    return subprocess.run(
        [sys.executable, "-m", "devcluster.agent", *arguments],
        env=env, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


async def test_b49_a_second_agent_on_one_folder_is_refused(agent: HostAgent) -> None:
    done = run_agent(f"--data-dir={agent.data}", "--port=0", "--host=h1",
                     f"--hosts-file={agent.base / 'hosts.yaml'}")  # fmt: skip
    assert done.returncode == 1
    assert "Another agent" in done.stderr


def test_a_malformed_hosts_file_or_no_token_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(HOSTS.replace("count: 2", "count: -2"))
    done = run_agent(f"--data-dir={tmp_path / 'd'}", "--host=h1", f"--hosts-file={file}")
    assert done.returncode == 1
    assert "hosts.h1.gpus" in done.stderr
    assert not (tmp_path / "d").exists()
    assert "no cluster token" in run_agent("--host=h1", token="").stderr
