"""``python -m demo``: a cluster of three hosts on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from demo.cluster import Cluster
from demo.parts import ROOT

_WELCOME = """
Dev Cluster for Jupyter is up, {seconds:.0f} s after the start.

  Open    {hub}
  Log in  as alice, bob or admin (any password: this is a demo)

  In another terminal, as admin:

    export DEVCLUSTER_URL={manager} DEVCLUSTER_TOKEN={token}
    {cli} ls
    {cli} switch alice --gpu 1 --model A100

  Homes, databases and logs are in {base}.
  Ctrl-C ends it; the next start finds the homes again.
"""


def main() -> None:
    """Start the demo, keep its parts alive, end it in good order."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    began = time.monotonic()
    base = Path(os.environ.get("DEVCLUSTER_DEMO_DIR", ROOT / ".demo"))
    cluster = Cluster(base, port=int(os.environ.get("DEVCLUSTER_DEMO_PORT", "8000")))
    print("Starting proxy, hub, manager, Net Switch and three agents ...", flush=True)
    try:
        cluster.start()
        cluster.wait_ready()
        welcome = _WELCOME.format(
            seconds=time.monotonic() - began,
            hub=cluster.hub_url,
            manager=cluster.manager_url,
            token=cluster.admin_token,
            cli=Path(sys.executable).with_name("devcluster"),
            base=base,
        )
        print(welcome, flush=True)
        while not over.wait(1.0):
            for part in cluster.revive():
                print(f"{part} had died and was started again.", flush=True)
    finally:
        print("Stopping ...", flush=True)
        cluster.stop(gently=True)


if __name__ == "__main__":
    main()
