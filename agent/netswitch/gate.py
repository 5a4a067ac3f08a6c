"""The gate of one workspace: what passes it, what waits before it, and how it drains.

Everything here runs in one event loop, and between asking :attr:`Gate.route` and
:meth:`Gate.enter` nothing else does; so a request is either seen by
:meth:`Gate.drain`, or it sees that the gate is shut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from devcluster.core.errors import Busy
from devcluster.core.records import Route, RouteMode

from .limits import Limits
from .poll_cache import PollCache

#: Methods that change nothing on the server (RFC 9110, section 9.2.1).
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Link(Protocol):
    """A browser's websocket, as the gate sees it."""

    @property
    def lease(self) -> str | None:
        """The lease that the other end belongs to; None while there is no live other end."""
        ...

    async def park(self, within_s: float) -> bool:
        """Hold the browser's frames; tell whether all sent before have been processed."""
        ...

    def resume(self) -> None:
        """Let the held frames go to the server that is still joined."""
        ...

    async def rejoin(self, route: Route) -> None:
        """Join the browser to the server of the route, then let the held frames go."""
        ...

    def detach(self) -> None:
        """Leave the server, keep the browser's socket and its frames."""
        ...

    def end(self, code: int, reason: str) -> None:
        """Close the browser's socket."""
        ...


class Exchange:
    """One request that is under way to a server.

    Attributes
    ----------
    route
        The one in effect when it began; it keeps to that one's server.
    cut
        Set by whoever does the exchange: stops it, because its server is left.
    """

    def __init__(self, method: str, target: str, route: Route) -> None:
        self.method = method
        self.target = target
        self.route = route
        self.safe = method in SAFE
        self.was_cut = False
        self.cut: Callable[[], object] = lambda: None


class Gate:
    """Where the traffic of one workspace passes, or waits."""

    def __init__(self, route: Route, limits: Limits) -> None:
        self.route = route
        self.limits = limits
        self.links: set[Link] = set()
        self.cache = PollCache(limits.cache_entries)
        #: Serialises the changes of this workspace.
        self.lock = asyncio.Lock()
        self.held = 0
        self._exchanges: set[Exchange] = set()
        self._moved = asyncio.Event()  # set, and replaced, at each change of route
        self._left = asyncio.Event()  # set, and replaced, when an exchange ends

    def set(self, route: Route) -> None:
        """Put a route in effect for all that comes from now on, and for what waits."""
        self.route = route
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def enter(self, method: str, target: str) -> Exchange:
        """Count a request as under way, until it leaves."""
        exchange = Exchange(method, target, self.route)
        self._exchanges.add(exchange)
        if not exchange.safe:
            self.cache.forget()
        return exchange

    def leave(self, exchange: Exchange) -> None:
        """Take note that an exchange has ended."""
        self._exchanges.discard(exchange)
        if not exchange.safe:
            self.cache.forget()
        left, self._left = self._left, asyncio.Event()
        left.set()

    async def wait_while_parked(self) -> bool:
        """Wait until the route is another one than parked.

        Returns
        -------
        bool
            False if too many wait already, or it took longer than ``hold_s``.
        """
        if self.held >= self.limits.max_held:
            return self.route.mode is not RouteMode.parked
        self.held += 1
        try:
            async with asyncio.timeout(self.limits.hold_s):
                while self.route.mode is RouteMode.parked:
                    await self._moved.wait()
        except TimeoutError:
            return False
        finally:
            self.held -= 1
        return True

    async def drain(self) -> None:
        """Wait until what is under way has arrived and been answered.

        Requests that change something get ``drain_s``. The others, which may be
        streams without end, get ``drain_safe_s`` and are then left: they lose
        nothing by being cut when their server is.

        Raises
        ------
        Busy
            If a request that changes something, or a websocket, was not through in time.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        parked = asyncio.gather(*(link.park(self.limits.drain_s) for link in list(self.links)))
        try:
            for bound, all_of_them in (
                (self.limits.drain_safe_s, True),
                (self.limits.drain_s, False),
            ):
                await self._until_none(all_of_them, began + bound)
            stuck = [e for e in self._exchanges if not e.safe]
            if stuck:
                raise Busy(
                    f"The request {stuck[0].method} {stuck[0].target} was not answered within "
                    f"{self.limits.drain_s:g} s. Try again when it has ended.",
                    requests=[f"{e.method} {e.target}" for e in stuck[:10]],
                )
            silent = (await parked).count(False)
        finally:
            parked.cancel()
        if silent:
            raise Busy(
                f"The server did not work off what {silent} of {len(self.links)} browser "
                f"connections had sent within {self.limits.drain_s:g} s. Try again later.",
                websockets=silent,
            )

    async def _until_none(self, all_of_them: bool, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while any(all_of_them or not e.safe for e in self._exchanges):
                    await self._left.wait()
        except TimeoutError:
            return

    def cut_foreign(self, lease: str | None) -> None:
        """Stop the exchanges that are under way to another server than the lease's."""
        for exchange in list(self._exchanges):
            if lease is None or exchange.route.lease != lease:
                exchange.was_cut = True
                exchange.cut()

    @property
    def under_way(self) -> int:
        """How many requests are under way."""
        return len(self._exchanges)
