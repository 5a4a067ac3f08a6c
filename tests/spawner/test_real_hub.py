"""A real JupyterHub with its real proxy and our own configuration file; the manager is a stub."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from devcluster.core.lifecycle import State, Wish

from demo.cluster import Cluster
from tests.support.stub_manager import StubManager, move, step, stub_manager

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]


class HubOnly(Cluster):
    """Hub and proxy alone; the hub's manager service is a process that waits."""

    def environment(self, part: str) -> dict[str, str]:
        # Stands for the manager; PR_SET_PDEATHSIG (1) ends it with a hub that is killed.
        code = "import ctypes, signal; ctypes.CDLL(None).prctl(1, 9); signal.pause()"
        idle = f"{sys.executable} -c '{code}'"
        extra = {"DEVCLUSTER_MANAGER_KEEPER": idle} if part == "hub" else {}
        return super().environment(part) | extra


class Server(BaseHTTPRequestHandler):
    """What the Net Switch leads to: says who answers, or 503 for a deflated workspace."""

    status = 200

    def do_GET(self) -> None:
        body = b'{"version": "behind the Net Switch"}'
        self.send_response(self.status)
        self.send_header("X-JupyterHub-Version", "6.0.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Hub:
    """The hub's REST interface, as an admin's program uses it."""

    def __init__(self, cluster: Cluster, stub: StubManager) -> None:
        self.cluster, self.stub = cluster, stub
        self.tokens: list[str] = []

    def ask(self, method: str, path: str, token: str = "", **body: Any) -> httpx.Response:
        return httpx.request(
            method,
            f"{self.cluster.hub_url}/hub/api{path}",
            headers={"Authorization": f"token {token or self.cluster.admin_token}"},
            json=body or None,
            timeout=30,
        )

    def servers(self) -> dict[str, Any]:
        return dict(self.ask("GET", "/users/alice").json()["servers"])

    def up(self) -> bool:
        try:
            return self.ask("GET", "/users").status_code == 200
        except httpx.HTTPError:
            return False

    def start(self, path: str, body: Any) -> Any:
        """Take a start as the manager does: the workspace runs a moment later."""
        self.tokens.append(body["launch"]["env"]["JUPYTERHUB_API_TOKEN"])
        first = self.stub.set(state=State.starting, wish=Wish.running, move=move(id=path))
        threading.Timer(0.2, self.stub.set, kwargs={"state": State.running}).start()
        return first


def until(ready: Callable[[], bool], what: str, deadline_s: float = 90.0) -> None:
    end = time.monotonic() + deadline_s
    while not ready():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


@contextmanager
def net_switch(port: int) -> Iterator[type[Server]]:
    with ThreadingHTTPServer(("127.0.0.1", port), Server) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    cluster = HubOnly(tmp_path_factory.mktemp("hub"), hosts=())
    with (
        stub_manager(cluster.ports["manager"]) as (stub, _),
        net_switch(cluster.ports["netswitch"]),
    ):
        cluster.start_part("proxy")
        cluster.start_part("hub")
        made = Hub(cluster, stub)
        try:
            until(made.up, "the hub")
            yield made
        finally:
            cluster.stop()


@pytest.fixture(autouse=True)
def _from_the_beginning(hub: Hub) -> Iterator[None]:
    hub.stub.views.clear()
    hub.stub.asked.clear()
    hub.stub.on = {
        ("POST", "start"): hub.start,
        ("POST", "stop"): lambda _path, _body: hub.stub.set(state=State.stopped, wish=Wish.stopped),
    }
    yield
    Server.status = 200
    hub.ask("DELETE", "/users/alice/server")
    until(lambda: hub.servers() == {}, "the server to be gone")


def test_a_spawn_leads_through_the_net_switch_and_a_stop_ends_it(hub: Hub) -> None:
    began = time.monotonic()
    answer = hub.ask("POST", "/users/alice/server", flavor="cpu")
    assert answer.status_code == 201, answer.text
    assert time.monotonic() - began < 20
    address = f"{hub.cluster.hub_url}/user/alice/api"
    assert httpx.get(address).json() == {"version": "behind the Net Switch"}
    assert hub.servers()[""]["ready"]
    assert hub.ask("DELETE", "/users/alice/server").status_code == 204
    assert hub.stub.calls("POST", "/stop")
    assert hub.servers() == {}


def test_a_servers_token_may_use_the_manager_for_its_own_workspace_only(hub: Hub) -> None:
    hub.ask("POST", "/users/alice/server", flavor="cpu")
    scopes = hub.ask("GET", "/user", token=hub.tokens[-1]).json()["scopes"]
    assert "custom:devcluster:use!server=alice/" in scopes
    assert "access:services!service=devcluster" in scopes
    assert "users:activity!user=alice" in scopes
    assert not [scope for scope in scopes if scope.startswith("custom:") and "alice" not in scope]
    assert not [scope for scope in scopes if scope.startswith(("servers", "tokens"))]
    state = hub.servers()[""]["state"]
    assert hub.tokens[-1] not in str(state)  # admins can read it


def test_people_may_use_their_own_workspaces_and_admins_all(hub: Hub) -> None:
    def scopes_of(user: str) -> list[str]:
        made = hub.ask("POST", f"/users/{user}/tokens", note="test").json()
        found = hub.ask("GET", "/user", token=made["token"]).json()["scopes"]
        return sorted(scope for scope in found if scope.startswith("custom:"))

    assert scopes_of("bob") == ["custom:devcluster:use!user=bob"]
    assert scopes_of("admin")[0] == "custom:devcluster:admin"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"flavor": "9xH100"}, "Allowed: cpu, 1xA100"),
        ({"flavor": "cpu", "env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "Unknown option 'env'"),
        ({"flavor": ["cpu"]}, "must be one name"),
    ],
)
def test_b61_bad_options_by_rest_are_refused_and_start_nothing(
    hub: Hub, body: dict[str, Any], says: str
) -> None:
    answer = hub.ask("POST", "/users/alice/server", **body)
    assert answer.status_code == 400
    assert says in answer.json()["message"]
    assert not hub.stub.calls("POST", "/start")


def test_b01_a_server_named_like_the_default_one_is_refused(hub: Hub) -> None:
    answer = hub.ask("POST", "/users/alice/servers/default", flavor="cpu")
    assert answer.status_code == 400
    assert "Choose another name" in answer.json()["message"]


def test_a_failed_spawn_tells_its_reason(hub: Hub) -> None:
    def fail(path: str, _body: Any) -> Any:
        return hub.stub.set(
            state=State.failed, wish=Wish.running, reason="The disk is full.",
            move=move("failed", id=path, steps=[step("prepare", 1.0, 2.0)]),
        )  # fmt: skip

    hub.stub.on["POST", "start"] = fail
    answer = hub.ask("POST", "/users/alice/server", flavor="cpu")
    assert answer.status_code == 500
    assert "The disk is full." in answer.text


def test_the_spawn_page_offers_the_flavors(hub: Hub) -> None:
    with httpx.Client(base_url=hub.cluster.hub_url, follow_redirects=True) as browser:
        browser.get("/hub/login")
        form = {"username": "bob", "password": "any", "_xsrf": browser.cookies["_xsrf"]}
        page = browser.post("/hub/login", data=form)
        assert page.url.path == "/hub/spawn"
        assert 'name="flavor" value="cpu" required checked' in page.text
        assert "3 free" in page.text


@pytest.mark.parametrize("state", [State.running, State.deflated])
def test_b03_a_hub_that_is_killed_finds_its_servers_again_and_stops_none(
    hub: Hub, state: State
) -> None:
    hub.ask("POST", "/users/alice/server", flavor="cpu")
    hub.stub.set(state=state)
    Server.status = 503 if state is State.deflated else 200
    hub.cluster.kill("hub")
    hub.stub.raw = (503, b"<html>not yet</html>")  # nor does the manager answer
    hub.cluster.start_part("hub")
    until(hub.up, "the hub")
    hub.stub.raw = None
    until(lambda: hub.servers().get("", {}).get("ready", False), "the server to be ready")
    assert not hub.stub.calls("POST", "/stop")
    Server.status = 200
    address = f"{hub.cluster.hub_url}/user/alice/api"
    assert httpx.get(address).status_code == 200
    again = hub.ask("GET", "/user", token=hub.tokens[-1])
    assert again.status_code == 200  # the server's token outlived the hub
