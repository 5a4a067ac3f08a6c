"""The running cluster as tests see it: faults to plant, processes to count."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from demo.cluster import Cluster


@contextmanager
def running_world(make_folder: Callable[[str], Path]) -> Iterator[World]:
    """Run a cluster of its own folder, with another one for faults."""
    faults = make_folder("faults")
    cluster = Cluster(make_folder("cluster"), faults=faults)
    cluster.start()
    try:
        cluster.wait_ready(120)
        yield World(cluster, faults)
    finally:
        cluster.stop()


class World:
    """A running :class:`demo.cluster.Cluster` and the folder of its fault points."""

    def __init__(self, cluster: Cluster, faults: Path) -> None:
        self.cluster, self._faults = cluster, faults
        self.hub = cluster.hub_url.rstrip("/")
        self.admin_token = cluster.admin_token

    # --- faults -----------------------------------------------------------------

    def plant(self, point: str, action: str) -> None:
        """Make the next process that reaches a fault point do ``action``."""
        hidden = self._faults / f".{point}"
        hidden.write_text(action)
        hidden.rename(self._faults / point)  # a process never reads half of it

    def unplant(self) -> list[str]:
        """Remove faults that nobody reached, and name them."""
        left = sorted(path.name for path in self._faults.iterdir())
        for name in left:
            (self._faults / name).unlink(missing_ok=True)
        return left

    # --- parts ------------------------------------------------------------------

    def revive(self) -> list[str]:
        """Start again what has died; say what that was."""
        return self.cluster.revive()

    @contextmanager
    def reviving(self) -> Iterator[None]:
        """Start parts again as they die, as systemd would."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.3):
                self.cluster.revive()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(30)

    # --- processes ----------------------------------------------------------------

    def servers(self) -> dict[str, list[str]]:
        """Return lease ids by workspace, of the Jupyter servers that are alive."""
        found: dict[str, set[str]] = {}
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
            except (psutil.Error, OSError):
                continue
            lease = environment.get("DEVCLUSTER_LEASE")
            base = str(self.cluster.base_dir)
            if lease and environment.get("HOME", "").startswith(base):
                found.setdefault(environment["DEVCLUSTER_WORKSPACE"], set()).add(lease)
        return {workspace: sorted(leases) for workspace, leases in found.items()}

    def check_processes(self, deadline_s: float = 30.0) -> None:
        """Assert that no workspace has two sets of processes, now or soon."""
        end = time.monotonic() + deadline_s
        while True:
            double = {w: leases for w, leases in self.servers().items() if len(leases) > 1}
            if not double:
                return
            assert time.monotonic() < end, f"two owners of one workspace: {double}"
            time.sleep(0.2)
