"""The extension in jupyterhub-singleuser; its hub is a double, scenarios have the real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import jupyterhub
import pytest

from .conftest import HUB_TOKEN, SECRET, Server

PERSON = "token-of-alice's-browser"
SCOPE = "access:servers!server=alice/"


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as a server asks for: its version, and who has a token."""

    def do_GET(self) -> None:
        if self.path.endswith("/api/user"):
            known = self.headers.get("Authorization", "").endswith(PERSON)
            user = {
                "kind": "user",
                "name": "alice",
                "admin": False,
                "groups": [],
                "scopes": [SCOPE],
            }
            self.answer(200 if known else 403, user if known else {})
        else:
            self.answer(200, {"version": jupyterhub.__version__})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, {})

    def answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("X-JupyterHub-Version", jupyterhub.__version__)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def singleuser(tmp_path: Path) -> Iterator[Server]:
    hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=hub.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{hub.server_address[1]}"
    server = Server(
        tmp_path / "hubbed",
        "hubbed",
        [sys.executable, "-m", "jupyterhub.singleuser"],
        JUPYTERHUB_API_URL=f"{address}/hub/api",
        JUPYTERHUB_ACTIVITY_URL=f"{address}/hub/api/users/alice/activity",
        JUPYTERHUB_BASE_URL="/",
        JUPYTERHUB_CLIENT_ID="jupyterhub-user-alice",
        JUPYTERHUB_HOST="",
        JUPYTERHUB_OAUTH_ACCESS_SCOPES=json.dumps([SCOPE]),
        JUPYTERHUB_OAUTH_CALLBACK_URL="/user/alice/oauth_callback",
        JUPYTERHUB_OAUTH_SCOPES=json.dumps([SCOPE]),
        JUPYTERHUB_SERVER_NAME="",
        JUPYTERHUB_SERVICE_PREFIX="/user/alice/",
        JUPYTERHUB_USER="alice",
        DEVCLUSTER_PUBLIC_URL="https://hub.example/services/devcluster",
    )
    try:
        yield server.wait_up()
    finally:
        server.stop()
        hub.shutdown()
        thread.join()
        hub.server_close()


def test_it_serves_the_agent_by_its_secret_and_the_person_by_the_hub(singleuser: Server) -> None:
    control = {"X-DevCluster-Control": SECRET}
    person = {"Authorization": f"token {PERSON}"}
    assert singleuser.raw("GET", "devcluster/control/health", headers=control).json() == {
        "lease": "lease-hubbed",
        "kernels": 0,
    }
    for headers in ({}, person):
        refused = singleuser.raw("GET", "devcluster/control/health", headers=headers)
        assert refused.status_code == 403
    assert singleuser.raw("POST", "devcluster/control/resume", headers=control).status_code == 200
    for headers in ({}, control):
        assert singleuser.raw("GET", "devcluster/session", headers=headers).status_code == 403
    told = singleuser.raw("GET", "devcluster/session", headers=person).json()
    assert told["user"] == "alice"
    assert told["api"] == "https://hub.example/services/devcluster"
    assert told["token"] == HUB_TOKEN
    other = {**person, "X-DevCluster-Lease": "lease-of-another"}
    assert singleuser.raw("GET", "devcluster/session", headers=other).status_code == 421
