"""One thing at a time for each lease; asking again for the same joins what is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Operations:
    """Runs operations on leases in tasks of their own, so a lost connection ends none."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(
        self, lease: str, what: str, do: Callable[[], Awaitable[T]], instead: tuple[str, ...] = ()
    ) -> T:
        """Do something to a lease once what is under way with it is done.

        Parameters
        ----------
        what
            Names the operation with all that its answer depends on.
        instead
            Operations (by the first word of their name) that this one makes pointless:
            they are called off.
        """
        task = self._under_way.get((lease, what))
        if task is None:
            for (other, name), one in list(self._under_way.items()):
                if other == lease and name.split()[0] in instead:
                    one.cancel()
            task = asyncio.get_running_loop().create_task(self._alone(lease, do))
            self._under_way[lease, what] = task
            task.add_done_callback(lambda _: self._under_way.pop((lease, what), None))
        return await asyncio.shield(task)

    async def _alone(self, lease: str, do: Callable[[], Awaitable[T]]) -> T:
        async with self._locks.setdefault(lease, asyncio.Lock()):
            return await do()

    def forget(self, lease: str) -> None:
        """Drop the lock of a lease that is gone, unless somebody waits for it."""
        if not any(other == lease for other, _ in self._under_way):
            self._locks.pop(lease, None)

    async def close(self) -> None:
        """Call off everything; each operation can be asked for again."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
