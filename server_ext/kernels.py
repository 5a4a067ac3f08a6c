"""All kernels of this server: lines to them, what they belong to, and what they are doing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterable
from posixpath import basename, dirname
from typing import Any, TypeVar

from devcluster.core.errors import BadRequest, DevClusterError
from devcluster.core.records import KernelPlan, Plan

from .kernel_calls import plan_kernel
from .kernel_link import KernelLink
from .signals import Signal

T = TypeVar("T")

#: Seconds for a kernel to come up and be heard; importing a machine's first IPython is slow.
START_S = 60.0
#: Seconds for an idle kernel to answer a small question, before it counts as busy.
ANSWER_S = 20.0
#: Seconds to find out whether a request that nobody answered has had its turn.
SETTLE_S = 2.0

_NOT_IPYTHON = "restarts empty: only IPython kernels can be moved."
_DEAD = "restarts empty: its process has ended."
_KERNEL_EVENTS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class Kernels:
    """The kernels of one Jupyter server.

    Parameters
    ----------
    app
        The ``jupyter_server.serverapp.ServerApp``.
    """

    def __init__(self, app: Any) -> None:
        self.manager = app.kernel_manager
        self.sessions = app.session_manager
        self.log = app.log
        self._settings = app.web_app.settings
        self._specs = app.kernel_spec_manager
        self._links: dict[str, asyncio.Task[KernelLink]] = {}
        self._changed = Signal()
        app.event_logger.add_listener(schema_id=_KERNEL_EVENTS, listener=self._on_kernel_event)

    @property
    def ids(self) -> list[str]:
        """The ids of all kernels."""
        return list(self.manager.list_kernel_ids())

    # --- lines -------------------------------------------------------------------

    async def link(self, kernel_id: str) -> KernelLink:
        """Return the line to a kernel, opened by whoever asks first."""
        task = self._links.get(kernel_id)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = asyncio.create_task(self._open(kernel_id))
            self._links[kernel_id] = task
        # One who gives up waiting must not take the line from the others.
        return await asyncio.shield(task)

    def open_links(self) -> dict[str, KernelLink]:
        """Return the lines that are open, by kernel."""
        return {
            kernel_id: task.result()
            for kernel_id, task in self._links.items()
            if task.done() and not task.cancelled() and not task.exception()
        }

    async def _open(self, kernel_id: str) -> KernelLink:
        link = KernelLink(self.manager.get_kernel(kernel_id), self._changed)
        try:
            await link.open(START_S)
        except BaseException:
            link.close()
            raise
        return link

    async def _on_kernel_event(self, data: dict[str, Any], **_who: Any) -> None:
        for gone in [known for known in self._links if known not in self.manager]:
            self._links.pop(gone).cancel()
        link = self.open_links().get(data.get("kernel_id", ""))
        if link is None or data.get("status") != "success":
            return
        if data["action"] == "shutdown":
            link.close()  # a restart is a shutdown too, and then a new start of the same kernel
        elif data["action"] == "restart":
            link.restarted()

    # --- what they are doing -----------------------------------------------------

    async def busy(self) -> list[str]:
        """Return the ids of kernels that run something, have something queued, or are mute."""
        ids = self.ids
        busy = await gather_all(self._is_busy(kernel_id) for kernel_id in ids)
        return [kernel_id for kernel_id, is_busy in zip(ids, busy, strict=True) if is_busy]

    async def wait_idle(self, wait_s: float) -> bool:
        """Wait up to ``wait_s`` seconds until no kernel is busy; return whether that came."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_s
        while await self.busy():
            left = end - loop.time()
            quiet = await self._changed.until(self._seems_idle, left)
            if not quiet or left <= 0:
                return False
        return True

    def _seems_idle(self) -> bool:
        return not any(
            link.requests.busy and not link.requests.silent() for link in self.open_links().values()
        )

    async def interrupt(self) -> None:
        """Interrupt what runs in all busy kernels; what is queued behind it is dropped."""
        await gather_all(self.manager.interrupt_kernel(i) for i in await self.busy())

    async def _is_busy(self, kernel_id: str) -> bool:
        if not await self.manager.get_kernel(kernel_id).is_alive():
            return False
        try:
            async with asyncio.timeout(ANSWER_S):
                link = await self.link(kernel_id)
        except (DevClusterError, TimeoutError):
            return True
        await link.settle(SETTLE_S)
        return link.requests.busy

    # --- what they are -----------------------------------------------------------

    async def plan(self) -> Plan:
        """Ask every kernel what a move would carry, rebuild and lose. Changes nothing."""
        sessions = await self.sessions_by_kernel()
        plans = await gather_all(self._plan(self.describe(i, sessions.get(i))) for i in self.ids)
        return Plan(kernels=plans, terminals=self.terminals())

    async def sessions_by_kernel(self) -> dict[str, dict[str, Any]]:
        """Return jupyter-server's session models, by the kernel that each belongs to."""
        return {model["kernel"]["id"]: model for model in await self.sessions.list_sessions()}

    def describe(self, kernel_id: str, session: dict[str, Any] | None) -> KernelPlan:
        """Return what is known of a kernel without asking it."""
        path = str((session or {}).get("path") or "")
        return KernelPlan(
            kernel_id=kernel_id,
            kernel_name=self.manager.get_kernel(kernel_id).kernel_name,
            path=dirname(path),
            title=str((session or {}).get("name") or basename(path)),
        )

    def terminals(self) -> int:
        """Return how many terminals are open."""
        # Looked up late: their extension may be loaded after this one, or not at all.
        manager = self._settings.get("terminal_manager")
        return len(manager.list()) if manager is not None else 0

    async def portable(self, facts: KernelPlan) -> KernelPlan:
        """Return the facts with what keeps the kernel from being moved, if anything does."""
        reason = ""
        if not await self.manager.get_kernel(facts.kernel_id).is_alive():
            reason = _DEAD
        elif not (await self.link(facts.kernel_id)).is_ipython:
            reason = _NOT_IPYTHON
        return facts.model_copy(update={"portable": not reason, "reason": reason})

    async def _plan(self, facts: KernelPlan) -> KernelPlan:
        if await self._is_busy(facts.kernel_id):
            return facts.model_copy(update={"busy": True})
        facts = await self.portable(facts)
        if not facts.portable:
            return facts
        try:
            return await plan_kernel(await self.link(facts.kernel_id), facts, ANSWER_S)
        except DevClusterError as error:
            self.log.warning("Kernel %s gave no plan: %s", facts.kernel_id, error)
            return facts.model_copy(update={"busy": True, "reason": str(error)})

    # --- making and ending them --------------------------------------------------

    def check_specs(self, names: Iterable[str]) -> None:
        """Refuse kernels that cannot be started here.

        Raises
        ------
        BadRequest
            With the names that are there.
        """
        known = self._specs.find_kernel_specs()
        for name in names:
            if name not in known:
                raise BadRequest(
                    f"There is no kernel named {name!r} in this server's environment. It has: "
                    f"{', '.join(sorted(known)) or 'none'}. Install its kernelspec in the "
                    "workspace's image."
                )

    async def start(self, facts: KernelPlan, session_path: str = "") -> None:
        """Start a kernel under the id that it has elsewhere, and open the line to it."""
        env = dict(os.environ)
        if session_path:
            env["JPY_SESSION_NAME"] = self.session_name(session_path)
        await self.manager.start_kernel(
            kernel_id=facts.kernel_id, kernel_name=facts.kernel_name, path=facts.path, env=env
        )
        await self.link(facts.kernel_id)

    async def shutdown(self, kernel_id: str) -> None:
        """End a kernel, without asking it."""
        await self.manager.shutdown_kernel(kernel_id, now=True)

    def session_name(self, path: str) -> str:
        """Return what jupyter-server gives kernels as ``JPY_SESSION_NAME``."""
        folder = self.manager.cwd_for_path(dirname(path))
        return os.path.join(folder, basename(path))

    def keep_dead(self, is_held: bool) -> None:
        """Have kernels that die stay dead, or be restarted again as usual."""
        for kernel_id in self.ids:
            kernel = self.manager.get_kernel(kernel_id)
            if is_held:
                kernel.stop_restarter()
            else:
                kernel.start_restarter()


async def gather_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run all to their ends, then raise the first error if there is any.

    Nothing is still at work when it raises, so that one can clean up.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
