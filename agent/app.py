"""``devcluster-agent``: settings and wiring of the one agent that a host has."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from aiohttp import web
from devcluster.core.errors import BadRequest, DevClusterError
from devcluster.core.records import HostReport
from devcluster.hub_ext.client import AsyncManagerClient
from traitlets import Bool, Enum, Float, Integer, Unicode, default
from traitlets.config import Application, catch_config_error

from .api import Api
from .heartbeat import Heartbeat, Sequence
from .homes.folders import Folders
from .hosts_file import read_host
from .inventory import Inventory
from .lease_store import LeaseStore
from .leases import Leases
from .runtimes.place import MODES, Places, choose
from .runtimes.process import ProcessRuntime, machine_boot


class Agent(Application):
    """Runs workspaces on this host for a Dev Cluster's manager."""

    name = "devcluster-agent"
    description = "Runs workspaces on this host for a Dev Cluster's manager."

    config_file = Unicode("", help="A traitlets configuration file (Python or JSON).").tag(
        config=True
    )
    host = Unicode(help="This host's name in the cluster; by default its network name.").tag(
        config=True
    )
    hosts_file = Unicode(
        "",
        help="YAML file that declares hosts and their GPUs. Without it the machine's own CPUs, "
        "memory and NVIDIA GPUs are offered.",
    ).tag(config=True)
    data_dir = Unicode(
        "/var/lib/devcluster/agent",
        help="Where homes, captures and records are kept. One agent a folder.",
    ).tag(config=True)
    home_root = Unicode(
        "/var/lib/devcluster/home",
        help="The folder below which every workspace sees its home; the same on all hosts.",
    ).tag(config=True)
    ip = Unicode(
        "127.0.0.1",
        help="The address of this host that the agent and the workspaces' servers listen on.",
    ).tag(config=True)
    port = Integer(8770, min=0, max=65535, help="The agent's port; 0 takes any free one.").tag(
        config=True
    )
    advertise_url = Unicode(
        "", help="Where the manager and other agents reach this agent; by default http://IP:PORT."
    ).tag(config=True)
    manager_url = Unicode(
        "http://127.0.0.1:8000/services/devcluster", help="The manager's address."
    ).tag(config=True)
    cluster_token = Unicode(
        help="The secret that all parts of the cluster share. Better set in the environment, "
        "as DEVCLUSTER_CLUSTER_TOKEN."
    ).tag(config=True)
    heartbeat_s = Float(
        5.0, min=0.1, help="Seconds between two reports to the manager; changes go at once."
    ).tag(config=True)
    gpu_probe_s = Float(60.0, min=1.0, help="Seconds between two questions to the driver.").tag(
        config=True
    )
    start_timeout_s = Float(100.0, min=1.0, help="Seconds that a server may take to answer.").tag(
        config=True
    )
    grace_s = Float(5.0, min=0.0, help="Seconds that a server may take to end by itself.").tag(
        config=True
    )
    limits = Bool(
        True, help="Limit CPU and memory to the flavor's through cgroups, where allowed."
    ).tag(config=True)
    isolate = Enum(
        MODES,
        "auto",
        help="How a home appears below home_root: in a mount namespace of the workspace's own, "
        "or by a link that leads to the home in use. auto takes a namespace where allowed.",
    ).tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets declares it so
        "config": "Agent.config_file",
        "host": "Agent.host",
        "hosts-file": "Agent.hosts_file",
        "data-dir": "Agent.data_dir",
        "home-root": "Agent.home_root",
        "ip": "Agent.ip",
        "port": "Agent.port",
        "advertise-url": "Agent.advertise_url",
        "manager-url": "Agent.manager_url",
        "log-level": "Agent.log_level",
    }

    @default("host")
    def _default_host(self) -> str:
        return socket.gethostname()

    @default("cluster_token")
    def _default_cluster_token(self) -> str:
        return os.environ.get("DEVCLUSTER_CLUSTER_TOKEN", "")

    @default("log_level")
    def _default_log_level(self) -> int:
        return 20

    @catch_config_error
    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line and the configuration file."""
        super().initialize(argv)
        if self.config_file:
            self.load_config_file(self.config_file)
            self.parse_command_line(argv)  # what is typed wins

    def start(self) -> None:
        """Run until told to end; the workspaces go on without."""
        try:
            asyncio.run(self._run(Path(self.data_dir).resolve(), Path(self.home_root).resolve()))
        except DevClusterError as error:
            self.log.error("%s", error.message)
            self.exit(1)

    async def _run(self, data_dir: Path, home_root: Path) -> None:
        if not self.cluster_token:
            raise BadRequest("There is no cluster token. Set DEVCLUSTER_CLUSTER_TOKEN.")
        inventory = self._inventory(data_dir)
        with _only_one(data_dir), socket.create_server((self.ip, self.port)) as listening:
            port = listening.getsockname()[1]
            url = self.advertise_url or f"http://{self.ip}:{port}"
            await self._serve(data_dir, home_root, inventory, listening, url)

    def _inventory(self, data_dir: Path) -> Inventory:
        declared = read_host(Path(self.hosts_file), self.host) if self.hosts_file else None
        return Inventory(self.host, declared, data_dir / "gpus.json")

    async def _serve(
        self,
        data_dir: Path,
        home_root: Path,
        inventory: Inventory,
        listening: socket.socket,
        url: str,
    ) -> None:
        folders = Folders(data_dir)
        places = Places(home_root, choose(self.isolate))
        store = LeaseStore(data_dir / "leases")
        sequence = Sequence.load(data_dir / "boot.json", machine_boot())
        runtime = ProcessRuntime(data_dir / "run", places, self.limits)
        manager = AsyncManagerClient(self.manager_url, self.cluster_token)
        leases = Leases(
            self.host, self.ip, store, runtime, folders, inventory,
            lambda: heartbeat.changed(), url, self.cluster_token, self.log,
            self.start_timeout_s, self.grace_s,
        )  # fmt: skip

        def report() -> HostReport:
            damaged = "".join(
                f" The record {path} is damaged; look for its processes." for path in store.damaged
            )
            return HostReport(
                host=self.host, url=url, boot=sequence.boot, sequence=sequence.next(),
                cpus=inventory.cpus, memory=inventory.memory, gpus=inventory.gpus,
                leases=leases.reports(), trouble=(inventory.trouble + damaged).strip(),
                runtime=runtime.name,
            )  # fmt: skip

        heartbeat = Heartbeat(manager, report, leases.remove, self.heartbeat_s, self.log)
        await inventory.refresh()
        await leases.adopt()
        api = Api(self.host, self.cluster_token, leases, folders, report, self.log)
        runner = web.AppRunner(api.application(), access_log=None)
        await runner.setup()
        await web.SockSite(runner, listening, shutdown_timeout=1.0).start()
        self.log.info(
            "Host %s serves at %s: %g CPUs, %d GPUs, homes by %s.",
            self.host, url, inventory.cpus, len(inventory.gpus), places.mode,
        )  # fmt: skip
        tasks = [
            asyncio.create_task(heartbeat.run()),
            asyncio.create_task(self._probe(inventory, heartbeat)),
        ]
        try:
            await _told_to_end()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await leases.close()
            await runner.cleanup()
            await manager.close()

    async def _probe(self, inventory: Inventory, heartbeat: Heartbeat) -> None:
        while inventory.probes:
            await asyncio.sleep(self.gpu_probe_s)
            before = (inventory.gpus, inventory.trouble)
            await inventory.refresh()
            if before != (inventory.gpus, inventory.trouble):
                heartbeat.changed()


@contextlib.contextmanager
def _only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data folder; two agents on one would each act on the other's leases."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(
                f"Another agent runs with the data folder {data_dir}. Stop it first, or give "
                "this one a folder of its own (--data-dir)."
            ) from None
        yield
    finally:
        os.close(fd)


async def _told_to_end() -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await told.wait()


def main(argv: list[str] | None = None) -> None:
    """Run ``devcluster-agent``."""
    Agent.launch_instance(sys.argv[1:] if argv is None else argv)
