"""Who may talk to the extension, and about what."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from .conftest import HUB_TOKEN, SECRET, TOKEN, Open, Server

CONTROL = {"X-DevCluster-Control": SECRET}
USER = {"Authorization": f"token {TOKEN}"}


@pytest.mark.parametrize("headers", [{}, {"X-DevCluster-Control": "wrong"}, USER])
def test_control_is_for_the_agent_alone(source: Server, headers: dict[str, str]) -> None:
    answer = source.raw("POST", "devcluster/control/plan", headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"] == "forbidden"


def test_control_wants_no_cookie_and_is_no_activity(source: Server) -> None:
    before = source.api("GET", "status?no_track_activity=1")["last_activity"]
    answer = source.raw("POST", "devcluster/control/resume", headers=CONTROL)
    assert (answer.status_code, answer.json()) == (200, None)
    health = source.raw("GET", "devcluster/control/health", headers=CONTROL).json()
    assert health == {"lease": "lease-one", "kernels": 0}
    assert source.api("GET", "status?no_track_activity=1")["last_activity"] == before


@pytest.mark.parametrize(
    ("method", "action", "body", "status", "says"),
    [
        ("POST", "warm", "no json", 400, "WarmRequest"),
        ("POST", "warm", "{}", 400, "kernels"),
        ("POST", "capture", '{"path": "relative", "capture": "c"}', 400, "path"),
        ("POST", "capture", '{"path": "/no/such/folder", "capture": "c"}', 400, "/no/such"),
        ("POST", "restore", '{"path": "/no/such/folder", "capture": "c"}', 404, "no complete"),
        ("GET", "idle?wait=soon", None, 400, "wait=soon"),
        ("GET", "idle?wait=-1", None, 400, "wait=-1"),
        ("GET", "idle?wait=nan", None, 400, "wait=nan"),
        ("POST", "explode", None, 404, "warm"),
    ],
)
def test_bad_requests_are_told_what_is_allowed(
    source: Server, method: str, action: str, body: str | None, status: int, says: str
) -> None:
    answer = source.raw(method, f"devcluster/control/{action}", headers=CONTROL, content=body)
    assert (answer.status_code, says in answer.json()["message"]) == (status, True), answer.text


def test_the_session_is_told_to_the_person_alone(source: Server) -> None:
    assert source.raw("GET", "devcluster/session").status_code == 403
    before = source.api("GET", "status?no_track_activity=1")["last_activity"]
    answer = source.raw("GET", "devcluster/session", headers=USER)
    assert answer.headers["Cache-Control"] == "no-store"
    told = answer.json()
    assert told.pop("user")
    assert told == {
        "workspace": "alice/default",
        "api": "/services/devcluster",
        "token": HUB_TOKEN,
        "lease": "lease-one",
        "host": "one",
        "flavor": "cpu",
    }
    assert source.api("GET", "status?no_track_activity=1")["last_activity"] == before


@pytest.mark.parametrize("path", ["api", "lab", "devcluster/control/health", "no/such/page"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_b45_a_request_for_another_lease_reaches_no_handler(
    source: Server, method: str, path: str
) -> None:
    headers = {**USER, **CONTROL, "X-DevCluster-Lease": "lease-of-another"}
    answer = source.raw(method, path, headers=headers)
    assert answer.status_code == 421
    assert answer.json()["error"] == "stale"


async def test_b45_a_websocket_for_another_lease_is_refused(source: Server, tab: Open) -> None:
    kernel = source.new_notebook()["kernel"]["id"]
    url = f"{source.url}{source.base}api/kernels/{kernel}/channels"
    async with aiohttp.ClientSession(headers=USER) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(url, headers={"X-DevCluster-Lease": "lease-of-another"})
        assert refused.value.status == 421
        async with client.ws_connect(url, headers={"X-DevCluster-Lease": "lease-one"}):
            pass


def test_b45_requests_for_this_lease_or_for_none_pass(source: Server) -> None:
    for headers in ({}, {"X-DevCluster-Lease": "lease-one"}):
        assert source.raw("GET", "api", headers=headers).status_code == 200


def test_terminals_are_counted(source: Server) -> None:
    name = source.api("POST", "terminals")["name"]
    try:
        plan = source.raw("POST", "devcluster/control/plan", headers=CONTROL).json()
        assert plan == {"kernels": [], "terminals": 1}
    finally:
        source.api("DELETE", f"terminals/{name}")


def test_without_a_lease_the_extension_is_idle(tmp_path: Path) -> None:
    server = Server(tmp_path / "idle", "idle", DEVCLUSTER_LEASE="")
    try:
        server.wait_up()
        assert server.raw("GET", "devcluster/session", headers=USER).status_code == 404
        assert server.raw("GET", "devcluster/control/health", headers=CONTROL).status_code == 404
        assert "devcluster.server_ext is idle" in server.log.read_text()
        assert server.api("GET", "kernels") == []
    finally:
        server.stop()
