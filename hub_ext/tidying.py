"""Getting rid of what was given up: old leases and captures. Repeated until confirmed."""

from __future__ import annotations

import asyncio
import contextlib

from devcluster.core.errors import DevClusterError

from .parts import Parts
from .store import Role


class Tidying:
    """Ends leases that are being released, and deletes captures that nobody needs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def clear(self, workspace: str, hosts: set[str]) -> None:
        """End what a workspace left on these hosts; raise if that cannot be confirmed."""
        for lease, host in self._releasing(workspace):
            if host in hosts:
                await self._end(lease, host)

    async def tidy(self, workspace: str, patient: bool = False) -> None:
        """End and delete all that can be; raise the first error after trying all.

        Parameters
        ----------
        patient
            Leave out hosts that are lost: their return is news enough.
        """
        errors: list[DevClusterError] = []
        for lease, host in self._releasing(workspace):
            if patient and self._parts.hosts.freshness(host) == "lost":
                continue
            try:
                await self._end(lease, host)
            except DevClusterError as error:
                errors.append(error)
        with self._parts.store.transaction() as tx:
            garbage = tx.garbage(workspace)
        for item in garbage:
            if patient and self._parts.hosts.freshness(item.host) == "lost":
                continue
            try:
                await self._parts.agent(item.host).drop_capture(workspace, item.capture)
            except DevClusterError as error:
                errors.append(error)
                continue
            with self._parts.store.transaction() as tx:
                for row in tx.garbage(workspace):
                    if row.id == item.id:
                        tx.delete(row)
        if errors:
            raise errors[0]

    async def quickly(self, workspace: str, lease: str, host: str, within_s: float) -> None:
        """Try to end one lease; what is not confirmed in time stays on record."""
        with contextlib.suppress(DevClusterError, TimeoutError):
            await asyncio.wait_for(self._end(lease, host), within_s)

    def _releasing(self, workspace: str) -> list[tuple[str, str]]:
        with self._parts.store.transaction() as tx:
            return [(x.id, x.host) for x in tx.leases(workspace) if x.role == Role.releasing]

    async def _end(self, lease_id: str, host: str) -> None:
        await self._parts.agent(host).remove(lease_id)
        with self._parts.store.transaction() as tx:
            lease = tx.lease(lease_id)
            if lease is not None and lease.role == Role.releasing:
                tx.delete(lease)
                self._parts.admit_again = True
