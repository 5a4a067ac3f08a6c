"""One browser's websocket, and the server's that it is joined to now.

Three tasks: the *reader* takes what the browser sends into a queue, the *sender*
takes from the queue to the server while the link flows, and a *pump* takes what
the server sends to the browser. Parking stops the sender and nothing else, so
order is kept without any further care; a full queue stops the reader, and then TCP
stops the browser.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType, web
from aiohttp.http_websocket import WSMessageNoDecodeText
from devcluster.core.errors import DevClusterError
from devcluster.core.records import Route

from .limits import Limits
from .switchboard import SERVICE_RESTART

#: Messages come as bytes, text too: nothing is decoded on the way.
ServerSocket = ClientWebSocketResponse[Literal[False]]
BrowserSocket = web.WebSocketResponse[Literal[False]]
Dial = Callable[[Route], Awaitable[ServerSocket]]

#: What sending to a peer that is gone raises.
GONE = (ConnectionError, ClientError, RuntimeError)

_DATA = (WSMsgType.TEXT, WSMsgType.BINARY)
#: A server's last frames have arrived when it was silent for so long, s: its kernel may
#: keep small frames back until ours acknowledges the one before (Nagle's algorithm against
#: delayed acknowledgements, TCP_DELACK_MAX of Linux). A real switch takes longer anyway
#: between freezing the old server and this question.
_QUIET_S = 0.2
#: What the kernel has received for us is with the pump after so many turns of the loop.
_PASSES = 5
#: What fits into a close frame beside its code (RFC 6455, section 5.5).
_REASON_BYTES = 123
_PINGS = itertools.count(1)


@dataclass(frozen=True)
class End:
    """Why a link ends: the close code and reason that each side is told.

    ``browser`` is False if the browser itself ended it. Code 0 is a close frame
    without a code.
    """

    code: int
    reason: str = ""
    browser: bool = True


#: A browser that went without a close frame.
_GONE_AWAY = End(1001, browser=False)


class _Upstream:
    """One server's end."""

    def __init__(self, socket: ServerSocket, lease: str | None) -> None:
        self.socket = socket
        self.lease = lease
        self.alive = True
        self.pump: asyncio.Task[None] | None = None
        #: When the pump began to wait for the server's next frame; None while it is busy.
        self.waiting_since: float | None = None
        self.pongs: dict[bytes, asyncio.Future[None]] = {}


class WebSocketLink:
    """Joins one browser to whichever server its workspace has; see the module."""

    def __init__(
        self,
        browser: BrowserSocket,
        socket: ServerSocket,
        route: Route,
        dial: Dial,
        limits: Limits,
    ) -> None:
        self._browser = browser
        self._dial = dial
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[WSMsgType, bytes]] = deque()
        self._queued = 0
        self._flowing = False
        self._confirmed = False  # parked, and the server has worked off what it was sent
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._over: asyncio.Future[End] = self._loop.create_future()
        self._closings: set[asyncio.Task[object]] = set()
        self._left = False  # the browser has; what it sent may still be held
        self._last = _GONE_AWAY
        self._upstream: _Upstream | None = None
        self._join(socket, route.lease)

    # --- what the gate asks -----------------------------------------------------------

    @property
    def lease(self) -> str | None:
        """The lease that the live other end belongs to."""
        return self._upstream.lease if self._upstream and self._upstream.alive else None

    async def park(self, within_s: float) -> bool:
        """Hold the browser's frames; tell whether the server has processed all before them.

        A websocket's frames are processed in order, pings too, so a pong says so. A
        browser that takes no data keeps the pong from being read; it is cut, as its
        own network would do soon, rather than let it hold the workspace in place.
        """
        self._flowing = self._confirmed = False
        upstream = self._upstream
        if upstream is None or not upstream.alive or self._over.done():
            return True
        token = b"devcluster-%d" % next(_PINGS)
        pong: asyncio.Future[None] = self._loop.create_future()
        upstream.pongs[token] = pong
        try:
            async with asyncio.timeout(within_s):
                await upstream.socket.ping(token)
                both: set[asyncio.Future[Any]] = {pong, self._over}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            if upstream.waiting_since is None:
                self.end(SERVICE_RESTART, "The browser does not take what it is sent.")
        except GONE:
            self._lost(upstream)
        finally:
            upstream.pongs.pop(token, None)
        self._confirmed = pong.done() and not self._over.done()
        return self._confirmed or self._over.done()

    def resume(self) -> None:
        """Let the held frames go to the server that is joined."""
        self._flowing = True
        self._work.set()

    async def rejoin(self, route: Route) -> None:
        """Join the server of the route, leave the old one, let the held frames go.

        A failure is tried again until ``redial_s`` is over; then the browser is sent
        away with 1012 and comes back by itself.
        """
        self._flowing = False
        if self._over.done():
            return
        try:
            async with asyncio.timeout(self._limits.redial_s):
                socket = await self._redial(route)
        except TimeoutError:
            self.end(SERVICE_RESTART, "The workspace's new server does not answer.")
            return
        if self._upstream is not None:
            await self._hear_out(self._upstream)
        self.detach()
        if self._over.done():
            self._close_quietly(socket)
            return
        self._join(socket, route.lease)
        self.resume()

    def detach(self) -> None:
        """Leave the server, keep the browser's socket and its frames."""
        self._flowing = False
        self._confirmed = True
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.alive = False
            if upstream.pump is not None:
                upstream.pump.cancel()
            self._close_quietly(upstream.socket)

    def end(self, code: int, reason: str) -> None:
        """Close both sides."""
        self._finish(End(code, reason))

    # --- the life of the link ------------------------------------------------------------

    async def run(self) -> None:
        """Carry frames until one side, or the gate, ends it. Never raises for a peer's doing."""
        reader = asyncio.create_task(self._read_browser())
        sender = asyncio.create_task(self._send_upstream())
        try:
            end = await asyncio.shield(self._over)
            await self._say_goodbye(end, reader)
        finally:
            self._finish(_GONE_AWAY)
            for task in (reader, sender):
                task.cancel()
            await asyncio.gather(reader, sender, return_exceptions=True)
            self.detach()

    async def _say_goodbye(self, end: End, reader: asyncio.Task[None]) -> None:
        try:
            async with asyncio.timeout(self._limits.close_s):
                upstream = self._upstream
                if upstream is not None and upstream.alive and not end.browser:
                    await _send_close(upstream.socket, end)
                await _send_close(self._browser, end)
                if end.browser:  # its own close frame comes last: read on until then
                    await asyncio.wait({reader})
        except TimeoutError:
            return

    async def _read_browser(self) -> None:
        while True:
            await self._room.wait()
            message = await self._browser.receive()
            if message.type in _DATA:
                if not self._over.done():
                    self._put(message.type, message.data)
            elif message.type is WSMsgType.PING:
                await self._ping_from_browser(message.data)
            elif message.type is WSMsgType.PONG:
                # Past the queue: the server may have asked before it was parked.
                if self._upstream is not None and self._upstream.alive:
                    await _try(self._upstream.socket.pong(message.data))
            else:
                self._browser_left(_end_of(message))
                return

    def _put(self, kind: WSMsgType, data: bytes) -> None:
        self._queue.append((kind, data))
        self._queued += len(data) + 64  # an empty frame is not free either
        if self._queued > self._limits.max_held_bytes:
            self._room.clear()
        self._work.set()

    async def _ping_from_browser(self, data: bytes) -> None:
        upstream = self._upstream
        if self._flowing and upstream is not None and upstream.alive:
            await _try(upstream.socket.ping(data))
        else:
            await _try(self._browser.pong(data))

    def _browser_left(self, end: End) -> None:
        if self._left:
            return
        self._left = True
        if not self._queue:
            self._finish(end)
            return
        # What it sent before it left still counts, as it would have without us.
        self._queue.append((WSMsgType.CLOSE, b""))
        self._last = end
        self._work.set()
        self._loop.call_later(self._limits.hold_s, self._finish, end)

    async def _send_upstream(self) -> None:
        while True:
            await self._work.wait()
            upstream = self._upstream
            if not self._queue or not self._flowing or upstream is None:
                self._work.clear()
                continue
            kind, data = self._queue.popleft()
            if kind is WSMsgType.CLOSE:
                self._finish(self._last)
                return
            self._queued -= len(data) + 64
            if self._queued <= self._limits.max_held_bytes // 2:
                self._room.set()
            try:
                await upstream.socket.send_frame(data, kind)
            except GONE:
                # Whether the server has had this frame is unknown: sending it to
                # another could do it twice. The lab asks again after it is back.
                self.end(SERVICE_RESTART, "The workspace's server was lost.")
                return

    async def _pump(self, upstream: _Upstream) -> None:
        while True:
            upstream.waiting_since = self._loop.time()
            message = await upstream.socket.receive()
            upstream.waiting_since = None
            try:
                if message.type in _DATA:
                    await self._browser.send_frame(message.data, message.type)
                elif message.type is WSMsgType.PING:
                    await self._browser.ping(message.data)
                elif message.type is WSMsgType.PONG:
                    pong = upstream.pongs.get(bytes(message.data))
                    if pong is None:
                        await self._browser.pong(message.data)
                    elif not pong.done():
                        pong.set_result(None)
                else:
                    self._upstream_left(upstream, message)
                    return
            except GONE:
                self._browser_left(_GONE_AWAY)

    def _upstream_left(self, upstream: _Upstream, message: WSMessageNoDecodeText) -> None:
        if message.type is WSMsgType.CLOSE and self._flowing:
            upstream.alive = False
            self._finish(End(int(message.data or 0), message.extra or ""))
        elif upstream.socket.close_code == 1009:
            self.end(1009, "A message is larger than the Net Switch allows.")
        else:
            self._lost(upstream)

    def _lost(self, upstream: _Upstream) -> None:
        """Take note that the server is gone: expected while parked, else the browser's turn."""
        upstream.alive = False
        if not self._confirmed:
            self.end(SERVICE_RESTART, "The workspace's server was lost.")

    # --- joining and leaving servers -------------------------------------------------------

    def _join(self, socket: ServerSocket, lease: str | None) -> None:
        upstream = self._upstream = _Upstream(socket, lease)
        self._confirmed = False
        upstream.pump = asyncio.create_task(self._pump(upstream))

    async def _redial(self, route: Route) -> ServerSocket:
        pause = 0.1
        while not self._over.done():
            try:
                return await self._dial(route)
            except (DevClusterError, *GONE):
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
        raise TimeoutError  # nobody is there any more for whom to try

    async def _hear_out(self, upstream: _Upstream) -> None:
        """Let what the old server said last reach the browser before the new one speaks."""
        deadline = self._loop.time() + self._limits.close_s
        while upstream.alive and self._loop.time() < deadline and not self._over.done():
            since = upstream.waiting_since
            for _ in range(_PASSES):
                await asyncio.sleep(0)
            heard = since is None or since != upstream.waiting_since
            if not heard and self._loop.time() - (since or 0.0) >= _QUIET_S:
                return
            await asyncio.sleep(_QUIET_S / 10)

    def _close_quietly(self, socket: ServerSocket) -> None:
        task: asyncio.Task[object] = asyncio.create_task(_try(socket.close(code=1001)))
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)

    def _finish(self, end: End) -> None:
        if not self._over.done():
            self._over.set_result(end)
            self._room.set()  # the reader goes on to the close frame


def _end_of(message: WSMessageNoDecodeText) -> End:
    """Return how the browser's last message ends the link."""
    if message.type is WSMsgType.CLOSE:
        return End(int(message.data or 0), message.extra or "", browser=False)
    return _GONE_AWAY


async def _try(sending: Awaitable[object]) -> None:
    """Send to a peer that may be gone; its going is noticed by who reads from it."""
    try:
        await sending
    except GONE:
        return


async def _send_close(socket: ServerSocket | BrowserSocket, end: End) -> None:
    """Send a close frame; without a code if the other side gave none."""
    reason = end.reason.encode()[:_REASON_BYTES].decode("utf-8", "ignore").encode()
    body = end.code.to_bytes(2, "big") + reason if end.code else b""
    await _try(socket.send_frame(body, WSMsgType.CLOSE))
