"""The manager as a process: it starts, answers, ends with its hub, and waits for its port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

FLAVORS = "flavors: [{name: cpu, title: CPU, cpus: 1, memory: 2Gi}]\n"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "flavors.yaml").write_text(FLAVORS)
    return {
        "PATH": os.environ["PATH"],
        "DEVCLUSTER_CLUSTER_TOKEN": "cluster-token",
        "JUPYTERHUB_API_TOKEN": "service-token",
        "JUPYTERHUB_CLIENT_ID": "service-devcluster",
        "JUPYTERHUB_SERVICE_NAME": "devcluster",
        "JUPYTERHUB_SERVICE_PREFIX": "/services/devcluster/",
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{_free_port()}",
    }


def _wait_healthy(environment: dict[str, str], deadline_s: float = 60) -> None:
    end = time.monotonic() + deadline_s
    url = environment["JUPYTERHUB_SERVICE_URL"] + "/services/devcluster/api/health"
    while True:
        try:
            assert httpx.get(url).json() == {"status": "ok"}
            return
        except httpx.TransportError:
            assert time.monotonic() < end, "the manager does not answer"
            time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_ends_with_its_hub_and_its_successor_waits_for_the_port(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "devcluster.hub_ext"]
    hub = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys\n"
            f"child = subprocess.Popen({command!r})\n"
            "print(child.pid, flush=True)\n"
            "child.wait()",
        ],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert hub.stdout is not None
    manager = int(hub.stdout.readline())
    _wait_healthy(environment)
    hub.send_signal(signal.SIGKILL)
    successor = subprocess.Popen(command, env=environment, cwd=tmp_path)
    try:
        hub.wait(10)
        end = time.monotonic() + 10
        while _is_alive(manager):
            assert time.monotonic() < end, "the manager outlives its hub"
            time.sleep(0.02)
        _wait_healthy(environment)
        successor.send_signal(signal.SIGTERM)
        assert successor.wait(20) == 0
    finally:
        successor.kill()
        successor.wait()
        hub.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--Manager.step_deadlines={'dance': 1}"], "Allowed: prepare"),
        (["--flavors=missing.yaml"], "cannot be read"),
        (["--db=mysql://x/y"], "allowed are sqlite and postgresql"),
    ],
)
def test_a_wrong_setting_ends_it_with_one_sentence(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devcluster.hub_ext", *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr
