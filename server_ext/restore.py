"""Taking up a capture: kernels first, then the sessions that name them."""

from __future__ import annotations

import asyncio
from datetime import datetime

from devcluster.core import faults
from devcluster.core.records import KernelPlan, RestoreReport

from .captured import CaptureFolder, CaptureRequest, SavedKernel, SavedSession
from .kernel_calls import load_kernel
from .kernels import Kernels, gather_all
from .unseen import give_unseen
from .warm import WarmKernels


class Restorer:
    """Takes captures up; one at a time, and each id once.

    Parameters
    ----------
    host
        Names the fault points.
    """

    def __init__(self, kernels: Kernels, warm: WarmKernels, host: str) -> None:
        self._kernels = kernels
        self._warm = warm
        self._point = f"server.{host}.restore"
        self._lock = asyncio.Lock()
        self._done: dict[str, RestoreReport] = {}

    async def restore(self, request: CaptureRequest) -> RestoreReport:
        """Bring back kernels and sessions under the ids that they had.

        Asked again for the same capture it answers the same, and touches nothing.
        After a failure it may be asked again: kernels that hold half of a state are
        started anew.

        Raises
        ------
        StepFailed
            Naming the kernel whose state could not be taken up.
        """
        async with self._lock:
            if request.capture in self._done:
                return self._done[request.capture]
            faults.reach(self._point)
            folder = CaptureFolder(request)
            sidecar = folder.read()
            self._kernels.check_specs(saved.plan.kernel_name for saved in sidecar.kernels)
            await self._warm.drop_others({saved.plan.kernel_id for saved in sidecar.kernels})
            paths = {session.kernel_id: session.path for session in sidecar.sessions}
            plans = await gather_all(
                self._restore_kernel(folder, saved, paths.get(saved.plan.kernel_id, ""))
                for saved in sidecar.kernels
            )
            faults.reach(f"{self._point}.kernels")
            for session in sidecar.sessions:
                await self._restore_session(session)
            for saved in sidecar.kernels:
                self._warm.filled(saved.plan.kernel_id)
                self._set_clock(saved)
            report = RestoreReport(kernels=plans)
            self._done[request.capture] = report
            return report

    async def _restore_kernel(
        self, folder: CaptureFolder, saved: SavedKernel, session_path: str
    ) -> KernelPlan:
        kernels, facts = self._kernels, saved.plan
        await self._warm.take(facts, session_path)
        if saved.size is not None:
            link = await kernels.link(facts.kernel_id)
            name = kernels.session_name(session_path) if session_path else ""
            state = str(folder.state_file(facts.kernel_id))
            facts = await load_kernel(link, facts, state, name)
        if saved.unseen is not None:
            give_unseen(kernels.manager, facts.kernel_id, saved.unseen)
        return facts

    def _set_clock(self, saved: SavedKernel) -> None:
        # What culls idle kernels goes by this clock; moving is no activity.
        kernel = self._kernels.manager.get_kernel(saved.plan.kernel_id)
        kernel.last_activity = datetime.fromisoformat(saved.last_activity)

    async def _restore_session(self, session: SavedSession) -> None:
        manager = self._kernels.sessions
        # save_session() adds a row each time, so a repetition must not come to it.
        existing = {model["id"] for model in await manager.list_sessions()}
        if session.id not in existing:
            await manager.save_session(
                session.id,
                path=session.path,
                name=session.name,
                type=session.type,
                kernel_id=session.kernel_id,
            )
