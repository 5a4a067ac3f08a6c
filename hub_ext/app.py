"""The manager's process: settings and wiring, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from typing import Any
from urllib.parse import urlsplit

from devcluster.core.errors import BadRequest, DevClusterError
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from traitlets import Bool, Dict, Float, Unicode, default, validate
from traitlets.config import Application

from .admission import Admission
from .api import build_app
from .auth import Gatekeeper
from .changes import Changes
from .flavors import read_flavors
from .heartbeats import Heartbeats
from .hosts import HostBook
from .parts import STEP_DEADLINES, Parts, Settings
from .ports import HttpAgents, HttpNetSwitch
from .process import bind_patiently, die_with_parent
from .reconciler import Reconciler
from .service import Service
from .store import Store
from .wishes import Wishes

#: How often those who wait are told anew why, in seconds, where nothing else happens.
_REFRESH_S = 5.0


class Manager(Application):
    """The Dev Cluster's control plane, as a service of JupyterHub."""

    name = "devcluster-manager"
    description = __doc__

    config_file = Unicode("", help="A configuration file, such as devcluster_config.py.").tag(
        config=True
    )
    db_url = Unicode(
        "sqlite:///devcluster.sqlite",
        help="The database: sqlite:///FILE, or postgresql+psycopg://USER@HOST/NAME.",
    ).tag(config=True)
    flavors_file = Unicode(
        "flavors.yaml", help="The YAML file with the flavors that people can ask for."
    ).tag(config=True)
    cluster_token = Unicode(
        help="The secret that manager, agents and Net Switch share. "
        "Default: the environment's DEVCLUSTER_CLUSTER_TOKEN."
    ).tag(config=True)
    netswitch_control_url = Unicode(
        "http://127.0.0.1:8091", help="The control address of the Net Switch."
    ).tag(config=True)
    suspect_after_s = Float(
        15.0, help="Seconds of silence after which a host takes no new work."
    ).tag(config=True)
    lost_after_s = Float(
        60.0, help="Seconds of silence after which people are told that a host is lost."
    ).tag(config=True)
    question_timeout_s = Float(
        600.0, help="Seconds after which an unanswered question cancels its move."
    ).tag(config=True)
    step_deadlines = Dict(
        value_trait=Float(),
        help="Seconds that a step may take, by its name; what is not named keeps its default: "
        + ", ".join(f"{step} {limit:g}" for step, limit in STEP_DEADLINES.items()),
    ).tag(config=True)
    token_cache_s = Float(
        15.0, help="Seconds for which the hub's word on a token is believed without asking again."
    ).tag(config=True)
    upgrade_db = Bool(False, help="Bring the database up to date, then end.").tag(config=True)

    aliases = {  # noqa: RUF012
        "config": "Manager.config_file",
        "db": "Manager.db_url",
        "flavors": "Manager.flavors_file",
        "netswitch": "Manager.netswitch_control_url",
        "log-level": "Application.log_level",
    }
    flags = {  # noqa: RUF012
        "upgrade-db": (
            {"Manager": {"upgrade_db": True}},
            "Bring the database up to date, then end.",
        ),
    }

    @default("cluster_token")
    def _cluster_token(self) -> str:
        return os.environ.get("DEVCLUSTER_CLUSTER_TOKEN", "")

    @default("log_level")
    def _log_level(self) -> int:
        return logging.INFO

    @validate("step_deadlines")
    def _known_steps(self, proposal: Any) -> dict[str, float]:
        unknown = sorted(set(proposal["value"]) - set(STEP_DEADLINES))
        if unknown:
            raise BadRequest(
                f"Manager.step_deadlines names {', '.join(unknown)}. "
                f"Allowed: {', '.join(STEP_DEADLINES)}."
            )
        return dict(proposal["value"])

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the settings."""
        super().initialize(argv)
        if self.config_file:
            self.load_config_file(self.config_file)
            self.parse_command_line(argv)  # the command line wins
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("devcluster").setLevel(self.log_level)  # type: ignore[arg-type]

    def start(self) -> None:
        """Run until told to stop."""
        if self.upgrade_db:
            Store(self.db_url, time.time).close()
            return
        if os.environ.get("JUPYTERHUB_SERVICE_NAME"):
            die_with_parent()
        asyncio.run(self.run())

    async def run(self) -> None:
        """Wire the parts, serve, and end in good order at SIGTERM or SIGINT."""
        if not self.cluster_token:
            raise BadRequest(
                "The manager needs the cluster's token: set DEVCLUSTER_CLUSTER_TOKEN, or "
                "c.Manager.cluster_token."
            )
        flavors = read_flavors(self.flavors_file)
        base = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/services/devcluster/")
        url = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:8090"))
        # First the port, then the database: a predecessor that lives still has both.
        sockets = await bind_patiently(url.hostname or "127.0.0.1", url.port or 80)
        store = Store(self.db_url, time.time)
        agents = HttpAgents(self.cluster_token)
        net_switch = HttpNetSwitch(self.netswitch_control_url, self.cluster_token)
        hosts = HostBook(store, time.time, self.suspect_after_s, self.lost_after_s)
        admission = Admission(hosts, flavors, time.time)
        parts = Parts(
            store=store,
            hosts=hosts,
            admission=admission,
            agents=agents,
            net_switch=net_switch,
            clock=time.time,
            settings=Settings(
                question_timeout_s=self.question_timeout_s,
                step_deadlines={**STEP_DEADLINES, **self.step_deadlines},
            ),
        )
        changes = Changes()
        store.on_change = changes.tell
        reconciler = Reconciler(parts)
        service = Service(
            parts,
            flavors,
            Wishes(store, admission, reconciler, flavors, time.time),
            Heartbeats(parts, hosts, reconciler),
            changes,
        )
        hub_auth = HubOAuth(parent=self, cache_max_age=int(self.token_cache_s))
        gate = Gatekeeper(hub_auth, self.cluster_token, os.environ.get("JUPYTERHUB_API_TOKEN", ""))
        server = HTTPServer(build_app(service, gate, base, secrets.token_bytes(32)))
        server.add_sockets(sockets)
        reconciler.start()
        refresh = asyncio.create_task(_refresh(reconciler))
        self.log.info("The manager serves %s at %s:%s", base, url.hostname, url.port)
        try:
            await _told_to_stop()
        finally:
            refresh.cancel()
            server.stop()
            await reconciler.close()
            await agents.close()
            await net_switch.close()
            store.close()


async def _refresh(reconciler: Reconciler) -> None:
    """Keep the reasons of those who wait true while hosts fall silent."""
    while True:
        await asyncio.sleep(_REFRESH_S)
        with contextlib.suppress(DevClusterError):
            reconciler.admit_waiting()


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def main() -> None:
    """Run the manager; a setting that is wrong ends it with one sentence."""
    try:
        Manager.launch_instance()
    except DevClusterError as error:
        raise SystemExit(f"devcluster-manager: {error.message}") from error
