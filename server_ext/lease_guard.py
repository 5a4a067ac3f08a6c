"""Refuses requests that were meant for another lease.

Ports are used again. The Net Switch says with each request which lease it is for;
a server that has come to sit at the port of another must not answer for it.
"""

from __future__ import annotations

from typing import Any

from devcluster.core.errors import Stale
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

HEADER = "X-DevCluster-Lease"


class OtherLease(Matcher):  # type: ignore[misc]
    """Matches requests for any lease but ours; those that name none are not matched."""

    def __init__(self, lease: str) -> None:
        self._lease = lease

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return tornado's empty set of arguments for a match, None for no match."""
        meant = request.headers.get(HEADER)
        return None if meant is None or meant == self._lease else {}


class Misdirected(RequestHandler):  # type: ignore[misc]
    """Answers 421 (Misdirected Request, RFC 9110, section 15.5.20), whatever was asked."""

    def check_xsrf_cookie(self) -> None:
        """Ask for no cookie: nobody gets past here."""

    async def prepare(self) -> None:
        """Answer before a method is looked for."""
        error = Stale("This server does not belong to the lease that the request is for.")
        self.set_status(421, "Misdirected Request")
        await self.finish(error.to_json())


def guard(web_app: Any, lease: str) -> None:
    """Put the guard in front of all that the application serves, websockets too."""
    web_app.default_router.rules.insert(0, Rule(OtherLease(lease), Misdirected))
