"""A whole Dev Cluster on this machine, from its real processes.

``make demo`` runs one, and so do the tests::

    cluster = Cluster(base_dir)
    cluster.start()
    try:
        cluster.wait_ready()
        ...  # cluster.hub_url, cluster.admin_token
        cluster.kill("agent:a100-1")
        cluster.revive()
    finally:
        cluster.stop()

Its parts are ``proxy`` (configurable-http-proxy), ``netswitch``, ``hub``, ``manager``
(which the hub starts), and one ``agent:HOST`` for each host. Each writes to
``BASE/logs/PART.log``. Ports and secrets are chosen once and kept in ``BASE``, so a
second cluster with the same folder finds the homes, users and addresses of the first.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import psutil
from devcluster.hub_ext import client as manager_client

from demo.parts import ROOT, Parts

HOSTS = ("cpu-1", "v100-1", "a100-1")
_PORTS = ("hub", "proxy_api", "hub_internal", "manager", "netswitch", "netswitch_control")
_SECRETS = ("cluster", "service", "proxy", "admin")
_GRACE_S = 10.0


class Cluster:
    """Starts, watches and ends the processes of a cluster. All methods may be called by threads.

    Parameters
    ----------
    base_dir
        Where everything is kept: homes, databases, logs, ports, secrets.
    port
        The public port; 0 for a free one. Taken at the first start; later the same again.
    faults
        A folder for :mod:`devcluster.core.faults`; all parts look there.
    hosts
        Names of the hosts file's hosts to start agents for.
    hosts_file, flavors_file
        The demo's own by default.
    """

    def __init__(
        self,
        base_dir: Path | str,
        *,
        port: int = 0,
        faults: Path | None = None,
        hosts: Iterable[str] = HOSTS,
        hosts_file: Path = ROOT / "demo" / "hosts.yaml",
        flavors_file: Path = ROOT / "demo" / "flavors.yaml",
    ) -> None:
        self.base_dir = Path(base_dir).resolve()
        self.hosts = tuple(hosts)
        self.hosts_file, self.flavors_file = hosts_file, flavors_file
        self.logs = self.base_dir / "logs"
        self._run = self.base_dir / "run"
        self._lock = threading.RLock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for folder in (self.base_dir, self.logs, self._run):
            folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        self.ports = self._kept("ports.json", lambda: _free_ports([*_PORTS, *self.agents], port))
        if any(_taken(number) for number in self.ports.values()):
            (self.base_dir / "ports.json").unlink()
            self.ports = self._kept(
                "ports.json", lambda: _free_ports([*_PORTS, *self.agents], port)
            )
        self.tokens = self._kept(
            "secrets.json", lambda: {name: secrets.token_hex(32) for name in _SECRETS}
        )
        self._plan = Parts(
            self.base_dir, self.ports, self.tokens, self.hosts_file, self.flavors_file, faults
        )

    # --- where things are -------------------------------------------------------------

    @property
    def agents(self) -> list[str]:
        """The names of the agents' parts."""
        return [f"agent:{host}" for host in self.hosts]

    @property
    def parts(self) -> list[str]:
        """The names of all parts."""
        return ["proxy", "netswitch", *self.agents, "hub", "manager"]

    @property
    def hub_url(self) -> str:
        """The address that people open."""
        return self._plan.at("hub")

    @property
    def manager_url(self) -> str:
        """The manager's REST interface, through the hub's proxy: ``DEVCLUSTER_URL``."""
        return f"{self.hub_url}/services/devcluster"

    @property
    def netswitch_url(self) -> str:
        """The Net Switch, as the hub's proxy reaches it."""
        return self._plan.at("netswitch")

    @property
    def netswitch_control_url(self) -> str:
        """The Net Switch's control interface."""
        return self._plan.at("netswitch_control")

    @property
    def admin_token(self) -> str:
        """A token for hub and manager that may do everything."""
        return str(self.tokens["admin"])

    @property
    def cluster_token(self) -> str:
        """What manager, agents and Net Switch share."""
        return str(self.tokens["cluster"])

    def agent_url(self, host: str) -> str:
        """Return the address of a host's agent."""
        return self._plan.at(f"agent:{host}")

    def host_dir(self, host: str) -> Path:
        """Return the folder in which a host keeps its homes and captures."""
        return self.base_dir / "hosts" / host

    def log(self, part: str) -> Path:
        """Return the log file of a part; the manager writes into the hub's."""
        name = "hub" if part == "manager" else part.replace(":", "-")
        return self.logs / f"{name}.log"

    def pid(self, part: str) -> int | None:
        """Return the process id of a part, None if it does not run."""
        if part != "manager":
            process = self._processes.get(part)
            return process.pid if process is not None and process.poll() is None else None
        try:
            pid = int((self._run / "manager.pid").read_text())
            running = psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return pid if running else None

    def pids(self) -> dict[str, int]:
        """Return the process ids of all parts that run."""
        found = {part: self.pid(part) for part in self.parts}
        return {part: pid for part, pid in found.items() if pid is not None}

    # --- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start all parts; returns at once."""
        for part in self.parts:
            if part != "manager":
                self.start_part(part)

    def start_part(self, part: str) -> None:
        """Start one part, unless it runs. The manager is the hub's to start."""
        with self._lock:
            if part == "manager":
                _wait(lambda: self.pid("manager") is not None, "the manager to start", 15)
                return
            if self.pid(part) is not None:
                return
            with self.log(part).open("ab") as log:
                process = subprocess.Popen(
                    self.command(part),
                    env=self.environment(part),
                    cwd=self.base_dir,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._processes[part] = process
            self._remember()

    def wait_ready(self, deadline_s: float = 60.0) -> None:
        """Wait until the hub answers and the manager sees every host.

        Raises
        ------
        TimeoutError
            Says what is missing, with the end of that part's log.
        """
        end = time.monotonic() + deadline_s
        while (missing := self._missing()) is not None:
            part, why = missing
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{part} was not ready within {deadline_s:g} s: {why}\n{self.tail(part)}"
                )
            time.sleep(0.05)

    def kill(self, part: str) -> None:
        """End a part as a power cut would: SIGKILL. What it started lives on, but the manager."""
        self._end(part, signal.SIGKILL)

    def stop_part(self, part: str) -> None:
        """End a part in good order: SIGTERM, and SIGKILL if it does not listen."""
        self._end(part, signal.SIGTERM)

    def restart(self, part: str) -> None:
        """End a part in good order, and start it again."""
        self.stop_part(part)
        self.start_part(part)

    def revive(self) -> list[str]:
        """Start again every part that has died; return their names."""
        with self._lock:
            dead = [part for part in self.parts if self.pid(part) is None]
            for part in dead:
                self.start_part(part)
            return dead

    def stop(self, gently: bool = False) -> None:
        """End everything, the workspaces too. Homes and deflated workspaces stay on disk.

        Parameters
        ----------
        gently
            First have the hub stop the servers that run, so that the next start finds
            nothing in the middle of something.
        """
        if gently:
            self._stop_servers()
        with self._lock:
            for part in ("hub", *self.agents, "netswitch", "proxy"):
                process = self._processes.get(part)
                if process is not None and process.poll() is None:
                    process.terminate()
            for process in self._processes.values():
                _reap(process)
            self._processes.clear()
            self._end_pids(self.workspace_pids())
            (self._run / "pids.json").unlink(missing_ok=True)
            (self._run / "manager.pid").unlink(missing_ok=True)

    def workspace_pids(self) -> list[int]:
        """Return the processes of this cluster's workspaces that are alive, frozen ones too."""
        found = []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except (psutil.Error, OSError):
                continue
            home = environment.get("HOME", "")
            if "DEVCLUSTER_LEASE" in environment and home.startswith(f"{self.base_dir}/"):
                found.append(process.pid)
        return found

    def tail(self, part: str, lines: int = 30) -> str:
        """Return the end of a part's log."""
        try:
            text = self.log(part).read_text(errors="replace")
        except FileNotFoundError:
            return f"({part} has no log)"
        return "\n".join(text.splitlines()[-lines:])

    # --- how the parts are started --------------------------------------------------------

    def command(self, part: str) -> list[str]:
        """Return the command line of a part."""
        return self._plan.command(part)

    def environment(self, part: str) -> dict[str, str]:
        """Return the whole environment of a part."""
        return self._plan.environment(part)

    # --- within -------------------------------------------------------------------------------

    def _kept(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what a file in the base folder keeps; make it at first."""
        path = self.base_dir / name
        wanted = make()
        try:
            kept = json.loads(path.read_text())
            if kept.keys() == wanted.keys():
                return dict(kept)
        except (FileNotFoundError, ValueError):
            pass
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(wanted))
        fresh.replace(path)
        return wanted

    def _missing(self) -> tuple[str, str] | None:
        """Return a part that is not ready and why, None if all are."""
        for part in self.parts:
            if self.pid(part) is None:
                return part, "it does not run"
        headers = {"Authorization": f"token {self.admin_token}"}
        try:
            answer = httpx.get(f"{self.hub_url}/hub/api/users", headers=headers, timeout=5)
            if answer.status_code != 200:
                return "hub", f"HTTP {answer.status_code}: {answer.text[:300]}"
            with manager_client.ManagerClient(self.manager_url, self.admin_token) as manager:
                seen = {h.name for h in manager.send(manager_client.hosts()) if h.state == "fresh"}
        except httpx.HTTPError as error:
            return "hub", repr(error)
        except Exception as error:  # whatever the manager says before it is ready
            return "manager", str(error)
        for host in self.hosts:
            if host not in seen:
                return f"agent:{host}", f"the manager sees only {sorted(seen)}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.ports["netswitch"])):
                return "netswitch", "its port is closed"
        return None

    def _end(self, part: str, number: int) -> None:
        with self._lock:
            if part == "manager":
                pid = self.pid("manager")
                if pid is not None:
                    process = psutil.Process(pid)
                    process.send_signal(number)
                    _wait(lambda: self.pid("manager") != pid, "the manager to end", _GRACE_S)
                return
            process_ = self._processes.pop(part, None)
            if process_ is not None:
                process_.send_signal(number)
                _reap(process_)

    def _stop_servers(self) -> None:
        headers = {"Authorization": f"token {self.admin_token}"}
        try:
            with (
                manager_client.ManagerClient(self.manager_url, self.admin_token) as manager,
                httpx.Client(headers=headers, base_url=f"{self.hub_url}/hub/api") as hub,
            ):
                run = [w for w in manager.send(manager_client.workspaces()) if w.state == "running"]
                for workspace in run:
                    name = workspace.name if workspace.name != "default" else ""
                    hub.delete(
                        f"/users/{workspace.user}/" + (f"servers/{name}" if name else "server")
                    )
                ended = {w.id for w in run}
                _wait(
                    lambda: (
                        not any(
                            w.id in ended and w.state in ("running", "stopping")
                            for w in manager.send(manager_client.workspaces())
                        )
                    ),
                    "the servers to stop",
                    _GRACE_S,
                )
        except Exception as error:  # then they end the hard way
            print(f"Could not stop all servers in good order: {error}", file=sys.stderr)

    def _remember(self) -> None:
        """Record what runs, with its birth: a process id alone may be somebody else's later."""
        born = {}
        for part, process in self._processes.items():
            try:
                born[part] = [process.pid, psutil.Process(process.pid).create_time()]
            except psutil.NoSuchProcess:
                continue
        fresh = self._run / "pids.new"
        fresh.write_text(json.dumps(born))
        fresh.replace(self._run / "pids.json")

    def _sweep(self) -> None:
        """End what a former run with this folder left behind, as after a crash."""
        try:
            born = json.loads((self._run / "pids.json").read_text())
        except (FileNotFoundError, ValueError):
            return
        for pid, birth in born.values():
            try:
                process = psutil.Process(pid)
                if process.create_time() == birth:
                    process.kill()
                    process.wait(_GRACE_S)
            except psutil.NoSuchProcess:
                continue
        self._end_pids(self.workspace_pids())

    @staticmethod
    def _end_pids(pids: Iterable[int]) -> None:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _free_ports(names: list[str], first: int) -> dict[str, int]:
    """Choose a free port for each name; ``first`` for the first one, if it is not 0."""
    sockets: list[socket.socket] = []
    try:
        for _ in names:
            sockets.append(socket.create_server(("127.0.0.1", 0)))
        chosen = dict(zip(names, (s.getsockname()[1] for s in sockets), strict=True))
    finally:
        for one in sockets:
            one.close()
    return chosen | ({names[0]: first} if first else {})


def _taken(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(ready: Callable[[], bool], what: str, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline_s:g} s in vain for {what}")
        time.sleep(0.05)
