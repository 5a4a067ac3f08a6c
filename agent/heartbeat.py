"""Tell the manager, regularly and whenever something changes, what is on this host."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from devcluster.core.errors import DevClusterError
from devcluster.core.records import HeartbeatReply, HostReport
from devcluster.hub_ext import client as hub_client

from .durable import read_json, write_json

#: Between two reports, however often things change.
_LEAST_S = 0.05
#: The first wait for a manager that is away; doubled up to the usual time.
_FIRST_S = 0.5


@dataclass
class Sequence:
    """Numbers that rise for as long as the agent's state is a continuation of the former.

    A new boot id says that it is not: the data folder is new, or the machine was started
    anew, so that no process of before is left.
    """

    boot: str
    _generation: int
    _count: int = 0

    @classmethod
    def load(cls, file: Path, machine: str) -> Sequence:
        """Go on from what the file says, and note it there first."""
        held = read_json(file)
        if not isinstance(held, dict) or held.get("machine") != machine:
            held = {"boot": uuid.uuid4().hex, "generation": 0}
        generation = int(held["generation"]) + 1
        boot = str(held["boot"])
        write_json(file, {"boot": boot, "machine": machine, "generation": generation})
        return cls(boot, generation)

    def next(self) -> int:
        """Return the next number; one agent process has a billion of them."""
        self._count += 1
        return self._generation * 1_000_000_000 + self._count


class Heartbeat:
    """Sends reports until it is stopped; a manager that is away is tried again and again."""

    def __init__(
        self,
        manager: hub_client.AsyncManagerClient,
        report: Callable[[], HostReport],
        remove: Callable[[str], Awaitable[None]],
        every_s: float,
        log: logging.Logger,
    ) -> None:
        self._manager, self._report, self._remove = manager, report, remove
        self._every_s, self._log = every_s, log
        self._changed = asyncio.Event()
        self._removing: set[asyncio.Task[None]] = set()

    def changed(self) -> None:
        """Have a report sent now."""
        self._changed.set()

    async def run(self) -> None:
        """Send reports for ever."""
        wait_s, silent = self._every_s, False
        while True:
            self._changed.clear()
            try:
                reply = await self._manager.send(hub_client.heartbeat(self._report()))
            except DevClusterError as error:
                if not silent:
                    self._log.warning("No answer to the heartbeat: %s", error.message)
                wait_s = min(wait_s * 2 if silent else _FIRST_S, self._every_s)
                silent = True
            else:
                if silent:
                    self._log.info("The manager answers again.")
                wait_s, silent = self._every_s, False
                self._obey(reply)
            await self._wait(wait_s, listen=not silent)

    async def _wait(self, wait_s: float, listen: bool) -> None:
        began = time.monotonic()
        if not listen:
            await asyncio.sleep(wait_s)
            return
        try:
            await asyncio.wait_for(self._changed.wait(), wait_s)
        except TimeoutError:
            return
        await asyncio.sleep(max(0.0, _LEAST_S - (time.monotonic() - began)))

    def _obey(self, reply: HeartbeatReply) -> None:
        for lease in reply.remove:
            task = asyncio.create_task(self._remove_one(lease))
            self._removing.add(task)
            task.add_done_callback(self._removing.discard)

    async def _remove_one(self, lease: str) -> None:
        try:
            await self._remove(lease)
        except DevClusterError as error:
            self._log.error("Lease %s could not be removed: %s", lease, error.message)
