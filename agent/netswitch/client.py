"""How the manager talks to the Net Switch."""

from __future__ import annotations

from devcluster.core.calls import Call, call, part
from devcluster.core.names import object_name
from devcluster.core.records import Route


def put_route(route: Route) -> Call[Route]:
    """Set a workspace's route; answers once it is in effect.

    Parking answers when nothing of the browser is under way to the server any more.
    ``Busy`` if a request could not be drained: the route is then open as before.
    ``Stale`` if a higher revision is in effect.
    """
    return call("PUT", f"/v1/routes/{part(object_name(route.workspace))}", Route, route, 60.0)


def routes() -> Call[list[Route]]:
    """Ask for the routes in effect."""
    return call("GET", "/v1/routes", list[Route])
