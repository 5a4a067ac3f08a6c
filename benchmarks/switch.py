"""How long a switch takes, and how long a person feels it; beside the plain way.

Run by ``make bench-switch``. One real cluster on loopback; one person with a notebook, who
keeps running a tiny cell. The *pause* is what that person sees: from the last answer of
a kernel on the source to the first on the target. The *plain way* is what people do
without this: stop the server, start it on the other hardware, run the cells again.

Prints a table, then one JSON object as the last line. Times in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from demo.cluster import Cluster
from tests.support.person import Notebook, Person, person

SMALL = """
import numpy as np, pandas as pd, json, os
class Model:
    def __init__(self, rate): self.rate = rate
frame = pd.DataFrame({'x': range(1000), 'y': np.random.default_rng(0).random(1000)})
model, table = Model(2), {i: str(i) for i in range(1000)}
"""
GIB = (
    SMALL
    + """
arrays = [np.random.default_rng(i).random(2**24) for i in range(8)]  # 8 x 128 MiB
"""
)
WHERE = "import os; print(os.environ['DEVCLUSTER_HOST'])"
HOPS = ["1xA100", "1xV100"]


def percentile(values: list[float], percent: int) -> float:
    """Return the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


async def felt_pause(notebook: Notebook, alice: Person, flavor: str) -> tuple[float, float]:
    """Switch once while cells are run; return (pause, whole switch) in seconds."""
    source = (await alice.view()).host
    last_on_source = first_on_target = 0.0
    arrived, over = asyncio.Event(), asyncio.Event()

    async def keep_running() -> None:
        nonlocal last_on_source, first_on_target
        while not over.is_set():
            result = await notebook.run(WHERE, deadline_s=120)
            now = time.perf_counter()
            if result.text.strip() == source:
                last_on_source = now
            elif not first_on_target:
                first_on_target = now
                arrived.set()
            await asyncio.sleep(0.1)

    runner = asyncio.create_task(keep_running())
    began = time.perf_counter()
    end = await alice.switch_and_wait(flavor)
    whole = time.perf_counter() - began
    assert end.move is not None
    assert end.move.status == "done", end.move.reason
    await arrived.wait()
    over.set()
    await runner
    return first_on_target - last_on_source, whole


async def switches(
    alice: Person, notebook: Notebook, count: int
) -> tuple[list[float], list[float]]:
    """Return pauses and whole times of ``count`` switches between two hosts."""
    pauses, wholes = [], []
    for i in range(count):
        pause, whole = await felt_pause(notebook, alice, HOPS[i % 2])
        pauses.append(pause)
        wholes.append(whole)
    return pauses, wholes


async def spawn_time(alice: Person) -> float:
    """Return seconds from asking the hub to a lab page and a kernel that answers."""
    began = time.perf_counter()
    await alice.spawn("cpu")
    async with alice.http.get(
        alice.base + "lab", headers={"Authorization": f"token {alice.token}"}
    ) as page:
        assert page.status == 200
        await page.read()
    return time.perf_counter() - began


async def plain_way(alice: Person) -> float:
    """Return seconds of stop, start, open the notebook, run its cells again."""
    began = time.perf_counter()
    await alice.hub_stop()
    await alice.spawn("1xA100")
    notebook = await alice.open_notebook("plain.ipynb")
    result = await notebook.run(SMALL)
    assert result.status == "ok", result
    took = time.perf_counter() - began
    await notebook.close()
    return took


def cpu_seconds(cluster: Cluster) -> float:
    """Return the CPU time of all processes of the cluster and its workspaces so far."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            if str(cluster.base_dir) in " ".join(process.environ().values()):
                times = process.cpu_times()
                total += times.user + times.system
        except (psutil.Error, OSError):
            continue
    return total


async def idle_percent(cluster: Cluster, seconds: float) -> float:
    """Return the percentage of one core that the cluster uses when nobody does anything."""
    before, began = cpu_seconds(cluster), time.perf_counter()
    await asyncio.sleep(seconds)
    return 100 * (cpu_seconds(cluster) - before) / (time.perf_counter() - began)


async def measure(cluster: Cluster, args: argparse.Namespace) -> dict[str, float]:
    """Run everything in one cluster."""
    hub, token = cluster.hub_url.rstrip("/"), cluster.admin_token
    async with person("alice", hub, token) as alice, person("bob", hub, token) as bob:
        await bob.spawn("cpu")
        other = await bob.open_notebook("other.ipynb")
        await spawn_time(alice)  # the first is cold
        spawns = []
        for _ in range(3):
            await alice.hub_stop()
            spawns.append(await spawn_time(alice))
        await other.close()
        quiet = await alice.open_notebook("small.ipynb")
        assert (await quiet.run(SMALL)).status == "ok"
        await asyncio.sleep(5)
        idle = await idle_percent(cluster, args.idle_s)
        small, small_whole = await switches(alice, quiet, args.switches)
        assert (await quiet.run(GIB)).status == "ok"
        gib, gib_whole = await switches(alice, quiet, args.switches_gib)
        assert await quiet.value(
            "float(arrays[3][5]) == float(np.random.default_rng(3).random(6)[5])"
        )
        await quiet.close()
        plain = [await plain_way(alice) for _ in range(3)]
        await alice.hub_stop()
        await bob.hub_stop()
    table = Table("what", "p50 s", "p95 s", "runs", title="Switch between two hosts on one machine")
    for name, values in (
        ("pause, small state", small),
        ("whole switch, small state", small_whole),
        ("pause, 1 GiB of arrays", gib),
        ("whole switch, 1 GiB of arrays", gib_whole),
        ("plain way: stop, start, rerun (small)", plain),
        ("spawn to a usable lab, warm", spawns),
    ):
        table.add_row(
            name,
            f"{statistics.median(values):.2f}",
            f"{percentile(values, 95):.2f}",
            str(len(values)),
        )
    table.add_row("idle, 3 hosts and 2 workspaces", f"{idle:.1f} % of a core", "", "1")
    Console(width=90).print(table)
    return {
        "pause_small_p50_s": statistics.median(small),
        "pause_small_p95_s": percentile(small, 95),
        "pause_1gib_p50_s": statistics.median(gib),
        "switch_small_p50_s": statistics.median(small_whole),
        "plain_restart_rerun_p50_s": statistics.median(plain),
        "spawn_warm_p50_s": statistics.median(spawns),
        "idle_cpu_percent": idle,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=int, default=12, help="switches of a small state")
    parser.add_argument("--switches-gib", type=int, default=10, help="switches of 1 GiB")
    parser.add_argument("--idle-s", type=float, default=30.0, help="seconds of the idle measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="devcluster-bench-") as folder:
        cluster = Cluster(Path(folder))
        cluster.start()
        try:
            cluster.wait_ready()
            figures = asyncio.run(measure(cluster, args))
        finally:
            cluster.stop()
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
