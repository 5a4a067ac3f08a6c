"""Saving all kernels of this server into a capture."""

from __future__ import annotations

import asyncio

from devcluster.core import faults
from devcluster.core.errors import Busy
from devcluster.core.records import CaptureReport, KernelPlan

from .captured import CaptureFolder, CaptureRequest, SavedKernel, SavedSession, Sidecar
from .kernel_calls import name_of, save_kernel
from .kernel_link import KernelLink
from .kernels import Kernels, gather_all
from .unseen import take_unseen

#: Seconds for what kernels have said to leave for browsers; a browser that does not read
#: must not keep the workspace from moving.
_OUTPUT_S = 1.0


class Capturer:
    """Makes captures; one at a time, and each id once.

    Parameters
    ----------
    host
        Names the fault points.
    """

    def __init__(self, kernels: Kernels, host: str) -> None:
        self._kernels = kernels
        self._point = f"server.{host}.capture"
        self._lock = asyncio.Lock()
        #: The capture that stands, and what had been asked of the kernels by then.
        self._stands: tuple[str, dict[str, int]] | None = None

    async def capture(self, request: CaptureRequest) -> CaptureReport:
        """Save all kernels, sessions and what names them.

        Asked again for the same capture, nothing having run since, it answers the
        same. Kernels that die from here on stay dead until :meth:`resume`.

        Raises
        ------
        Busy
            If a kernel runs or has queued anything; nothing was saved.
        StepFailed
            If a kernel could not save its state; nothing is left of the capture.
        """
        async with self._lock:
            folder = CaptureFolder(request)
            if self._stands == (request.capture, self._asked()) and folder.is_complete():
                return folder.read().report
            faults.reach(self._point)
            self._refuse_busy(await self._kernels.busy())
            self._kernels.keep_dead(True)
            try:
                asked = self._asked()
                folder.begin()
                sidecar = await self._save(folder)
                # Whatever has run since may not be in what was saved.
                now = self._asked()
                self._refuse_busy([each for each in now if now[each] != asked.get(each)])
                folder.complete(sidecar)
                faults.reach(f"{self._point}.saved")
            except BaseException:
                self._undo()
                if folder.path.is_dir():
                    folder.discard()
                raise
            self._stands = (request.capture, asked)
            return sidecar.report

    async def resume(self) -> None:
        """Go on as if there had been no capture."""
        async with self._lock:
            self._undo()

    def _undo(self) -> None:
        self._stands = None
        self._kernels.keep_dead(False)

    def _asked(self) -> dict[str, int]:
        links = self._kernels.open_links()
        return {kernel_id: link.requests.passed_on for kernel_id, link in links.items()}

    def _refuse_busy(self, busy: list[str]) -> None:
        if busy:
            names = ", ".join(sorted(busy))
            raise Busy(
                f"Cells are running or queued in {len(busy)} of the kernels ({names}). Wait for "
                "them or interrupt them, then capture again.",
                kernels=sorted(busy),
            )

    async def _save(self, folder: CaptureFolder) -> Sidecar:
        kernels = self._kernels
        by_kernel = await kernels.sessions_by_kernel()
        facts = [kernels.describe(i, by_kernel.get(i)) for i in kernels.ids]
        saved = await gather_all(self._save_kernel(folder, each) for each in facts)
        sessions = [
            SavedSession(
                id=model["id"],
                path=model["path"] or "",
                name=model["name"] or "",
                type=model["type"] or "",
                kernel_id=model["kernel"]["id"],
            )
            for model in await kernels.sessions.list_sessions()
        ]
        return Sidecar(
            capture=folder.capture,
            kernels=saved,
            sessions=sessions,
            terminals=kernels.terminals(),
        )

    async def _save_kernel(self, folder: CaptureFolder, facts: KernelPlan) -> SavedKernel:
        kernels, kernel_id = self._kernels, facts.kernel_id
        last_activity = kernels.manager.get_kernel(kernel_id).last_activity
        facts = await kernels.portable(facts)
        size = unseen = None
        if facts.portable:
            link = await kernels.link(kernel_id)
            last_activity = link.last_activity  # jupyter-server's own counts our questions
            facts = await save_kernel(link, facts, str(folder.partial_file(kernel_id)))
            size = folder.keep(kernel_id)
            await self._let_output_leave(link, facts)
            unseen = take_unseen(kernels.manager, kernel_id, link)
        return SavedKernel(
            plan=facts,
            last_activity=last_activity.isoformat(),
            execution_state="idle" if facts.portable else "starting",
            size=size,
            unseen=unseen,
        )

    async def _let_output_leave(self, link: KernelLink, facts: KernelPlan) -> None:
        try:
            await link.let_output_leave(_OUTPUT_S)
        except (TimeoutError, OSError):
            self._kernels.log.warning(
                "A browser of %s did not take all output before the capture.", name_of(facts)
            )
