"""Websockets: the server is asked before the browser is answered, so that a refusal is its own."""

from __future__ import annotations

import asyncio
from functools import partial

from aiohttp import (
    ClientError,
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientWSTimeout,
    web,
)
from devcluster.core.errors import Unavailable
from devcluster.core.records import Route, RouteMode
from multidict import CIMultiDict
from yarl import URL

from .admission import Admission
from .gate import Gate
from .headers import LEASE, for_client, for_handshake, is_foreign, subprotocols
from .limits import KIB, Limits
from .switchboard import bring_in_line
from .ws_link import BrowserSocket, ServerSocket, WebSocketLink

_REFUSAL_BYTES = 64 * KIB


class HandshakeRefusedError(Unavailable):
    """The server answered a handshake with something else than 101."""

    def __init__(self, status: int, headers: CIMultiDict[str], body: bytes) -> None:
        super().__init__(f"The server refused the websocket with HTTP {status}.")
        self.answered = status
        self.headers = headers
        self.body = body


async def keep_refusals(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Turn every answer but 101 into an error with its body; no redirect is followed.

    A middleware of the client session, since ``ws_connect`` follows redirects and
    drops the bodies of refusals.
    """
    response = await handler(request)
    if response.status == 101:
        return response
    async with response:
        lease = request.headers.get(LEASE, "")
        if is_foreign(response.status, response.headers, lease):
            raise Unavailable("Another server answers at the workspace's address.")
        body = await response.content.read(_REFUSAL_BYTES)
        headers = for_client(response.headers)
        headers.popall("Content-Length", None)
        raise HandshakeRefusedError(response.status, headers, body)


class WebSocketProxy:
    """Joins browsers' websockets to their workspaces; every path alike."""

    def __init__(self, admission: Admission, session: ClientSession, limits: Limits) -> None:
        self._admission = admission
        self._session = session
        self._limits = limits
        self._running: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.BaseRequest, target: str) -> web.StreamResponse:
        """Carry one websocket from handshake to close.

        Raises
        ------
        Refused
            If there is no server for it, or none that answers.
        """
        offered = subprotocols(request.headers)
        dial = partial(self._dial, request, target)
        while True:
            gate = await self._admission.admit(target)
            route = gate.route
            exchange = gate.enter(request.method, target)
            dialling = asyncio.create_task(dial(offered, route))
            exchange.cut = dialling.cancel
            try:
                try:
                    socket = await dialling
                except asyncio.CancelledError:
                    if exchange.was_cut:
                        continue  # the workspace has moved meanwhile
                    raise
                except HandshakeRefusedError as refused:
                    return web.Response(
                        status=refused.answered, headers=refused.headers, body=refused.body
                    )
                except Unavailable:
                    raise self._admission.lost(gate, target) from None
                browser: BrowserSocket = web.WebSocketResponse(
                    protocols=(socket.protocol,) if socket.protocol else (),
                    timeout=self._limits.close_s,
                    autoclose=False,
                    autoping=False,
                    compress=False,
                    max_msg_size=self._limits.max_message_bytes,
                    decode_text=False,
                )
                try:
                    await browser.prepare(request)
                except BaseException:
                    await socket.close()
                    raise
                again = partial(dial, (socket.protocol,) if socket.protocol else ())
                link = WebSocketLink(browser, socket, route, again, self._limits)
                gate.links.add(link)
            finally:
                gate.leave(exchange)
            await self._carry(gate, link)
            _hang_up(request)
            return browser

    async def _carry(self, gate: Gate, link: WebSocketLink) -> None:
        # Of a life of its own: what a browser sent before it went must still arrive.
        running = asyncio.create_task(link.run())
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        running.add_done_callback(lambda _: gate.links.discard(link))
        if gate.route.mode is RouteMode.open and gate.route.lease == link.lease:
            link.resume()
        else:  # it has changed during the handshake
            async with gate.lock:
                await bring_in_line(link, gate.route)
        await asyncio.shield(running)

    async def _dial(
        self, request: web.BaseRequest, target: str, offered: tuple[str, ...], route: Route
    ) -> ServerSocket:
        try:
            async with asyncio.timeout(self._limits.handshake_s):
                socket = await self._session.ws_connect(
                    URL(f"{(route.backend or '').rstrip('/')}{target}", encoded=True),
                    protocols=offered,
                    headers=for_handshake(request.headers, route.lease or ""),
                    autoclose=False,
                    autoping=False,
                    compress=0,
                    max_msg_size=self._limits.max_message_bytes,
                    decode_text=False,
                    timeout=ClientWSTimeout(ws_receive=None, ws_close=self._limits.close_s),
                )
        except (ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unavailable(f"The server of {route.workspace} is lost: {error}") from error
        return socket


def _hang_up(request: web.BaseRequest) -> None:
    """Close the browser's connection, at once if it does not take what it was sent."""
    transport = request.transport
    if transport is None:
        return
    if transport.get_write_buffer_size():
        transport.abort()
    else:
        transport.close()
