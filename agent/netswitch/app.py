"""The process: settings, sockets, start and end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from dataclasses import fields
from typing import Any, cast

from aiohttp import AddrInfoType, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from devcluster.core.errors import DevClusterError
from devcluster.hub_ext.client import AsyncManagerClient, routes
from traitlets import Float, Integer, List, Unicode
from traitlets.config import Application

from .admission import Admission, Refused
from .control import control_app
from .headers import is_websocket
from .http_proxy import HttpProxy
from .limits import GIB, KIB, MIB, Limits
from .switchboard import SERVICE_RESTART, Switchboard
from .table import origin_form
from .ws_proxy import WebSocketProxy, keep_refusals

TOKEN_VARIABLE = "DEVCLUSTER_CLUSTER_TOKEN"  # noqa: S105 - its name, not its value

log = logging.getLogger("devcluster.netswitch")

# Request lines and headers: cookies of a hub with many servers go beyond aiohttp's 8 KiB.
_LINE_BYTES = 64 * KIB


class NetSwitch(Application):
    """The router that gives each workspace one address for life."""

    name = "devcluster-netswitch"
    description = __doc__ or ""

    ip = Unicode("127.0.0.1", help="Address of the public port, which the hub's proxy dials.").tag(
        config=True
    )
    port = Integer(8100, help="The public port; 0 takes a free one.").tag(config=True)
    control_ip = Unicode(
        "127.0.0.1", help="Address of the control port; only the manager needs to reach it."
    ).tag(config=True)
    control_port = Integer(8101, help="The control port; 0 takes a free one.").tag(config=True)
    manager_url = Unicode(
        "http://127.0.0.1:8102/services/devcluster",
        help="The manager's address, asked for all routes at start.",
    ).tag(config=True)
    config_file = Unicode("", help="A traitlets configuration file (.py or .json).").tag(
        config=True
    )
    open_url = Unicode(
        "/services/devcluster/open/{user}/{name}",
        help="The page that inflates a deflated workspace; a person who opens the workspace is "
        "led there, with ?next= and what was asked for.",
    ).tag(config=True)
    polls = List(
        Unicode(),
        [
            "api/kernels",
            "api/sessions",
            "api/terminals",
            "api/status",
            "api/kernelspecs",
            "api/me",
        ],
        help="Paths below a workspace's prefix that the lab polls. While a workspace is parked "
        "they are answered with their last answer to the same credentials. Never list contents "
        "of files here: an old one could be saved over a new one.",
    ).tag(config=True)

    connect_s = Float(5.0, help="Seconds to connect to a server.").tag(config=True)
    handshake_s = Float(60.0, help="Seconds for a server to accept a websocket.").tag(config=True)
    drain_s = Float(
        10.0,
        help="Seconds for requests that change something, and for websockets, to be worked off "
        "when a workspace is parked; after them parking fails and the workspace stays open.",
    ).tag(config=True)
    drain_safe_s = Float(
        2.0, help="The same for GET, HEAD and OPTIONS, which are then left and cut later."
    ).tag(config=True)
    hold_s = Float(240.0, help="Seconds that a request waits at most.").tag(config=True)
    max_held = Integer(200, help="Requests of one workspace that wait at most.").tag(config=True)
    max_waiting = Integer(
        5000, help="Requests that wait at most, at start, for the manager's routes."
    ).tag(config=True)
    redial_s = Float(15.0, help="Seconds to join a browser's websocket to a new server.").tag(
        config=True
    )
    close_s = Float(2.0, help="Seconds that a websocket's closing handshake may take.").tag(
        config=True
    )
    max_message_bytes = Integer(GIB, help="Size of a websocket message at most, bytes.").tag(
        config=True
    )
    max_held_bytes = Integer(
        8 * MIB,
        help="Bytes that are held of one websocket; then it is read no further for a while.",
    ).tag(config=True)
    cache_body_bytes = Integer(256 * KIB, help="Size of an answer to a poll at most.").tag(
        config=True
    )
    cache_entries = Integer(64, help="Answers to polls that are kept of one workspace.").tag(
        config=True
    )
    keepalive_s = Integer(
        20, help="Seconds after which the silent death of a TCP peer is noticed."
    ).tag(config=True)
    user_timeout_s = Integer(
        60, help="Seconds that data sent to a server may stay unacknowledged."
    ).tag(config=True)
    retry_after_s = Integer(2, help="Seconds after which clients are told to try again.").tag(
        config=True
    )

    aliases = {  # noqa: RUF012 - traitlets' way
        "ip": "NetSwitch.ip",
        "port": "NetSwitch.port",
        "control-ip": "NetSwitch.control_ip",
        "control-port": "NetSwitch.control_port",
        "manager-url": "NetSwitch.manager_url",
        "config": "NetSwitch.config_file",
        "log-level": "NetSwitch.log_level",
    }

    def initialize(self, argv: Any = None) -> None:
        """Read the command line, then the file, the command line winning."""
        super().initialize(argv)
        if self.config_file:
            command_line = self.cli_config
            self.load_config_file(self.config_file)
            self.update_config(command_line)

    def start(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        logging.basicConfig(
            level=cast(int, self.log_level),
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        )
        asyncio.run(self._serve_until_told())

    async def _serve_until_told(self) -> None:
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        await self.open()
        try:
            await told.wait()
        finally:
            await self.close()

    # --- opening and closing; the tests do it too ------------------------------------------

    async def open(self) -> None:
        """Open both ports, then ask the manager for the routes in the background."""
        token = os.environ.get(TOKEN_VARIABLE, "")
        if not token:
            raise SystemExit(f"Set {TOKEN_VARIABLE} to the cluster's token, as for the manager.")
        limits = self._limits = Limits(**{f.name: getattr(self, f.name) for f in fields(Limits)})
        self.board = Switchboard(limits)
        connector = TCPConnector(
            limit=0, keepalive_timeout=15.0, socket_factory=self._socket_to_server
        )
        self._http = self._session(connector)
        self._websockets = self._session(connector, middlewares=(keep_refusals,))
        self._connector = connector
        self._admission = Admission(self.board, limits, self.open_url)
        self._http_proxy = HttpProxy(self._admission, self._http, limits, self.polls)
        self._ws_proxy = WebSocketProxy(self._admission, self._websockets, limits)
        public = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
        )
        control = control_app(self.board, self._admission, token)
        self._runners: list[web.BaseRunner] = [
            web.ServerRunner(public, shutdown_timeout=limits.close_s),
            web.AppRunner(control, access_log=None, shutdown_timeout=limits.close_s),
        ]
        self.url = await self._listen(self._runners[0], self.ip, self.port)
        self.control_url = await self._listen(self._runners[1], self.control_ip, self.control_port)
        log.info("The Net Switch listens at %s, control at %s", self.url, self.control_url)
        self._loading = asyncio.create_task(self._load_routes(token))

    async def close(self) -> None:
        """Send the browsers away so that they come back, then close both ports."""
        self._loading.cancel()
        for gate in self.board.gates:
            for link in list(gate.links):
                link.end(SERVICE_RESTART, "The Net Switch restarts.")
        for runner in self._runners:
            await runner.cleanup()
        await self._http.close()
        await self._websockets.close()
        await self._connector.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        target = origin_form(request.raw_path)
        try:
            if is_websocket(request.headers):
                return await self._ws_proxy.handle(request, target)
            return await self._http_proxy.handle(request, target)
        except Refused as refused:
            return self._admission.answer(request, refused.refusal)

    async def _load_routes(self, token: str) -> None:
        pause = 0.2
        async_client = AsyncManagerClient(self.manager_url, token)
        try:
            while True:
                try:
                    table = await async_client.send(routes())
                    break
                except DevClusterError as error:
                    log.warning("No routes yet, asking again in %.1f s: %s", pause, error.message)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
            await self.board.load(table)
            log.info("The manager told %d routes.", len(table))
        finally:
            await async_client.close()

    # --- sockets --------------------------------------------------------------------------

    def _session(self, connector: TCPConnector, **more: Any) -> ClientSession:
        return ClientSession(
            connector=connector,
            connector_owner=False,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            timeout=ClientTimeout(total=None, sock_connect=self._limits.connect_s),
            read_bufsize=256 * KIB,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
            **more,
        )

    async def _listen(self, runner: web.BaseRunner, ip: str, port: int) -> str:
        await runner.setup()
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        listening = socket.create_server((ip, port), family=family, backlog=1024)
        self._keep_alive(listening)  # accepted sockets inherit it on Linux
        await web.SockSite(runner, listening).start()
        host = f"[{ip}]" if ":" in ip else ip
        return f"http://{host}:{listening.getsockname()[1]}"

    def _socket_to_server(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._keep_alive(made)
        timeout = getattr(socket, "TCP_USER_TIMEOUT", None)
        if timeout is not None:
            made.setsockopt(socket.IPPROTO_TCP, timeout, self._limits.user_timeout_s * 1000)
        return made

    def _keep_alive(self, made: socket.socket) -> None:
        """Notice within seconds that a peer died without closing; the system's default is 2 h."""
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        idle = max(1, self._limits.keepalive_s // 2)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, idle // 4))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


def main() -> None:
    """Run the Net Switch."""
    NetSwitch.launch_instance()
