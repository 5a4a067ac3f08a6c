"""The extension's HTTP endpoints: parse, authorise, call, answer. Nothing is decided here."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from devcluster.core.errors import BadRequest, DevClusterError, Forbidden, NotFound
from devcluster.core.records import Record, WarmRequest
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from pydantic import ValidationError
from tornado.web import RequestHandler, authenticated

from .capture import Capturer
from .captured import CaptureRequest
from .kernels import Kernels
from .place import Place
from .restore import Restorer
from .warm import WarmKernels

HEADER = "X-DevCluster-Control"
#: The longest wait that a request may ask for, in seconds.
_LONGEST_WAIT_S = 3600.0

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Parts:
    """What the endpoints act on."""

    place: Place
    kernels: Kernels
    warm: WarmKernels
    capturer: Capturer
    restorer: Restorer


class ControlHandler(RequestHandler):  # type: ignore[misc]
    """The agent's endpoints, ``devcluster/control/<action>``.

    They know only the lease's secret: no cookie, no token of a person, no XSRF. Being
    no jupyter-server handlers they do not count as activity either.
    """

    def initialize(self, parts: Parts, log: Any) -> None:
        """Take what tornado passes on from the route."""
        self._parts = parts
        self.log = log

    def check_xsrf_cookie(self) -> None:
        """Ask for no cookie: the secret is in a header, which no foreign page can send."""

    @allow_unauthenticated  # type: ignore[untyped-decorator]
    async def get(self, action: str) -> None:
        """Answer what changes nothing."""
        await self._answer({"health": self._health, "idle": self._idle}, action)

    @allow_unauthenticated  # type: ignore[untyped-decorator]
    async def post(self, action: str) -> None:
        """Do what is asked."""
        parts = self._parts
        await self._answer(
            {
                "warm": lambda: parts.warm.warm(self._body(WarmRequest).kernels),
                "plan": parts.kernels.plan,
                "interrupt": parts.kernels.interrupt,
                "capture": lambda: parts.capturer.capture(self._body(CaptureRequest)),
                "resume": parts.capturer.resume,
                "restore": lambda: parts.restorer.restore(self._body(CaptureRequest)),
            },
            action,
        )

    async def _answer(self, actions: dict[str, Callable[[], Awaitable[Any]]], action: str) -> None:
        try:
            self._authorise()
            if action not in actions:
                raise NotFound(
                    f"There is no {self.request.method} {action}; there is {', '.join(actions)}."
                )
            value = await actions[action]()
        except DevClusterError as error:
            self.set_status(error.status)
            value = error.to_json()
        except Exception as error:
            self.log.exception("devcluster/control/%s failed", action)
            self.set_status(500)
            value = DevClusterError(f"{type(error).__name__}: {error}").to_json()
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        await self.finish(
            value.model_dump_json() if isinstance(value, Record) else json.dumps(value)
        )

    def _authorise(self) -> None:
        secret, given = self._parts.place.secret, self.request.headers.get(HEADER, "")
        if not secret or not hmac.compare_digest(secret.encode(), given.encode()):
            raise Forbidden(f"Only the agent of this host, by its {HEADER}, may do this.")

    def _body(self, kind: type[R]) -> R:
        try:
            return kind.model_validate_json(self.request.body)
        except ValidationError as error:
            raise BadRequest(f"The body is no {kind.__name__}: {error}") from error

    async def _health(self) -> dict[str, Any]:
        return {"lease": self._parts.place.lease, "kernels": len(self._parts.kernels.ids)}

    async def _idle(self) -> bool:
        text = self.get_query_argument("wait", "0")
        try:
            wait_s = float(text)
        except ValueError:
            wait_s = -1.0
        if not 0 <= wait_s <= _LONGEST_WAIT_S:
            raise BadRequest(f"wait={text} is no number of seconds from 0 to {_LONGEST_WAIT_S:g}.")
        return await self._parts.kernels.wait_idle(wait_s)


class SessionHandler(APIHandler):  # type: ignore[misc]
    """Tells the lab of the person who is logged in how to reach the manager.

    The panel then talks to the manager directly, and so goes on while this server is parked.
    """

    _track_activity = False

    def initialize(self, parts: Parts) -> None:
        """Take what tornado passes on from the route."""
        self._place = parts.place

    @authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """Answer with addresses and the person's own token."""
        place = self._place
        self.set_header("Cache-Control", "no-store")
        await self.finish(
            json.dumps(
                {
                    "workspace": place.workspace,
                    "user": self.current_user.username,
                    "api": place.api,
                    "token": place.token,
                    "lease": place.lease,
                    "host": place.host,
                    "flavor": place.flavor,
                }
            )
        )


def routes(base_url: str, parts: Parts, log: Any) -> list[tuple[str, type, dict[str, Any]]]:
    """Return tornado's rules for the endpoints."""
    control = url_path_join(base_url, "devcluster", "control", "([a-z]+)")
    session = url_path_join(base_url, "devcluster", "session")
    return [
        (control, ControlHandler, {"parts": parts, "log": log}),
        (session, SessionHandler, {"parts": parts}),
    ]
