"""Who may pass now: find the gate of a request, wait before it if need be, or say no."""

from __future__ import annotations

import asyncio

from aiohttp import web
from devcluster.core.records import RouteMode

from .gate import Gate
from .headers import is_navigation
from .limits import Limits
from .pages import PAGE_POLICY, Refusal, refusal
from .switchboard import Switchboard

_NO_TABLE = "The Net Switch has just started and does not know the workspaces yet."
_TOO_MANY = (
    "The workspace is changing its hardware, and this request could not wait any longer. Try again."
)


class Admission:
    """Decides on requests; the same for HTTP and websockets."""

    def __init__(self, board: Switchboard, limits: Limits, open_url: str) -> None:
        self._board = board
        self._limits = limits
        self._open_url = open_url
        self.waiting = 0

    async def gate(self, target: str) -> Gate | None:
        """Return the gate that a target lies behind; waits until the table is known.

        Raises
        ------
        Refused
            If the table was not to be had within ``hold_s``, or too many wait for it.
        """
        if not self._board.loaded.is_set():
            await self._wait_for_table()
        return self._board.match(target)

    async def admit(self, target: str) -> Gate:
        """Return the gate of a target, open; enter it before anything else is awaited.

        Raises
        ------
        Refused
            With what to tell, if it is not open and waiting is of no use.
        """
        gate = await self.gate(target)
        if gate is None:
            raise Refused(refusal(None, target, self._open_url))
        while gate.route.mode is not RouteMode.open:
            if gate.route.mode is not RouteMode.parked:
                raise Refused(refusal(gate.route, target, self._open_url))
            if not await gate.wait_while_parked():
                raise Refused(refusal(gate.route, target, self._open_url, _TOO_MANY))
        return gate

    def lost(self, gate: Gate, target: str, why: str = "") -> Refused:
        """Return what to tell where a server does not answer, or is not the one it should be."""
        return Refused(refusal(gate.route, target, self._open_url, why))

    def answer(self, request: web.BaseRequest, refused: Refusal) -> web.Response:
        """Say no: a page or a way on for people, JSON for programs; never 403 or 404."""
        again = self._limits.retry_after_s
        headers = {"Cache-Control": "no-store"}
        navigation = is_navigation(request.method, request.headers)
        if navigation and refused.location is not None:
            return web.Response(status=302, headers={**headers, "Location": refused.location})
        headers["Retry-After"] = str(again)
        if navigation:
            headers["Content-Security-Policy"] = PAGE_POLICY
            kind, body = "text/html", refused.as_html(max(again, 5))
        else:
            kind, body = "application/json", refused.as_json()
        return web.Response(
            status=503, headers=headers, body=body, content_type=kind, charset="utf-8"
        )

    async def _wait_for_table(self) -> None:
        if self.waiting >= self._limits.max_waiting:
            raise Refused(Refusal("One moment", _NO_TABLE))
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.hold_s):
                await self._board.loaded.wait()
        except TimeoutError:
            raise Refused(Refusal("One moment", _NO_TABLE)) from None
        finally:
            self.waiting -= 1


class Refused(Exception):
    """A request that is not passed on."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
