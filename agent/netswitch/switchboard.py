"""All gates, and how a route that the manager sends comes into effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from devcluster.core import faults
from devcluster.core.errors import Conflict, Stale
from devcluster.core.names import object_name
from devcluster.core.records import Route, RouteMode

from .gate import Gate, Link
from .limits import Limits
from .table import Change, PrefixMap, check, judge

log = logging.getLogger("devcluster.netswitch")

#: "Service restart": the lab comes back at once after it. After 1000 and 1001 it never
#: does (@jupyterlab/services, kernel/default.ts).
SERVICE_RESTART = 1012


class Switchboard:
    """The routing table in effect, with the traffic of each route."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        #: Set once the manager has told all routes; until then nothing is refused.
        self.loaded = asyncio.Event()
        self._gates: dict[str, Gate] = {}
        self._prefixes: PrefixMap[Gate] = PrefixMap()

    def match(self, target: str) -> Gate | None:
        """Return the gate whose prefix is the longest that the target lies under."""
        return self._prefixes.match(target)

    @property
    def gates(self) -> Iterable[Gate]:
        """All gates."""
        return self._gates.values()

    @property
    def routes(self) -> list[Route]:
        """The routes in effect."""
        return [gate.route for gate in self._gates.values()]

    async def load(self, routes: Iterable[Route]) -> None:
        """Take over the manager's table; what came in directly meanwhile and is newer stays."""
        for route in routes:
            try:
                await self.apply(object_name(route.workspace), route)
            except Stale:
                continue
            except Exception as error:  # one bad route must not shut out everybody else
                log.error("The route of %s cannot take effect: %s", route.workspace, error)
        self.loaded.set()

    async def apply(self, name: str, route: Route) -> Route:
        """Put a route in effect; returns when it is.

        Raises
        ------
        Stale
            A higher revision is in effect.
        Busy
            Parking failed; the route is as before.
        Conflict, BadRequest
            The route cannot be meant; nothing was changed.
        """
        check(name, route)
        gate = self._gates.get(name)
        if gate is None:
            self._enter(name, route)
            return route
        async with gate.lock:
            change = judge(gate.route, route)
            self._claim(gate, route.prefix)
            if change is Change.park:
                await self._park(gate, route)
            elif change is Change.reroute:
                await self._reroute(gate, route)
            return gate.route

    def _enter(self, name: str, route: Route) -> None:
        """Make the gate of a workspace that was not known: nothing of it is under way."""
        faults.reach("netswitch.park" if route.mode is RouteMode.parked else "netswitch.reroute")
        gate = Gate(route, self.limits)
        self._claim(gate, route.prefix)
        self._gates[name] = gate

    def _claim(self, gate: Gate, prefix: str) -> None:
        owner = self._prefixes.at(prefix)
        if owner not in (None, gate) and owner.route.mode is not RouteMode.closed:
            raise Conflict(
                f"The address {prefix} belongs to the workspace {owner.route.workspace}."
            )
        if prefix != gate.route.prefix:
            self._prefixes.remove(gate.route.prefix)
        self._prefixes.set(prefix, gate)

    async def _park(self, gate: Gate, route: Route) -> None:
        faults.reach("netswitch.park")
        before = gate.route
        gate.set(route)
        try:
            await gate.drain()
        except BaseException:
            gate.set(before)
            await _bring_all_in_line(gate)
            raise

    async def _reroute(self, gate: Gate, route: Route) -> None:
        faults.reach("netswitch.reroute")
        if route.lease != gate.route.lease or route.mode is not RouteMode.open:
            gate.cache.forget()
        gate.set(route)
        gate.cut_foreign(route.lease if route.mode is RouteMode.open else None)
        await _bring_all_in_line(gate)


async def bring_in_line(link: Link, route: Route) -> None:
    """Make a browser's socket do what the route in effect says."""
    if route.mode is RouteMode.open:
        if link.lease == route.lease:
            link.resume()
        else:
            await link.rejoin(route)
    elif route.mode is RouteMode.deflated:
        link.detach()
    elif route.mode is RouteMode.closed:
        link.end(SERVICE_RESTART, "The workspace was stopped.")


async def _bring_all_in_line(gate: Gate) -> None:
    await asyncio.gather(*(bring_in_line(link, gate.route) for link in list(gate.links)))
