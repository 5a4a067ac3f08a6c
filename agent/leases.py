"""The leases of a host: start, capture, restore and remove servers, each step on record first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from devcluster.core import faults
from devcluster.core.calls import Call
from devcluster.core.errors import (
    BadRequest,
    Conflict,
    DevClusterError,
    NotFound,
    StepFailed,
    Unavailable,
)
from devcluster.core.records import (
    CaptureReport,
    Fetch,
    FetchReport,
    LeasePhase,
    LeaseReport,
    LeaseRequest,
    RestoreReport,
)

from . import server_client
from .environment import server_environment
from .fetching import fetch
from .homes.folders import Folders
from .homes.transfer import check_space
from .inventory import Inventory
from .lease_store import CaptureRecord, LeaseRecord, LeaseStore
from .operations import Operations
from .runtimes.base import Runtime, ServerSpec
from .runtimes.process import tail
from .server_client import ServerClient

T = TypeVar("T")

_POLL_S = 0.05


class Leases:
    """Everything the manager may ask about leases. Each call may be repeated.

    Parameters
    ----------
    host, ip
        The host's name, and the address that servers listen on.
    changed
        Called whenever a lease's phase may have changed.
    own_url, token
        This agent's address, and the cluster's token, to fetch from other agents.
    start_s, grace_s
        How long a server may take to answer, and to end by itself.
    """

    def __init__(
        self,
        host: str,
        ip: str,
        store: LeaseStore,
        runtime: Runtime,
        folders: Folders,
        inventory: Inventory,
        changed: Callable[[], None],
        own_url: str,
        token: str,
        log: logging.Logger,
        start_s: float = 100.0,
        grace_s: float = 5.0,
    ) -> None:
        self._host, self._ip, self._own_url, self._log_to = host, ip, own_url, log
        self._store, self._runtime, self._folders = store, runtime, folders
        self._inventory, self._changed, self._token = inventory, changed, token
        self._start_s, self._grace_s = start_s, grace_s
        self._server = ServerClient()
        self._operations = Operations()
        self._syncing: dict[str, asyncio.Task[None]] = {}
        self._watched: dict[str, int] = {}

    # --- life of the agent -----------------------------------------------------

    async def adopt(self) -> None:
        """Take over what runs: freeze again what should be, undo a capture that was cut off."""
        for record in self._store.all():
            try:
                await self._adopt(record)
            except DevClusterError as error:  # the others are taken over all the same
                self._log_to.error("Lease %s: %s", record.request.lease, error.message)

    async def _adopt(self, record: LeaseRecord) -> None:
        if record.removing:
            await self._remove(record.request.lease)
            return
        if not self._runtime.look(record.key).alive:
            return
        self._watch(record)
        if record.capture is not None and record.capture.state == "frozen":
            await self._runtime.freeze(record.key)
            self._sync_later(record)
        elif record.capture is not None:
            await self._undo_capture(record)

    async def close(self) -> None:
        """Let go of everything; the servers run on."""
        await self._operations.close()
        for lease in list(self._watched):
            self._unwatch(lease)
        for task in self._syncing.values():
            task.cancel()
        await asyncio.gather(*self._syncing.values(), return_exceptions=True)
        await self._server.close()

    # --- what is ---------------------------------------------------------------

    def reports(self) -> list[LeaseReport]:
        """Report all leases."""
        return [self._report(record) for record in self._store.all()]

    def report(self, lease: str) -> LeaseReport:
        """Report one lease."""
        return self._report(self._known(lease))

    def is_live(self, workspace: str, other_than: str = "") -> bool:
        """Tell whether processes of a workspace may be writing to its home here."""
        return any(
            self._runtime.look(record.key).alive
            and not (record.capture is not None and record.capture.state == "frozen")
            for record in self._store.all()
            if record.request.workspace == workspace and record.request.lease != other_than
        )

    def _known(self, lease: str) -> LeaseRecord:
        record = self._store.get(lease)
        if record is None:
            raise NotFound(f"The host {self._host} has no lease {lease!r}.")
        return record

    def _report(self, record: LeaseRecord) -> LeaseReport:
        sight = self._runtime.look(record.key)
        reason = "" if sight.alive else sight.reason
        if not sight.alive:
            phase = LeasePhase.exited if record.ready or sight.known else LeasePhase.starting
        elif record.capture is not None and record.capture.state == "frozen":
            phase = LeasePhase.frozen
        else:
            phase = LeasePhase.running if record.ready else LeasePhase.starting
        request = record.request
        return LeaseReport(
            lease=request.lease,
            workspace=request.workspace,
            epoch=request.epoch,
            phase=phase,
            gpus=request.gpus,
            url=f"http://{self._ip}:{record.port}" if record.ready and sight.alive else None,
            reason=" ".join(filter(None, [reason, *sight.notes])),
        )

    # --- ensure ----------------------------------------------------------------

    async def ensure(self, request: LeaseRequest) -> LeaseReport:
        """Have the server of a lease running; returns once it answers and kernels are warm."""
        for uuid in request.gpus:
            if not self._inventory.known(uuid):
                known = ", ".join(gpu.uuid for gpu in self._inventory.gpus) or "none"
                raise BadRequest(f"The host {self._host} has no GPU {uuid!r}; it has: {known}.")
        self._store.fence(request.workspace, request.epoch)
        return await self._operations.run(request.lease, "ensure", lambda: self._ensure(request))

    async def _ensure(self, request: LeaseRequest) -> LeaseReport:
        faults.reach(f"agent.{self._host}.ensure")
        lease = request.lease
        record = self._store.get(lease)
        if record is not None and record.request.workspace != request.workspace:
            raise Conflict(f"The lease {lease!r} is of another workspace.")
        if record is not None and record.removing:
            raise Conflict(f"The lease {lease!r} is being removed.")
        if record is None or not self._runtime.look(record.key).alive:
            record = self._store.put(
                LeaseRecord(
                    request=request,
                    port=_free_port(self._ip, {one.port for one in self._store.all()}),
                    control=secrets.token_urlsafe(32),
                )
            )
            await self._runtime.start(self._spec(record))
            faults.reach(f"agent.{self._host}.ensure.spawned")
            self._watch(record)
        elif record.capture is not None:
            return self._report(record)  # frozen: only thaw or remove may change that
        await self._until_healthy(record)
        if request.warm:
            await self._send(record, server_client.warm(request.warm))
        record = self._store.change(lease, ready=True)
        self._changed()
        return self._report(record)

    def _spec(self, record: LeaseRecord) -> ServerSpec:
        request = record.request
        models = {gpu.uuid: gpu.model for gpu in self._inventory.gpus}
        model = models[request.gpus[0]] if request.gpus else ""
        return ServerSpec(
            key=record.key,
            object=record.object,
            command=request.launch.command,
            env=server_environment(
                request, self._host, model, self._ip, record.port, record.control, os.environ
            ),
            home=self._folders.home(request.workspace, make=True),
            log=self._log(record),
            cpus=request.flavor.cpus,
            memory=request.flavor.memory,
        )

    def _log(self, record: LeaseRecord) -> Path:
        return self._folders.logs / f"{record.object}.{record.key}.log"

    async def _until_healthy(self, record: LeaseRecord) -> None:
        end = time.monotonic() + self._start_s
        while True:
            try:
                health = await self._send(record, server_client.health())
                if health.lease == record.request.lease:
                    return
                problem: DevClusterError = StepFailed("Its port belongs to another lease's server.")
            except DevClusterError as error:
                problem = error
            sight = self._runtime.look(record.key)
            if not sight.alive:
                raise StepFailed(f"{sight.reason} {tail(self._log(record))}")
            if time.monotonic() > end:
                raise StepFailed(
                    f"The server did not answer within {self._start_s:g} s: {problem.message} "
                    f"{tail(self._log(record))}"
                )
            await asyncio.sleep(_POLL_S)

    # --- asked of the server ---------------------------------------------------

    async def ask(self, lease: str, call: Call[T]) -> T:
        """Pass a call on to a lease's server."""
        record = self._known(lease)
        if record.capture is not None and record.capture.state == "frozen":
            raise Conflict(f"The lease {lease!r} is frozen; thaw it first.")
        sight = self._runtime.look(record.key)
        if not sight.alive:
            raise Conflict(f"The server of the lease {lease!r} does not run. {sight.reason}")
        return await self._send(record, call)

    async def _send(self, record: LeaseRecord, call: Call[T]) -> T:
        base = f"http://{self._ip}:{record.port}{record.request.launch.prefix}"
        return await self._server.send(base, record.control, call)

    # --- capture and thaw ------------------------------------------------------

    async def capture(self, lease: str, capture_id: str) -> CaptureReport:
        """Save all kernels, then freeze everything; on any fault all goes on as it was."""
        self._folders.capture(self._known(lease).request.workspace, capture_id)
        return await self._operations.run(
            lease, f"capture {capture_id}", lambda: self._capture(lease, capture_id)
        )

    async def _capture(self, lease: str, capture_id: str) -> CaptureReport:
        record = self._known(lease)
        held = record.capture
        if held is not None and held.state == "frozen":
            if held.id == capture_id and held.report is not None:
                return held.report
            raise Conflict(f"The lease {lease!r} is frozen for the capture {held.id}.")
        faults.reach(f"agent.{self._host}.capture")
        sight = self._runtime.look(record.key)
        if not sight.alive:
            raise StepFailed(f"There is no server to capture. {sight.reason}")
        await self._check_capture_space(record)
        folder = self._folders.capture(record.request.workspace, capture_id)
        await asyncio.to_thread(shutil.rmtree, folder, True)
        folder.mkdir(parents=True, mode=0o700)
        record = self._store.change(lease, capture=CaptureRecord(id=capture_id, state="saving"))
        try:
            report = await self._send(record, server_client.capture(str(folder), capture_id))
            faults.reach(f"agent.{self._host}.capture.saved")
            await self._runtime.freeze(record.key)
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            report = report.model_copy(update={"bytes": size})
            record = self._store.change(
                lease, capture=CaptureRecord(id=capture_id, state="frozen", report=report)
            )
            faults.reach(f"agent.{self._host}.capture.frozen")
        except BaseException:
            await self._undo_capture(record)
            raise
        self._sync_later(record)
        self._changed()
        return report

    async def _check_capture_space(self, record: LeaseRecord) -> None:
        """Refuse a capture that the disk cannot hold; memory in use is the bound that is cheap."""
        bound = self._runtime.memory_used(record.key)
        if bound * 2 < shutil.disk_usage(self._folders.captures).free:
            return
        plan = await self._send(record, server_client.plan())
        needed = sum(kernel.bytes for kernel in plan.kernels)
        check_space(self._folders.captures, needed, "The capture")

    async def thaw(self, lease: str) -> None:
        """Let a frozen lease go on as if nothing had happened."""
        await self._operations.run(lease, "thaw", lambda: self._thaw(lease))

    async def _thaw(self, lease: str) -> None:
        faults.reach(f"agent.{self._host}.thaw")
        record = self._known(lease)
        if record.capture is not None:
            await self._undo_capture(record)
            self._changed()

    async def _undo_capture(self, record: LeaseRecord) -> None:
        """Thaw and resume, then forget the capture; its record stays until that is done."""
        lease, held = record.request.lease, record.capture
        if task := self._syncing.pop(lease, None):
            task.cancel()
        await self._runtime.thaw(record.key)
        if self._runtime.look(record.key).alive:
            with contextlib.suppress(Unavailable):  # an extension that is busy ends it by itself
                await self._send(record, server_client.resume())
        if held is not None:
            folder = self._folders.capture(record.request.workspace, held.id)
            await asyncio.to_thread(shutil.rmtree, folder, True)
        self._store.change(lease, capture=None)

    def _sync_later(self, record: LeaseRecord) -> None:
        """Make the capture durable while it is sent; ``remove`` waits for it before it kills."""
        assert record.capture is not None
        folder = self._folders.capture(record.request.workspace, record.capture.id)
        lease = record.request.lease
        self._syncing[lease] = asyncio.create_task(asyncio.to_thread(_sync_tree, folder))

    async def _synced(self, record: LeaseRecord) -> None:
        """Wait until the capture is durable; begin anew where that failed or was cut off."""
        lease = record.request.lease
        if lease not in self._syncing:
            self._sync_later(record)
        try:
            await self._syncing[lease]
        except OSError as error:
            raise StepFailed(f"The capture cannot be written to the disk: {error}.") from error
        finally:
            self._syncing.pop(lease, None)

    # --- fetch and restore -----------------------------------------------------

    async def fetch(self, lease: str, request: Fetch) -> FetchReport:
        """Pull home and capture from the host that has them."""
        what = f"fetch {request.source} {request.capture} {request.home}"

        async def do() -> FetchReport:
            faults.reach(f"agent.{self._host}.fetch")
            if request.source.rstrip("/") == self._own_url.rstrip("/"):
                return self._here_already(request)
            if request.home and self.is_live(request.workspace, other_than=lease):
                raise Conflict(
                    f"A server of {request.workspace} runs on {self._host}; "
                    "its home may not be replaced under it."
                )
            return await fetch(self._folders, self._token, request, self._stream_point)

        return await self._operations.run(lease, what, do)

    def _here_already(self, request: Fetch) -> FetchReport:
        if request.capture is not None:
            self._capture_here(request.workspace, request.capture)
        return FetchReport()

    def _capture_here(self, workspace: str, capture_id: str) -> Path:
        folder = self._folders.capture(workspace, capture_id)
        if not folder.is_dir():
            raise NotFound(
                f"The host {self._host} has no capture {capture_id!r} of {workspace}; "
                "fetch it first."
            )
        return folder

    def _stream_point(self) -> None:
        faults.reach(f"agent.{self._host}.fetch.stream")

    async def restore(self, lease: str, capture_id: str) -> RestoreReport:
        """Load a fetched capture into the lease's server, which owns the home from here on."""
        return await self._operations.run(
            lease, f"restore {capture_id}", lambda: self._restore(lease, capture_id)
        )

    async def _restore(self, lease: str, capture_id: str) -> RestoreReport:
        faults.reach(f"agent.{self._host}.restore")
        record = self._known(lease)
        folder = self._capture_here(record.request.workspace, capture_id)
        home = self._folders.home(record.request.workspace)
        await self._runtime.take_path(record.key, home, record.object)
        report = await self.ask(lease, server_client.restore(str(folder), capture_id))
        self._store.change(lease, restored=capture_id)
        return report

    # --- remove ----------------------------------------------------------------

    async def remove(self, lease: str) -> None:
        """End all processes of a lease; home and captures stay. Done if unknown."""
        instead = ("ensure", "fetch", "restore", "capture")
        await self._operations.run(lease, "remove", lambda: self._remove(lease), instead)
        self._operations.forget(lease)

    async def _remove(self, lease: str) -> None:
        record = self._store.get(lease)
        if record is None:
            return
        faults.reach(f"agent.{self._host}.remove")
        if not record.removing:
            record = self._store.change(lease, removing=True)
        frozen = record.capture is not None and record.capture.state == "frozen"
        if frozen:  # from here on the capture is all there is of the kernels
            await self._synced(record)
        # A moved kernel must not run its clean-up: it would delete what went along with it.
        await self._runtime.end(record.key, 0 if frozen else self._grace_s)
        self._unwatch(lease)
        self._store.forget(lease)
        self._changed()

    async def drop_capture(self, workspace: str, capture_id: str) -> None:
        """Delete a capture, unless a frozen lease still stands on it."""
        folder = self._folders.capture(workspace, capture_id)
        for record in self._store.all():
            held = record.capture
            if held and held.id == capture_id and record.request.workspace == workspace:
                raise Conflict(
                    f"The lease {record.request.lease!r} is frozen for the capture {capture_id}; "
                    "thaw or remove it first."
                )
        await asyncio.to_thread(shutil.rmtree, folder, True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()

    # --- notice the end of a server --------------------------------------------

    def _watch(self, record: LeaseRecord) -> None:
        """Be told by the kernel when the server ends, instead of looking all the time."""
        lease = record.request.lease
        self._unwatch(lease)
        pid = self._runtime.look(record.key).server_pid
        if pid is None:
            return
        with contextlib.suppress(OSError):  # it has ended already: the next report says so
            fd = os.pidfd_open(pid)
            self._watched[lease] = fd
            asyncio.get_running_loop().add_reader(fd, self._ended, lease)

    def _ended(self, lease: str) -> None:
        self._unwatch(lease)
        self._changed()

    def _unwatch(self, lease: str) -> None:
        fd = self._watched.pop(lease, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)


#: Below the usual range of outgoing connections, one of which could take the port meanwhile.
_PORTS = range(20_000, 32_000)


def _free_port(ip: str, taken: set[int]) -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        if port in taken:
            continue
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind((ip, port))
            return port
    raise StepFailed(f"No port from {_PORTS.start} to {_PORTS.stop - 1} is free on {ip}.")


def _sync_tree(folder: Path) -> None:
    if not folder.is_dir():  # a person deleted it: nothing can be made durable any more
        return
    for path in [*folder.rglob("*"), folder, folder.parent, folder.parent.parent]:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
