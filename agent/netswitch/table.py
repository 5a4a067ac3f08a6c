"""The routing table as values: which workspace a path belongs to, and which change counts.

Pure: no sockets, no clock.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from devcluster.core.errors import BadRequest, Conflict, Stale
from devcluster.core.names import object_name
from devcluster.core.records import Route, RouteMode

T = TypeVar("T")

Segments = tuple[bytes, ...]


def origin_form(target: str) -> str:
    """Return path and query of a request target, which may also be an absolute URL."""
    if target.startswith("/"):
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def segments(target: str) -> Segments:
    """Return the decoded path segments of a request target.

    Decoding comes after splitting, so that ``%2F`` never becomes a separator, and
    so that ``/user/a%40b/`` and ``/user/a@b/`` are one and the same.

    Parameters
    ----------
    target
        Path with an optional query, as it stands in the request line.
    """
    path = target.split("?", 1)[0].split("#", 1)[0].removeprefix("/")
    # Request lines that are not UTF-8 arrive with surrogate escapes.
    raw = path.encode("utf-8", "surrogateescape")
    return tuple(unquote_to_bytes(part) for part in raw.split(b"/"))


class PrefixMap(Generic[T]):
    """Values by path prefix; the longest prefix wins."""

    def __init__(self) -> None:
        self._at: dict[Segments, T] = {}
        self._longest = 0

    def set(self, prefix: str, value: T) -> None:
        """Put a value at a prefix, which ends with a slash."""
        key = segments(prefix)[:-1]
        self._at[key] = value
        self._longest = max(self._longest, len(key))

    def at(self, prefix: str) -> T | None:
        """Return the value of exactly this prefix."""
        return self._at.get(segments(prefix)[:-1])

    def remove(self, prefix: str) -> None:
        """Forget a prefix; nothing to do if it is not there."""
        self._at.pop(segments(prefix)[:-1], None)

    def match(self, target: str) -> T | None:
        """Return the value of the longest prefix that ``target`` lies under, else None."""
        path = segments(target)
        for length in range(min(len(path), self._longest), -1, -1):
            found = self._at.get(path[:length])
            if found is not None:
                return found
        return None


class Change(Enum):
    """What a route that was sent means, beside the one in effect."""

    none = "none"  # it is in effect already
    park = "park"
    reroute = "reroute"


def check(name: str, route: Route) -> None:
    """Refuse a route that cannot be meant.

    Raises
    ------
    BadRequest
        If the name is another workspace's, or a route that leads somewhere lacks
        its backend or its lease.
    """
    expected = object_name(route.workspace)
    if name != expected:
        raise BadRequest(
            f"The route of {route.workspace!r} belongs at {expected!r}, not at {name!r}."
        )
    if route.mode in (RouteMode.open, RouteMode.parked) and not (route.backend and route.lease):
        raise BadRequest(f"A route that is {route.mode} needs a backend and a lease.")
    if route.backend is not None:
        url = urlsplit(route.backend)
        if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/"):
            raise BadRequest(
                f"The backend {route.backend!r} is no address. Allowed: http://HOST:PORT, "
                "or https, without a path."
            )


def judge(present: Route | None, wanted: Route) -> Change:
    """Tell what must be done for ``wanted`` to be in effect.

    Raises
    ------
    Stale
        If a higher revision is in effect.
    Conflict
        If another route is in effect under the same revision, so that it cannot be
        told which is the later.
    """
    if present is not None:
        if wanted.revision < present.revision:
            raise Stale(
                f"Revision {present.revision} of the route of {wanted.workspace} is in effect; "
                f"{wanted.revision} is older.",
                revision=present.revision,
            )
        if wanted.revision == present.revision:
            if wanted == present:
                return Change.none
            raise Conflict(
                f"Revision {wanted.revision} of the route of {wanted.workspace} is in effect "
                "with other contents. A change needs a higher revision.",
                revision=present.revision,
            )
    return Change.park if wanted.mode is RouteMode.parked else Change.reroute
