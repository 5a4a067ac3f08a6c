"""A manager that says what a test tells it to, over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from devcluster.core.errors import DevClusterError, NotFound
from devcluster.core.lifecycle import MoveKind, State, Wish
from devcluster.core.records import (
    FlavorView,
    MoveView,
    StepReport,
    WorkspaceView,
)
from devcluster.core.resources import Flavor
from pydantic import BaseModel

GIB = 2**30
FLAVORS = [
    FlavorView(
        flavor=Flavor(name="cpu", title="CPU only", cpus=2, memory=4 * GIB), free=3, total=4
    ),
    FlavorView(
        flavor=Flavor(
            name="1xA100",
            title="1 × A100",
            gpu_model="A100",
            gpus=1,
            cpus=8,
            memory=32 * GIB,
        ),
        free=0,
        total=2,
    ),
]


def move(status: str = "running", kind: MoveKind = MoveKind.start, **fields: Any) -> MoveView:
    """Return a move."""
    values: dict[str, Any] = {
        "id": "m1",
        "workspace": "alice/default",
        "kind": kind,
        "status": status,
        "created": 1.0,
        "ended": 2.0 if status in ("done", "failed", "cancelled") else None,
    }
    return MoveView(**(values | fields))


def step(name: str, began: float = 1.0, ended: float | None = None) -> StepReport:
    """Return a step of a move."""
    return StepReport(step=name, began=began, ended=ended)  # type: ignore[arg-type]


class StubManager:
    """Holds records, answers calls, remembers what was asked.

    Attributes
    ----------
    on
        What to do for ``(method, last part of the path)``: a function of path and
        body that returns a record, or raises an error of :mod:`devcluster.core.errors`.
    asked
        Every request, as (method, path without query, body as JSON).
    """

    def __init__(self) -> None:
        self.views: dict[str, WorkspaceView] = {}
        self.flavors = list(FLAVORS)
        self.asked: list[tuple[str, str, Any]] = []
        self.tokens: set[str] = set()
        self.on: dict[tuple[str, str], Callable[[str, Any], Any]] = {}
        self.raw: tuple[int, bytes] | None = None
        self.changed = threading.Condition()
        self.over = False

    def set(self, workspace: str = "alice/default", **fields: Any) -> WorkspaceView:
        """Make or change a workspace's record; whoever waits for news gets it."""
        with self.changed:
            old = self.views.get(workspace)
            user, _, name = workspace.partition("/")
            values: dict[str, Any] = (
                dict(old)
                if old is not None
                else {
                    "id": workspace,
                    "user": user,
                    "name": name,
                    "state": State.created,
                    "wish": Wish.running,
                    "prefix": f"/user/{user}/",
                }
            )
            values |= fields | {"since": max(time.time(), (old.since if old else 0.0) + 1e-3)}
            self.views[workspace] = WorkspaceView(**values)
            self.changed.notify_all()
            return self.views[workspace]

    def calls(self, method: str, ending: str) -> list[Any]:
        """Return the bodies of the requests whose path ends so."""
        return [body for m, path, body in self.asked if m == method and path.endswith(ending)]

    def answer(self, method: str, url: str, body: Any) -> Any:
        """Return what to answer: a record, a list of records, or a boolean."""
        parts = urlsplit(url)
        path = unquote(parts.path)
        last = path.rsplit("/", 1)[-1]
        with self.changed:
            self.asked.append((method, path, body))
            self.changed.notify_all()
        if (method, last) in self.on:
            return self.on[method, last](path, body)
        if path.endswith("/api/flavors"):
            return self.flavors
        if path.endswith("/api/workspaces"):
            return list(self.views.values())
        _, _, rest = path.partition("/api/workspaces/")
        names = rest.split("/")
        if method != "GET" or len(names) != 2:
            raise NotFound(f"the stub knows no {method} {path}")
        workspace = "/".join(names)
        query = parse_qs(parts.query)
        end = time.monotonic() + float(query.get("wait", ["0"])[0])
        after = float(query.get("after", ["0"])[0])
        with self.changed:
            while workspace in self.views and self.views[workspace].since <= after:
                if self.over or not self.changed.wait(end - time.monotonic()):
                    break
            if workspace not in self.views:
                raise NotFound(f"There is no workspace {workspace!r}.")
            return self.views[workspace]


def _handler(stub: StubManager) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            sent = self.rfile.read(length)
            stub.tokens.add(self.headers.get("Authorization", ""))
            status, body = 200, b""
            if stub.raw is not None:
                status, body = stub.raw
            else:
                try:
                    found = stub.answer(self.command, self.path, json.loads(sent) if sent else None)
                    body = json.dumps(_plain(found)).encode()
                except DevClusterError as error:
                    status, body = error.status, json.dumps(error.to_json()).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                # A lab that runs alone is of another origin; behind a hub it is one.
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:
                self.close_connection = True  # who asked has gone

        def do_OPTIONS(self) -> None:
            self.send_response(204)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "authorization, content-type")
            self.send_header("Access-Control-Allow-Methods", "GET, POST")
            self.end_headers()

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


@contextmanager
def stub_manager(port: int = 0) -> Iterator[tuple[StubManager, str]]:
    """Run a stub; gives it and its address."""
    stub = StubManager()
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(stub))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield stub, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        with stub.changed:
            stub.over = True
            stub.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()
