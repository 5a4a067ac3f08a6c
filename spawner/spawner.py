"""``DevClusterSpawner``: JupyterHub's calls, each passed on to the manager."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlparse

from devcluster.core.calls import Call
from devcluster.core.errors import BadRequest, DevClusterError, NotFound, Unavailable
from devcluster.core.lifecycle import State
from devcluster.core.names import workspace_id
from devcluster.core.records import Launch, StartRequest, WorkspaceView
from devcluster.hub_ext import client
from jupyterhub import __version__
from jupyterhub.spawner import Spawner, SpawnException
from jupyterhub.utils import url_path_join, wait_for_http_server
from traitlets import Float, Unicode, default

from . import form, options, story
from .sealed import seal, unseal
from .send import Send, sender

#: The longest id that records carry.
_LONGEST_ID = 300
#: How long the hub's own check asks a server before the manager is asked about it again.
_CHECK_S = 5.0


class DevClusterSpawner(Spawner):  # type: ignore[misc]
    """Runs a server as a workspace of the Dev Cluster.

    It hands the hub the Net Switch's address, which never changes; so neither the
    hub nor its proxy notices when a workspace switches hardware.
    """

    manager_url = Unicode(
        help="""The manager's address, as the hub and the workspaces reach it.

        For the hub-managed service: ``http://HOST:PORT/services/devcluster``. Default:
        the environment variable ``DEVCLUSTER_URL``.
        """
    ).tag(config=True)

    manager_token = Unicode(
        help="""The token that opens the manager for the hub.

        It is the API token of the hub's ``devcluster`` service: only the hub and the
        manager know it, so only the hub can start workspaces. Default: the environment
        variable ``DEVCLUSTER_SERVICE_TOKEN``.
        """
    ).tag(config=True)

    netswitch_url = Unicode(
        help="""The Net Switch's address, as the hub's proxy reaches it: ``http://HOST:PORT``.

        One address for all workspaces; the path tells which. Default: the environment
        variable ``DEVCLUSTER_NETSWITCH_URL``.
        """
    ).tag(config=True)

    default_flavor = Unicode(
        help="""The flavor where nobody chose one; the first of the flavors file if empty."""
    ).tag(config=True)

    stop_timeout = Float(
        120.0,
        min=1.0,
        help="""Seconds to wait for a workspace to have stopped.

        After that the hub forgets the server, the manager goes on stopping it, and a
        new start waits for that.
        """,
    ).tag(config=True)

    wait_s = Float(
        20.0,
        min=0.1,
        help="""Seconds that one question to the manager may wait for news; no polling between.""",
    ).tag(config=True)

    @default("manager_url")
    def _default_manager_url(self) -> str:
        return os.environ.get("DEVCLUSTER_URL", "")

    @default("manager_token")
    def _default_manager_token(self) -> str:
        return os.environ.get("DEVCLUSTER_SERVICE_TOKEN", "")

    @default("netswitch_url")
    def _default_netswitch_url(self) -> str:
        return os.environ.get("DEVCLUSTER_NETSWITCH_URL", "")

    @default("cmd")
    def _default_cmd(self) -> list[str]:
        return ["devcluster-singleuser"]  # jupyterhub-singleuser, started sooner

    @default("start_timeout")
    def _default_start_timeout(self) -> int:
        return 86400  # a queue may be long; the person can leave it at any time

    @default("server_token_scopes")
    def _default_server_token_scopes(self) -> list[str]:
        # The hub gives the subset that the user holds, narrowed to this server.
        return [
            "users:activity!user",
            "access:servers!server",
            "access:services!service=devcluster",
            "custom:devcluster:use!server",
        ]

    @default("options_form")
    def _default_options_form(self) -> Any:
        return _options_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        return options.from_form

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        return _apply_user_options

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._flavor = ""
        self._starting = False
        #: A start has not come about, and the workspace was, or may have been, there before.
        self._spare = False
        #: The token of a server that may still run, though the hub has forgotten it.
        self._held_token = ""
        self._view: WorkspaceView | None = None
        self._news = asyncio.Event()

    # --- what the hub calls ---------------------------------------------------------

    async def start(self) -> str:
        """Have the workspace running, and return the Net Switch's address."""
        self._starting, self._view = True, None
        self._spare = True  # until the manager says that there is nothing to lose
        try:
            send, name = self._manager(), self._workspace()
            before = await self._before(send, name)
            flavor = self._flavor or await self._choose(send)
            request = StartRequest(flavor=flavor, launch=self._launch())
            view = await send(client.start(name, request))
            await self._follow(send, name, before, view)
            address = self._address()
        except DevClusterError as error:
            raise _refusal(error) from error
        finally:
            self._starting = False
            self._tell(None)
        self._spare = False
        return address

    async def stop(self, now: bool = False) -> None:
        """Have the workspace stopped: its kernels end, its home stays.

        The hub also calls this after each start that failed. A workspace that was there
        before that start, deflated above all, is then left as it is: nobody asked to end it.

        Raises
        ------
        devcluster.core.errors.DevClusterError
            If the manager could not be told, or it did not stop in ``stop_timeout``.
        """
        if self._spare:
            self._spare = False
            self.log.info("%s is left as it was before the start that failed", self._log_name)
            return
        send, name = self._manager(), self._workspace()
        try:
            async with asyncio.timeout(self.stop_timeout):
                view = await self._persist(send, client.stop(name))
                while view.state not in story.EXITED:
                    view = await self._persist(send, self._next(name, view))
        except TimeoutError:
            raise Unavailable(
                f"{name} did not stop within {self.stop_timeout:g} s. The manager goes on with it."
            ) from None
        except NotFound:
            self.log.info("%s is not known to the manager: nothing to stop", name)
        self._held_token = ""

    async def poll(self) -> int | None:
        """Return None while the workspace runs, or while nobody can tell; else an exit status."""
        if self._starting:
            return None
        try:
            view = await self._manager()(client.workspace(self._workspace()))
        except (NotFound, BadRequest):
            return 0  # the manager answered: there is no such workspace
        except DevClusterError as error:
            self.log.warning("Cannot tell whether %s runs: %s", self._log_name, error)
            return None
        status = story.exit_status(view.state)
        if status is not None:
            self._held_token = ""
        return status

    async def get_url(self) -> str:
        """Return the Net Switch's address for this workspace, after a restart of the hub, too."""
        return self._address() + str(self.server.base_url)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Tell the queue's place and the steps, as they come."""
        told: dict[str, Any] = {}
        while self._starting:
            news = self._news
            if self._view is not None:
                event = story.progress_event(self._view)
                if event != told:
                    told = event
                    yield event
            await news.wait()

    def get_env(self) -> dict[str, str]:
        """Add where the manager is, for the panel, the magics and the server extension."""
        env: dict[str, str] = super().get_env()
        base = str(self.hub.base_url).removesuffix("hub/")
        env["DEVCLUSTER_URL"] = self.manager_url
        env["DEVCLUSTER_PUBLIC_URL"] = f"{base}services/devcluster"
        return env

    @property
    def server(self) -> Any:
        """The hub's record of where the server is, with :meth:`_wait_up` for its own."""
        server = Spawner.server.fget(self)
        if server is not None:
            server.wait_up = self._wait_up
        return server

    @server.setter
    def server(self, server: Any) -> None:
        Spawner.server.fset(self, server)

    # --- what the hub keeps for us ----------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Keep the server's token: one that outlives the hub's memory is taken up with it."""
        state: dict[str, Any] = super().get_state()
        token = self.api_token or self._held_token
        return state | ({"token": seal(token, self.manager_token)} if token else {})

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`get_state` gave."""
        super().load_state(state)
        token = unseal(str(state.get("token", "")), self.manager_token)
        self._held_token = self.api_token = token

    def clear_state(self) -> None:
        """Forget what the last start was about; ``stop`` and ``poll`` forget the token."""
        super().clear_state()
        self._flavor = ""

    # --- how ------------------------------------------------------------------------------

    def _workspace(self) -> str:
        name = workspace_id(str(self.user.name), str(self.name))
        if len(name) > _LONGEST_ID:
            raise BadRequest(
                f"The names of user and server have {len(name)} characters together; "
                f"at most {_LONGEST_ID} are possible."
            )
        return name

    def _launch(self) -> Launch:
        return Launch(
            command=[*self.cmd, *self.get_args()],
            env={key: str(value) for key, value in self.get_env().items()},
            prefix=str(self.server.base_url),
        )

    def _address(self) -> str:
        address = urlparse(self.netswitch_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise BadRequest(
                f"c.DevClusterSpawner.netswitch_url is {self.netswitch_url!r}; it must be the "
                "Net Switch's address, such as http://10.0.0.1:8092."
            )
        return f"{address.scheme}://{address.netloc}"

    async def _wait_up(self, extra_path: str = "", ssl_context: Any = None, **_: Any) -> Any:
        """Wait until the server answers, or the manager says that it need not.

        The hub's own check would stop a live workspace where the Net Switch takes a
        while, and a deflated one, which answers nobody, at each restart of the hub. Here the
        manager judges, and nobody is judged while it cannot be asked.
        """
        name, address = self._workspace(), url_path_join(await self.get_url(), extra_path)
        while True:
            try:
                view = await self._manager()(client.workspace(name))
            except NotFound as error:
                raise TimeoutError(error.message) from error
            except DevClusterError as error:
                self.log.warning("Cannot tell whether %s runs: %s", self._log_name, error)
            else:
                if view.state in story.EXITED:
                    raise TimeoutError(f"{name} is {view.state}. {view.reason}")
                if view.state not in (State.starting, State.running):
                    return SimpleNamespace(headers={"X-JupyterHub-Version": __version__})
            with suppress(TimeoutError):
                return await wait_for_http_server(
                    address, timeout=_CHECK_S, ssl_context=ssl_context
                )

    async def _before(self, send: Send, name: str) -> WorkspaceView | None:
        """Return the record as it is before the start; take up a server that still runs.

        The hub may have forgotten a server that could not be stopped. With the former
        token its cookies, its OAuth client and its own calls stay valid; the hub discards
        the token that it had made for a new one.
        """
        try:
            view = await send(client.workspace(name))
        except NotFound:
            self._spare = False
            return None
        self._spare = runs = view.state not in story.EXITED and view.state is not State.stopping
        if runs and self._held_token:
            self.log.info("%s is %s already: taking it up", name, view.state)
            self.api_token = self._held_token
        return view

    async def _choose(self, send: Send) -> str:
        offered = [view.flavor for view in await send(client.flavors())]
        return options.chosen_flavor(self.user_options, offered, self.default_flavor).name

    def _next(self, name: str, view: WorkspaceView) -> Call[WorkspaceView]:
        return client.workspace(name, self.wait_s, view.since)

    async def _follow(
        self, send: Send, name: str, before: WorkspaceView | None, view: WorkspaceView
    ) -> None:
        """Wait until the workspace runs; raise if the start of it has ended otherwise."""
        self._held_token = self.api_token
        while view.state is not State.running:
            self._tell(view)
            if story.is_over(before, view):
                why = view.reason or (view.move.reason if view.move else "")
                raise SpawnException(
                    why or f"The workspace was not started; it is {view.state}.",
                    reason="not-started",
                    status_code=500,
                )
            view = await self._persist(send, self._next(name, view))
        self._tell(view)

    async def _persist(self, send: Send, call: Call[WorkspaceView]) -> WorkspaceView:
        """Ask until there is an answer: a restart of the manager ends nobody's start or stop."""
        while True:
            try:
                return await send(call)
            except Unavailable as error:
                self.log.warning("%s: %s", self._log_name, error)
                await asyncio.sleep(0.5)

    def _tell(self, view: WorkspaceView | None) -> None:
        if view is not None:
            self._view = view
        self._news.set()
        self._news = asyncio.Event()

    def _manager(self) -> Send:
        if not self.manager_url or not self.manager_token:
            raise Unavailable(
                "The hub does not know its manager. Set c.DevClusterSpawner.manager_url and "
                "manager_token in jupyterhub_config.py."
            )
        return sender(self.manager_url, self.manager_token)


def _refusal(error: DevClusterError) -> SpawnException:
    return SpawnException(error.message, reason=error.code, status_code=error.status)


async def _options_form(spawner: DevClusterSpawner) -> str:
    try:
        views = await spawner._manager()(client.flavors())
    except DevClusterError as error:
        return form.unreachable_form(error.message)
    last = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    return form.flavors_form(views, (last or {}).get("flavor"))


async def _apply_user_options(spawner: DevClusterSpawner, _options: object) -> None:
    try:
        spawner._flavor = await spawner._choose(spawner._manager())
    except DevClusterError as error:
        raise _refusal(error) from error
