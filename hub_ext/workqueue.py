"""The reconciler's queue: merges duplicates, one at a time for each name, backs off on errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

log = logging.getLogger("devcluster.manager")

#: Seconds before a name is tried again after an error: the first time, and at most.
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.3, 10.0


class Timer(Protocol):
    """What ``later`` returns."""

    def cancel(self) -> None:
        """Let it not happen."""
        ...


class WorkQueue:
    """Names with work to do.

    Parameters
    ----------
    work
        Does the work of one name; returns the seconds until there is more, or None.
    later
        Calls a function in so many seconds: ``loop.call_later``, or a test's clock.
    """

    def __init__(
        self,
        work: Callable[[str], Awaitable[float | None]],
        later: Callable[[float, Callable[[], Any]], Timer],
    ) -> None:
        self._work, self._later = work, later
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._timers: dict[str, Timer] = {}
        self._errors: dict[str, int] = {}
        self._closed = False

    def add(self, name: str) -> None:
        """Have a name worked on now, or again if it is being worked on."""
        if self._closed:
            return
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        if name in self._tasks:
            self._again.add(name)
            return
        self._tasks[name] = asyncio.get_running_loop().create_task(self._run(name))

    @property
    def busy(self) -> list[asyncio.Task[None]]:
        """The work that is being done just now."""
        return list(self._tasks.values())

    async def _run(self, name: str) -> None:
        delay: float | None = None
        try:
            delay = await self._work(name)
            self._errors.pop(name, None)
        except Exception as error:
            count = self._errors[name] = self._errors.get(name, 0) + 1
            delay = min(FIRST_BACKOFF_S * 2 ** min(count - 1, 10), LAST_BACKOFF_S)
            log.warning("Work on %s failed, again in %.1f s: %s", name, delay, error)
        finally:
            self._tasks.pop(name, None)
        again = name in self._again
        self._again.discard(name)
        if again or delay == 0:
            self.add(name)
        elif delay is not None and not self._closed:
            self._timers[name] = self._later(delay, lambda: self.add(name))

    async def close(self) -> None:
        """Stop; what is under way goes on at the next start."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = self.busy
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
