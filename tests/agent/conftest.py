"""Agents as real processes, on loopback and in folders of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from devcluster.agent import client
from devcluster.core.errors import DevClusterError
from devcluster.core.records import LeaseRequest

TOKEN = "cluster-secret"
STAND_IN = Path(__file__).with_name("stand_in.py")
HOSTS = """
hosts:
  h1: {cpus: 2, memory: 8Gi, gpus: [{model: V100, count: 2, memory: 16Gi}]}
  h2: {cpus: 2, memory: 8Gi, gpus: [{model: A100, count: 2, memory: 40Gi}]}
"""


def request(lease: str, workspace: str = "alice/default", **changes: Any) -> LeaseRequest:
    """Build a request for the stand-in server."""
    env = {"STAND_IN": changes.pop("mode", ""), **changes.pop("env", {})}
    base: dict[str, Any] = {
        "lease": lease,
        "workspace": workspace,
        "epoch": 1,
        "flavor": {"name": "cpu", "cpus": 1, "memory": "1Gi"},
        "launch": {
            "command": [sys.executable, "-I", "-S", str(STAND_IN)],
            "env": env,
            "prefix": "/user/alice/",
        },
    }
    return LeaseRequest.model_validate({**base, **changes})


async def until(what: Callable[[], Any], deadline_s: float = 60.0) -> Any:
    """Wait for something to become true."""
    end = time.monotonic() + deadline_s
    while not (found := what()):
        assert time.monotonic() < end, "it did not come true"
        await asyncio.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    """Tell whether a process is there; a zombie, that nobody collects here, is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class HostAgent:
    """One agent process."""

    def __init__(self, base: Path, host: str, home_root: Path, isolate: str, **traits: Any) -> None:
        self.base, self.host, self.faults = base, host, base / "faults"
        self.data, self.home_root = base / "data", home_root
        self.faults.mkdir(parents=True)
        (base / "hosts.yaml").write_text(HOSTS)
        nobody = "http://127.0.0.1:9/nobody"
        traits = {"heartbeat_s": 0.2, "manager_url": nobody, **traits}
        self._arguments = [
            f"--host={host}", f"--hosts-file={base / 'hosts.yaml'}", f"--data-dir={self.data}",
            f"--home-root={home_root}", f"--Agent.isolate={isolate}",
            *[f"--Agent.{name}={value}" for name, value in traits.items()],
        ]  # fmt: skip
        self._port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.client: client.AgentClient

    async def start(self) -> None:
        """Start it, on the same port as before."""
        env = {
            **os.environ,
            "DEVCLUSTER_CLUSTER_TOKEN": TOKEN,
            "DEVCLUSTER_FAULTS": str(self.faults),
            "SECRET_OF_THE_AGENT": "hidden",
        }
        log = self.base / "agent.log"
        with log.open("ab") as out:
            begin = out.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "devcluster.agent", *self._arguments,
                 f"--Agent.port={self._port}"],
                env=env, stdout=out, stderr=out,
            )  # fmt: skip

        def url() -> str:
            assert self.process is not None
            assert self.process.poll() is None, log.read_text()
            text = log.read_bytes()[begin:].decode()
            return text.partition("serves at ")[2].partition(": ")[0]

        self.url = await until(url)
        self._port = int(self.url.rpartition(":")[2])
        self.client = client.AgentClient(self.url, TOKEN)

    async def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        await self.client.close()

    async def stop(self) -> None:
        """End it, and every server it had."""
        assert self.process is not None
        if self.process.poll() is None:
            for report in (await self.client.send(client.host())).leases:
                await self.client.send(client.remove(report.lease))
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(10) == 0
        await self.client.close()

    def plant(self, point: str, action: str) -> None:
        """Plant a fault of this host."""
        (self.faults / f"agent.{self.host}.{point}").write_text(action)

    def home(self) -> Path:
        """Return the only home's folder."""
        (found,) = [p for p in (self.data / "homes").iterdir() if not p.name.startswith(".")]
        return found

    def pids(self, lease: str) -> dict[str, int]:
        """Return the launcher's and the server's pid of a lease."""
        for folder in (self.data / "run").iterdir():
            spec = json.loads((folder / "spec.json").read_text())
            if spec["env"]["DEVCLUSTER_LEASE"] == lease:
                pids = json.loads((folder / "pids.json").read_text())
                return {name: value[0] for name, value in pids.items()}
        raise AssertionError(f"no processes of {lease}")

    async def state(self, lease: str, **body: Any) -> dict[str, Any]:
        """Talk to the stand-in as a browser would."""
        report = await self.client.send(client.lease(lease))
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"{report.url}/user/alice/state", json=body, timeout=5)
        return dict(answer.json())

    async def ticker(self, lease: str, name: str = "ticks") -> int:
        """Start a detached process that writes to the home; return its pid."""
        await self.state(lease, tick=name)
        file = self.home() / f"{name}.pid"
        return int(await until(lambda: file.exists() and file.read_text()))


MakeAgent = Callable[..., Any]


@pytest.fixture
async def make_agent(tmp_path: Path) -> AsyncIterator[MakeAgent]:
    """Give a maker of agents; at the end nothing of them may be left."""
    made: list[HostAgent] = []

    async def make(host: str = "h1", isolate: str = "auto", **traits: Any) -> HostAgent:
        one = HostAgent(tmp_path / host, host, tmp_path / "seen", isolate, **traits)
        made.append(one)
        await one.start()
        return one

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is not None:
            for fault in one.faults.iterdir():
                fault.unlink()
            await one.start()
        await one.stop()
    left = []
    for process in psutil.process_iter():
        try:
            env, state = process.environ(), process.status()
        except psutil.Error:
            continue
        if env.get("HOME", "").startswith(str(tmp_path)) and state != psutil.STATUS_ZOMBIE:
            left.append(process)
    assert not left


@pytest.fixture
async def agent(make_agent: MakeAgent) -> HostAgent:
    """Give one agent."""
    one: HostAgent = await make_agent()
    return one


async def refusal(awaitable: Any) -> DevClusterError:
    """Return the error that a call ends with."""
    with pytest.raises(DevClusterError) as caught:
        await awaitable
    return caught.value
