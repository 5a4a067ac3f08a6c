"""What the manager is told, and when."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import httpx
from aiohttp import web
from devcluster.agent import client
from devcluster.agent.heartbeat import Heartbeat, Sequence
from devcluster.core.records import HostReport, LeasePhase
from devcluster.hub_ext.client import AsyncManagerClient

from tests.agent.conftest import MakeAgent, refusal, request


async def test_the_agent_reports_obeys_and_tells_an_end_at_once(make_agent: MakeAgent) -> None:
    reports: list[HostReport] = []
    remove: list[str] = []
    arrived = asyncio.Event()

    async def heartbeat(asked: web.Request) -> web.Response:
        assert asked.headers["Authorization"] == "token cluster-secret"
        reports.append(HostReport.model_validate_json(await asked.read()))
        arrived.set()
        return web.json_response({"remove": remove})

    app = web.Application()
    app.router.add_post("/m/api/agents/h1/heartbeat", heartbeat)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]

    async def until(fits: Any) -> HostReport:
        async with asyncio.timeout(30):
            while not (reports and fits(reports[-1])):
                arrived.clear()
                await arrived.wait()
        return reports[-1]

    try:
        url = f"http://127.0.0.1:{port}/m"
        agent = await make_agent(manager_url=url, heartbeat_s=600)
        first = await until(lambda report: not report.leases)
        assert (first.host, first.url, len(first.gpus)) == ("h1", agent.url, 2)
        # With ten minutes between reports, these come since something changed.
        await agent.client.send(client.ensure(request("l1")))
        await until(lambda report: [x.phase for x in report.leases] == [LeasePhase.running])
        os.kill(agent.pids("l1")["server"], signal.SIGKILL)
        await until(lambda report: [x.phase for x in report.leases] == [LeasePhase.exited])
        remove.append("l1")
        await agent.client.send(client.ensure(request("l2")))
        await until(lambda report: [x.lease for x in report.leases] == ["l2"])
        sequences = [report.sequence for report in reports]
        assert sequences == sorted(set(sequences))
        assert {report.boot for report in reports} == {first.boot}
        await refusal(agent.client.send(client.lease("l1")))
    finally:
        await runner.cleanup()


async def test_a_manager_that_is_away_is_tried_again() -> None:
    tries: list[int] = []
    answered = asyncio.Event()

    def manager(asked: httpx.Request) -> httpx.Response:
        tries.append(1)
        if len(tries) < 3:
            raise httpx.ConnectError("away")
        answered.set()
        return httpx.Response(200, content=b"{}")

    async def remove(_lease: str) -> None:
        raise AssertionError("nothing is to be removed")

    report = HostReport(host="h", url="u", boot="b", sequence=1, cpus=1, memory=1)
    link = AsyncManagerClient("http://m", "t", httpx.MockTransport(manager))
    beat = Heartbeat(link, lambda: report, remove, 0.01, logging.getLogger("test"))
    task = asyncio.create_task(beat.run())
    await asyncio.wait_for(answered.wait(), 30)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await link.close()


def test_numbers_rise_over_restarts_and_a_new_machine_is_a_new_boot(tmp_path: Path) -> None:
    file = tmp_path / "boot.json"
    first = Sequence.load(file, "m1")
    numbers = [first.next(), first.next()]
    second = Sequence.load(file, "m1")
    numbers.append(second.next())
    assert numbers == sorted(set(numbers))
    assert second.boot == first.boot
    assert Sequence.load(file, "m2").boot != first.boot
    file.write_text("{torn")
    assert Sequence.load(file, "m1").boot != first.boot
    assert set(json.loads(file.read_text())) == {"boot", "machine", "generation"}
