"""Speaks the server extension's control interface, with a variable and some real processes.

Standard library only, so that it starts at once. ``STAND_IN`` in the environment changes
how it behaves: ``die`` ends at once, ``die-late`` on the first warm, ``stubborn`` ignores SIGTERM,
``refuse`` fails each capture, ``foreign`` answers for another lease.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MODE = os.environ.get("STAND_IN", "")
STATE: dict[str, Any] = {"x": None, "kernels": 0, "resumed": 0}
LOCK = threading.Lock()

# Writes a tick to the home for as long as it runs, detached as a kernel or a daemon is.
TICKER = (
    "import os, sys, time\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "f = open(sys.argv[1], 'ab', 0)\n"
    "open(sys.argv[1] + '.pid', 'w').write(str(os.getpid()))\n"
    "while True: f.write(b'.'); time.sleep(0.002)\n"
)


class Refused(Exception):
    pass


def start_ticker(name: str) -> None:
    subprocess.Popen([sys.executable, "-I", "-S", "-c", TICKER, str(Path.home() / name)]).wait()


def act(method: str, action: str, body: dict[str, Any]) -> Any:
    with LOCK:
        if (method, action) == ("GET", "health"):
            lease = "another" if MODE == "foreign" else os.environ["DEVCLUSTER_LEASE"]
            return {"lease": lease, "kernels": STATE["kernels"]}
        if action == "warm":
            if MODE == "die-late":
                print("out of luck", flush=True)
                os._exit(3)
            STATE["kernels"] += len(body["kernels"])
            return None
        if action == "plan":
            return {"kernels": [], "terminals": 1}
        if action == "idle":
            return True
        if action == "interrupt":
            return None
        if action == "capture":
            if MODE == "refuse":
                raise Refused
            Path(body["path"], "sub").mkdir()
            Path(body["path"], "state.json").write_text(json.dumps(STATE))
            Path(body["path"], "sub", "b.bin").write_bytes(b"\1" * 100_000)
            return {"capture": body["capture"], "kernels": []}
        if action == "resume":
            STATE["resumed"] += 1
            return None
        if action == "restore":
            STATE["x"] = json.loads(Path(body["path"], "state.json").read_text())["x"]
            return {"kernels": []}
    raise KeyError(action)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, content: Any) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
        path = urlsplit(self.path).path.removeprefix(prefix)
        if path == "state":
            if "x" in body:
                STATE["x"] = body["x"]
            if "tick" in body:
                start_ticker(body["tick"])
            seen = {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv}
            self._answer(200, {**STATE, **seen})
            return
        if self.headers.get("X-DevCluster-Control") != os.environ["DEVCLUSTER_CONTROL"]:
            self._answer(403, {"error": "forbidden", "message": "no", "details": {}})
            return
        try:
            self._answer(200, act(self.command, path.removeprefix("devcluster/control/"), body))
        except Refused:
            message = {"error": "busy", "message": "A kernel is busy.", "details": {}}
            self._answer(409, message)

    do_GET = do_POST = _do


def main() -> None:
    if MODE == "die":
        print("cannot open the shop", flush=True)
        sys.exit(7)
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer((url.hostname or "", url.port or 0), Handler).serve_forever()


main()
