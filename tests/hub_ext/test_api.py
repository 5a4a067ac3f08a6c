"""The REST interface over a real server, with a hub that knows a few tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from devcluster.core.errors import DevClusterError
from devcluster.core.records import Launch, StartRequest, SwitchRequest
from devcluster.hub_ext import client as calls
from devcluster.hub_ext.api import build_app
from devcluster.hub_ext.auth import Gatekeeper
from devcluster.hub_ext.endpoints import ENDPOINTS
from devcluster.hub_ext.page import safe_next
from devcluster.hub_ext.service import Service
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.hub_ext.rig import FLAVORS, Rig

BASE = "/services/devcluster/"

TOKENS: dict[str, dict[str, Any]] = {
    "alice-token": {"name": "alice", "scopes": ["custom:devcluster:use!user=alice"]},
    "alice-two": {"name": "alice", "scopes": ["custom:devcluster:use!server=alice/two"]},
    "bob-token": {"name": "bob", "scopes": ["custom:devcluster:use!user=bob"]},
    "no-scope": {"name": "carol", "scopes": ["access:services"]},
    "admin-token": {"name": "admin", "scopes": ["custom:devcluster:admin"]},
}


class FakeHub(RequestHandler):
    """Answers ``GET /hub/api/user`` as the hub does."""

    def initialize(self, asked: list[str]) -> None:
        self.asked = asked

    def get(self) -> None:
        token = self.request.headers["Authorization"].split()[-1]
        self.asked.append(token)
        if token == "hub-is-ill":
            self.set_status(503)
        elif token in TOKENS:
            self.finish({"kind": "user", **TOKENS[token]})
        else:
            self.set_status(403)


def _serve(app: Application) -> tuple[HTTPServer, str]:
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(app)
    server.add_sockets(sockets)
    return server, f"http://127.0.0.1:{sockets[0].getsockname()[1]}"


class Api:
    def __init__(self, rig: Rig, url: str, asked: list[str]) -> None:
        self.rig, self.url, self.asked = rig, url, asked
        self.http = httpx.AsyncClient(base_url=url + BASE.rstrip("/"))

    async def ask(self, token: str, call: Any) -> Any:
        client = calls.AsyncManagerClient(self.url + BASE, token)
        try:
            return await client.send(call)
        finally:
            await client.close()

    async def raw(self, method: str, path: str, token: str | None = "alice-token", **kwargs: Any):
        headers = {"Authorization": f"token {token}"} if token else {}
        return await self.http.request(method, path, headers=headers, **kwargs)


@pytest.fixture
async def api(rig: Rig) -> AsyncIterator[Api]:
    asked: list[str] = []
    hub, hub_url = _serve(Application([("/hub/api/user", FakeHub, {"asked": asked})]))
    auth = HubOAuth(
        api_url=f"{hub_url}/hub/api",
        api_token="service-token",
        oauth_client_id="service-devcluster",
        base_url=BASE,
    )
    service = Service(rig.parts, FLAVORS, rig.wishes, rig.heartbeats, rig.changes)
    gate = Gatekeeper(auth, "cluster-token", "service-token")
    server, url = _serve(build_app(service, gate, BASE, b"secret" * 8))
    api = Api(rig, url, asked)
    yield api
    await api.http.aclose()
    server.stop()
    hub.stop()
    await server.close_all_connections()
    await hub.close_all_connections()


START = StartRequest(
    flavor="cpu", launch=Launch(command=["x"], env={"T": "s3cr3t"}, prefix="/user/alice/")
)


async def test_the_story_over_http(api: Api) -> None:
    view = await api.ask("service-token", calls.start("alice", START))
    assert view.state == "starting"
    await api.rig.settle(1)
    view = await api.ask("alice-token", calls.workspace("alice"))
    assert (view.state, view.host, view.prefix) == ("running", "cpu-1", "/user/alice/")
    move = await api.ask("alice-token", calls.switch("alice", SwitchRequest(flavor="1xA100")))
    assert move.status == "running"
    await api.rig.settle(1)
    view = await api.ask("alice-token", calls.workspace("alice"))
    assert view.move.id == move.id
    assert view.move.status == "done"
    assert view.move.pause_s is not None
    assert [g.model for g in view.gpus] == ["A100"]
    flavors = {
        f.flavor.name: (f.free, f.total) for f in await api.ask("bob-token", calls.flavors())
    }
    assert flavors["1xA100"] == (1, 2)
    assert flavors["2xA100"] == (0, 1)
    events = await api.ask("alice-token", calls.events("alice"))
    assert [e.now for e in events] == ["starting", "running", "switching", "running"]
    [route] = await api.ask("cluster-token", calls.routes())
    assert (route.mode, route.backend) == ("open", "http://a100-1:1")


async def test_nobody_sees_a_secret(api: Api) -> None:
    await api.ask("service-token", calls.start("alice", START))
    await api.rig.settle(1)
    for path in ("/api/workspaces", "/api/workspaces/alice/default", "/api/hosts"):
        answer = await api.raw("GET", path, "admin-token")
        assert answer.status_code == 200
        assert "s3cr3t" not in answer.text


@pytest.mark.parametrize("token", ["bob-token", "no-scope", "alice-two"])
async def test_others_get_the_answer_for_what_does_not_exist(api: Api, token: str) -> None:
    await api.rig.running()
    for endpoint in ENDPOINTS:
        if endpoint.who != "workspace":
            continue
        answers = []
        for user in ("alice", "nobody"):
            path = endpoint.path.format(user=user, name="default")
            got = await api.raw(endpoint.method, path, token, content=b"{}")
            answers.append((got.status_code, got.text.replace(user, "X")))
        assert answers[0][0] == 404
        assert answers[0] == answers[1], "the answers tell who has a workspace"
    assert await api.ask(token, calls.workspaces()) == []
    hosts = await api.ask(token, calls.hosts())
    assert not any(h.workspaces for h in hosts)
    assert api.rig.view().state == "running"


async def test_a_token_for_one_server_opens_that_one(api: Api) -> None:
    await api.ask("service-token", calls.start("alice/two", START))
    assert [w.id for w in await api.ask("alice-two", calls.workspaces())] == ["alice/two"]
    assert [w.id for w in await api.ask("admin-token", calls.workspaces())] == ["alice/two"]


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("deadbeef", 401), ("hub-is-ill", 503)])
async def test_a_foreign_token_is_refused(api: Api, token: str | None, status: int) -> None:
    for endpoint in ENDPOINTS:
        if endpoint.who == "all":
            continue
        path = endpoint.path.format(user="alice", name="default", host="cpu-1")
        answer = await api.raw(endpoint.method, path, token)
        assert answer.status_code == status, path
        assert answer.json()["message"]
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("token", ["alice-token", "admin-token", "cluster-token"])
async def test_only_the_hub_starts(api: Api, token: str) -> None:
    with pytest.raises(DevClusterError) as refused:
        await api.ask(token, calls.start("alice", START))
    assert refused.value.status == 403
    assert await api.ask("admin-token", calls.workspaces()) == []


@pytest.mark.parametrize("token", ["alice-token", "admin-token", "service-token"])
async def test_only_parts_report_and_see_routes(api: Api, token: str) -> None:
    report = api.rig.world.hosts["cpu-1"].report()
    for call in (calls.heartbeat(report), calls.routes()):
        with pytest.raises(DevClusterError) as refused:
            await api.ask(token, call)
        assert refused.value.status == 403


async def test_the_hub_is_asked_once_for_a_token(api: Api) -> None:
    for _ in range(3):
        await api.ask("alice-token", calls.flavors())
    assert api.asked == ["alice-token"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/switch", b'{"flavor": "8xH100"}', 400, "Allowed: cpu"),
        ("/switch", b'{"flavor": -1}', 400, "flavor"),
        ("/switch", b"not json", 400, "JSON"),
        ("/switch", b"\xff\xfe", 400, "JSON"),
        ("/switch", b"[" * 100_000, 400, "JSON"),
        ("/switch", b"[]", 400, "Allowed fields: flavor"),
        ("/switch", b"{}", 400, "flavor"),
        ("/switch", b'{"flavor": "cpu", "gpus": -2}', 400, "gpus"),
        ("/switch", b'{"flavor": "1xA100", "on_busy": "kill"}', 400, "'wait'"),
        ("/switch", b'{"flavor": "8xA100"}', 409, "largest is a100-1 with 2"),
        ("/switch", b'{"flavor": "cpu"}', 409, "already on CPU"),
        ("/answer", b'{"move": "nope", "choice": "wait"}', 409, "asks"),
        ("/inflate", b"{}", 409, "running"),
        ("/cancel", b"", 409, "no move"),
        ("/nothing", b"{}", 404, "nothing"),
    ],
)
async def test_bad_input_says_what_is_allowed_and_changes_nothing(
    api: Api, path: str, body: bytes, status: int, says: str
) -> None:
    await api.rig.running()
    before = api.rig.view()
    answer = await api.raw("POST", f"/api/workspaces/alice/default{path}", content=body)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["message"]
    assert "Traceback" not in answer.text
    assert api.rig.view() == before


async def test_bad_queries_and_methods(api: Api) -> None:
    await api.rig.running()
    for query in ("wait=x", "wait=-1", "wait=nan", "wait=1&after=inf"):
        answer = await api.raw("GET", f"/api/workspaces/alice/default?{query}")
        assert answer.status_code == 400, query
    assert (await api.raw("GET", "/api/workspaces/alice/default/switch")).status_code == 405
    assert (await api.raw("DELETE", "/api/workspaces")).status_code == 405
    assert (await api.raw("GET", "/elsewhere")).status_code == 404


async def test_a_long_poll_answers_at_the_change(api: Api) -> None:
    await api.rig.running()
    view = await api.ask("alice-token", calls.workspace("alice"))
    waiting = asyncio.create_task(
        api.ask("alice-token", calls.workspace("alice", wait_s=30, after=view.since))
    )
    while not api.rig.changes._waiting:  # until the server waits
        await asyncio.sleep(0)
    assert not waiting.done()
    api.rig.switch()
    changed = await asyncio.wait_for(waiting, 10)
    assert changed.since > view.since
    assert changed.move.kind == "switch"
    # An answer that is old already comes at once.
    again = await api.ask("alice-token", calls.workspace("alice", wait_s=30, after=view.since))
    assert again.since >= changed.since


async def test_plan_touches_nothing(api: Api) -> None:
    await api.rig.running()
    before = api.rig.view()
    answer = await api.ask("alice-token", calls.plan("alice", calls.PlanRequest(flavor="2xA100")))
    assert answer.free
    assert [k.title for k in answer.plan.kernels] == ["a.ipynb"]
    assert api.rig.view() == before


async def test_the_openapi_document_lists_every_call(api: Api) -> None:
    answer = await api.raw("GET", "/api/openapi.json", None)
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    listed = {(m.upper(), p) for p, entry in document["paths"].items() for m in entry}
    assert listed == {(e.method, e.path) for e in ENDPOINTS}
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"], name
    switch = document["paths"]["/api/workspaces/{user}/{name}/switch"]["post"]
    assert (
        switch["requestBody"]["content"]["application/json"]["schema"]["title"] == "SwitchRequest"
    )


async def test_health_needs_no_token(api: Api) -> None:
    answer = await api.raw("GET", "/api/health", None)
    assert answer.json() == {"status": "ok"}


# --- the page ------------------------------------------------------------------------


@pytest.fixture
async def deflated(api: Api) -> Api:
    await api.rig.running()
    api.rig.deflate()
    await api.rig.settle(2)
    return api


NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none"}


async def _open(api: Api, token: str | None, **headers: str) -> httpx.Response:
    if token:
        headers["Authorization"] = f"token {token}"
    return await api.http.get(
        "/open/alice/default", params={"next": "/user/alice/lab?x=1"}, headers=headers
    )


async def test_the_page_sends_strangers_to_the_hub(deflated: Api) -> None:
    answer = await _open(deflated, None, **NAVIGATION)
    assert answer.status_code == 302
    assert "oauth2/authorize" in answer.headers["Location"]
    assert deflated.rig.view().state == "deflated"


async def test_the_page_brings_the_workspace_back(deflated: Api) -> None:
    answer = await _open(deflated, "alice-token", **NAVIGATION)
    assert answer.status_code == 200
    assert "/user/alice/lab?x=1" in answer.text
    await deflated.rig.settle(2)
    deflated.rig.check_whole()
    answer = await _open(deflated, "alice-token", **NAVIGATION)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/user/alice/lab?x=1")
    state = await deflated.raw("GET", "/open/alice/default/state")
    assert state.json()["state"] == "running"


@pytest.mark.parametrize("site", ["cross-site", ""])
async def test_another_site_cannot_bring_it_back(deflated: Api, site: str) -> None:
    answer = await _open(
        deflated, "alice-token", **{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": site}
    )
    assert answer.status_code == 200
    assert "<button>" in answer.text
    assert "_xsrf" in answer.text
    answer = await deflated.http.post(
        "/open/alice/default", headers={"Cookie": "service-devcluster=forged"}
    )
    assert answer.status_code == 403
    assert deflated.rig.view().state == "deflated"


async def test_the_page_of_others_does_not_exist(deflated: Api) -> None:
    answer = await _open(deflated, "bob-token", **NAVIGATION)
    assert answer.status_code == 404
    assert deflated.rig.view().state == "deflated"


@pytest.mark.parametrize(
    "asked",
    [
        "https://evil.example/",
        "//evil.example/user/alice/",
        "///user/alice/",
        "/\\evil.example/user/alice/",
        "javascript:alert(1)",
        "/user/bob/lab",
        "/user/alice/../bob/lab",
        "/user/alice/%2e%2e/bob/",
        "/user/alice/%252e%252e/bob/",
        "/user/alice/\r\nSet-Cookie: x",
        "",
    ],
)
def test_the_page_is_no_open_redirect(asked: str) -> None:
    assert safe_next(asked, "/user/alice/") == "/user/alice/"


@pytest.mark.parametrize("asked", ["/user/alice/lab?a=b#c", "/user/alice/lab/tree/a%20b.ipynb"])
def test_the_page_returns_to_where_the_person_was(asked: str) -> None:
    assert safe_next(asked, "/user/alice/") == asked
