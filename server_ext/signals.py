"""Waiting for a condition to hold, woken by what may have changed it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """Wakes all who wait, each time something may have changed. One event loop only."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def fire(self) -> None:
        """Let everyone who waits look again."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; return whether it held within ``timeout_s`` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while not condition():
            left = end - loop.time()
            if left <= 0:
                return False
            waiter = loop.create_future()
            self._waiters.add(waiter)
            await asyncio.wait({waiter}, timeout=left)
            self._waiters.discard(waiter)
        return True
