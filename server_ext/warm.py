"""Kernels that were started ahead of a capture, under the ids that they will answer to."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from devcluster.core.errors import Conflict, DevClusterError
from devcluster.core.records import KernelHint, KernelPlan

from .kernel_calls import name_of, warm_kernel
from .kernels import Kernels, gather_all

#: Seconds for imports ahead of need; what takes longer goes on in the kernel by itself.
_IMPORT_S = 100.0


class WarmKernels:
    """Knows which kernels of this server are ours to fill: empty ones, started by us."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._empty: set[str] = set()
        #: Kernels that began to take up a state and did not end: nobody may use them.
        self._half: set[str] = set()

    async def warm(self, hints: list[KernelHint]) -> None:
        """Start kernels under the given ids, with their modules imported.

        A kernel that is there already is left as it is, but for imports if it is still
        empty. Imports that fail are no error: they fail again, and are told, with the state.

        Raises
        ------
        BadRequest
            If a kernelspec is missing here; nothing was started then.
        """
        self._kernels.check_specs(hint.kernel_name for hint in hints)
        await gather_all(self._warm(hint) for hint in hints)

    async def take(self, facts: KernelPlan, session_path: str) -> None:
        """Have an empty kernel for a state, warm or started now; from here on it is not empty.

        Raises
        ------
        Conflict
            If a kernel of that id is in use here.
        """
        kernel_id = facts.kernel_id
        async with self._locks[kernel_id]:
            if kernel_id in self._half and kernel_id in self._kernels.manager:
                await self._kernels.shutdown(kernel_id)
            if kernel_id not in self._kernels.manager:
                await self._kernels.start(facts, session_path)
            elif kernel_id not in self._empty:
                raise Conflict(
                    f"{name_of(facts)} is in use on this server already; a capture is only "
                    "taken up by kernels that are empty."
                )
            self._empty.discard(kernel_id)
            self._half.add(kernel_id)

    def filled(self, kernel_id: str) -> None:
        """Note that a kernel has taken up its whole state."""
        self._half.discard(kernel_id)

    async def drop_others(self, wanted: set[str]) -> None:
        """End the kernels that we started and that nobody needs."""
        spare = (self._empty | self._half) - wanted
        await gather_all(
            self._kernels.shutdown(each) for each in spare if each in self._kernels.manager
        )
        self._empty -= spare
        self._half -= spare

    async def _warm(self, hint: KernelHint) -> None:
        kernels = self._kernels
        async with self._locks[hint.kernel_id]:
            if hint.kernel_id not in kernels.manager:
                facts = KernelPlan(
                    kernel_id=hint.kernel_id, kernel_name=hint.kernel_name, path=hint.path
                )
                await kernels.start(facts)
                self._empty.add(hint.kernel_id)
            link = await kernels.link(hint.kernel_id)
            if hint.kernel_id in self._empty and link.is_ipython:
                try:
                    # Without modules too: the first call loads what saving and loading need.
                    await warm_kernel(link, hint.modules, _IMPORT_S)
                except DevClusterError as error:
                    kernels.log.warning("Imports ahead in %s: %s", hint.kernel_id, error)
