"""Sending calls to the manager from the hub's process: shared connections, total deadlines."""

from __future__ import annotations

import asyncio
from typing import TypeVar
from weakref import WeakKeyDictionary

import httpx
from devcluster.core.calls import Call
from devcluster.core.errors import Unavailable
from devcluster.hub_ext.client import AsyncManagerClient

T = TypeVar("T")


class Send:
    """Sends calls to the manager, each with its total deadline.

    The deadline counts from first to last byte: a peer that trickles, or takes a
    connection and says nothing, ends it as surely as one that is gone.
    """

    def __init__(self, manager: AsyncManagerClient) -> None:
        self._manager = manager

    async def __call__(self, call: Call[T]) -> T:
        """Return the answer's value, or raise what came instead."""
        try:
            async with asyncio.timeout(call.timeout_s):
                return await self._manager.send(call)
        except TimeoutError:
            raise Unavailable(
                f"The manager did not answer {call.path} within {call.timeout_s:g} s."
            ) from None


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Send]] = (
    WeakKeyDictionary()
)


def sender(url: str, token: str) -> Send:
    """Return the running event loop's one sender for a manager.

    All spawners of a hub share it, so that a poll costs no new connection. The number
    of connections is not limited: each queued start holds one with its long question,
    and they must not keep a poll waiting.
    """
    senders = _shared.setdefault(asyncio.get_running_loop(), {})
    if (url, token) not in senders:
        transport = httpx.AsyncHTTPTransport(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20)
        )
        senders[url, token] = Send(AsyncManagerClient(url, token, transport))
    return senders[url, token]
