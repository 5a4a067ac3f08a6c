"""Which headers pass, as pure functions.

Everything passes but what belongs to one connection (RFC 9110, section 7.6.1) and
our own lease header: ``Host``, ``Origin``, cookies, ``Authorization`` and
``X-Forwarded-*`` are the server's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

#: Names the placement that a request is meant for; a server of another one answers 421.
LEASE = "X-DevCluster-Lease"

#: "Misdirected Request": the server is not the one that the lease names.
MISDIRECTED = 421

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        LEASE.lower(),
    }
)


#: What no ``Connection`` header can have dropped: the server would take the person for another.
_ALWAYS_END_TO_END = frozenset(
    {"authorization", "content-length", "content-type", "cookie", "host", "origin", "set-cookie"}
)


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {
        token.strip().lower()
        for value in headers.getall("Connection", ())
        for token in value.split(",")
    }
    drop = _HOP_BY_HOP | (named - _ALWAYS_END_TO_END)
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        if name.lower() not in drop:
            kept.add(name, value)
    return kept


def for_upstream(headers: CIMultiDictProxy[str], lease: str) -> CIMultiDict[str]:
    """Return the headers of a request as the server gets them."""
    kept = _end_to_end(headers)
    kept.popall("Expect", None)  # answered by the Net Switch, whose own hop it is
    kept[LEASE] = lease
    return kept


def for_handshake(headers: CIMultiDictProxy[str], lease: str) -> CIMultiDict[str]:
    """Return the headers of a websocket handshake, less what the client library writes itself."""
    kept = for_upstream(headers, lease)
    for name in list(kept):
        if name.lower().startswith("sec-websocket-"):
            kept.popall(name, None)
    return kept


def for_client(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers of an answer as the client gets them."""
    return _end_to_end(headers)


def is_foreign(status: int, headers: Mapping[str, str], lease: str) -> bool:
    """Tell whether an answer comes from another server than the lease's.

    Then nothing of it may reach the client: the port was reused.
    """
    return status == MISDIRECTED or headers.get(LEASE, lease) != lease


def subprotocols(headers: CIMultiDictProxy[str]) -> tuple[str, ...]:
    """Return the websocket subprotocols that a client offers, in its order."""
    return tuple(
        token.strip()
        for value in headers.getall("Sec-WebSocket-Protocol", ())
        for token in value.split(",")
        if token.strip()
    )


def is_websocket(headers: Mapping[str, str]) -> bool:
    """Tell whether a request asks to become a websocket."""
    asked = [token.strip().lower() for token in headers.get("Connection", "").split(",")]
    return "upgrade" in asked and headers.get("Upgrade", "").strip().lower() == "websocket"


def is_navigation(method: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a person opens a page, as against a script that polls or a prefetch."""
    if method != "GET" or "prefetch" in headers.get("Sec-Purpose", headers.get("Purpose", "")):
        return False
    mode = headers.get("Sec-Fetch-Mode")
    if mode is not None:
        return mode == "navigate"
    return (
        "text/html" in headers.get("Accept", "")
        and headers.get("X-Requested-With", "").lower() != "xmlhttprequest"
    )
