"""A workspace moves from one agent to another: home, capture, path; and what faults do to it."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
from devcluster.agent import client
from devcluster.core.errors import Conflict, NotFound, Unavailable
from devcluster.core.records import Fetch, LeasePhase

from tests.agent.conftest import HostAgent, MakeAgent, refusal, request

WORKSPACE = "alice/default"


def pull(source: HostAgent, capture: str | None = None) -> Fetch:
    return Fetch(workspace=WORKSPACE, source=source.url, capture=capture)


@pytest.mark.parametrize("isolate", ["namespace", "link"])
async def test_a_workspace_moves_and_comes_back(make_agent: MakeAgent, isolate: str) -> None:
    if isolate == "namespace" and os.geteuid() != 0:
        pytest.skip("mount namespaces need root here")
    one, two = await make_agent("h1", isolate), await make_agent("h2", isolate)
    await one.client.send(client.ensure(request("l1")))
    await one.state("l1", x=41)
    (one.home() / "notes").write_text("from one")
    os.symlink("notes", one.home() / b"caf\xe9".decode("utf-8", "surrogateescape"))

    report = await two.client.send(client.fetch("l2", pull(one)))
    assert report.home_files == 1
    await two.client.send(client.ensure(request("l2")))
    standby = await two.state("l2")
    # The standby must not write into the home that is in use.
    assert os.path.samefile(standby["cwd"], two.home()) or isolate == "namespace"
    (one.home() / "notes").write_text("last words")
    await one.client.send(client.capture("l1", "m1"))
    report = await two.client.send(client.fetch("l2", pull(one, "m1")))
    assert report.home_files == 1
    assert report.capture_bytes > 100_000
    await two.client.send(client.restore("l2", "m1"))
    await one.client.send(client.remove("l1"))
    assert (await two.state("l2"))["x"] == 41
    assert (two.home() / "notes").read_text() == "last words"
    if isolate == "link":
        assert os.path.samefile(two.home_root / two.home().name, two.home())
    else:
        assert standby["cwd"] == str(two.home_root / two.home().name)

    (two.home() / "notes").unlink()
    await two.client.send(client.capture("l2", "m2"))
    report = await one.client.send(client.fetch("l3", pull(two, "m2")))
    assert report.home_deleted == 1
    await one.client.send(client.ensure(request("l3", epoch=2)))
    await one.client.send(client.restore("l3", "m2"))
    assert (await one.state("l3"))["x"] == 41
    assert not (one.home() / "notes").exists()
    for host, lease in ((two, "l2"), (one, "l3")):
        await host.client.send(client.remove(lease))
    await one.client.send(client.drop_capture(WORKSPACE, "m2"))
    await one.client.send(client.drop_capture(WORKSPACE, "m2"))


async def test_a_source_that_still_runs_gives_no_final_home(make_agent: MakeAgent) -> None:
    one, two = await make_agent("h1"), await make_agent("h2")
    await one.client.send(client.ensure(request("l1")))
    await one.client.send(client.capture("l1", "m1"))
    await one.client.send(client.thaw("l1"))
    error = await refusal(two.client.send(client.fetch("l2", pull(one, "m1"))))
    assert "not frozen" in error.message
    await two.client.send(client.ensure(request("l2")))
    error = await refusal(one.client.send(client.fetch("l9", pull(two))))
    assert isinstance(error, Conflict)  # a running server's home is not replaced under it


@pytest.mark.parametrize(
    ("where", "point"),
    [("h2", "fetch"), ("h2", "fetch.stream"), ("h1", "serve.stream"), ("h2", "restore")],
)
async def test_b07_a_fault_in_the_move_leaves_the_source_whole(
    make_agent: MakeAgent, where: str, point: str
) -> None:
    hosts: dict[str, HostAgent] = {n: await make_agent(n) for n in ("h1", "h2")}
    one, two = hosts["h1"], hosts["h2"]
    await one.client.send(client.ensure(request("l1")))
    await one.state("l1", x=41)
    await two.client.send(client.fetch("l2", pull(one)))
    await two.client.send(client.ensure(request("l2")))
    for n in range(3):
        (one.home() / f"new{n}").write_text("data")
    await one.client.send(client.capture("l1", "m1"))
    hosts[where].plant(point, "raise on purpose")

    async def move() -> None:
        await two.client.send(client.fetch("l2", pull(one, "m1")))
        await two.client.send(client.restore("l2", "m1"))

    await refusal(move())
    assert list(one.faults.iterdir()) == list(two.faults.iterdir()) == []
    # Asked again, it works; the source was there all the time.
    assert (await one.client.send(client.lease("l1"))).phase == LeasePhase.frozen
    await move()
    assert (await two.state("l2"))["x"] == 41
    await one.client.send(client.thaw("l1"))
    assert (await one.state("l1"))["x"] == 41


async def test_b07_a_source_that_is_gone_or_knows_nothing_is_an_error(
    make_agent: MakeAgent,
) -> None:
    one, two = await make_agent("h1"), await make_agent("h2")
    assert isinstance(await refusal(two.client.send(client.fetch("l2", pull(one)))), NotFound)
    nobody = Fetch(workspace=WORKSPACE, source="http://127.0.0.1:9")
    assert isinstance(await refusal(two.client.send(client.fetch("l2", nobody))), Unavailable)
    await two.client.send(client.ensure(request("l2")))
    assert isinstance(await refusal(two.client.send(client.restore("l2", "m1"))), NotFound)


async def test_on_one_host_nothing_is_copied(agent: HostAgent) -> None:
    await agent.client.send(client.ensure(request("l1")))
    await agent.state("l1", x=41)
    await agent.client.send(client.capture("l1", "m1"))
    assert (await agent.client.send(client.fetch("l2", pull(agent, "m1")))).capture_bytes == 0
    await agent.client.send(client.ensure(request("l2")))
    await agent.client.send(client.restore("l2", "m1"))
    assert (await agent.state("l2"))["x"] == 41


async def test_files_outside_of_a_home_are_not_served(agent: HostAgent, tmp_path: Path) -> None:
    await agent.client.send(client.ensure(request("l1")))
    (agent.home() / "out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("top secret")
    async with httpx.AsyncClient(headers={"Authorization": "Bearer cluster-secret"}) as http:
        for path in ("out/secret", "../../leases/epochs", "/etc/passwd"):
            answer = await http.post(
                f"{agent.url}/v1/homes/alice%2Fdefault/files", json={"paths": [path]}
            )
            assert answer.status_code == 200
            assert b'"gone"' in answer.content
            assert b"top secret" not in answer.content
            assert b"root:" not in answer.content
