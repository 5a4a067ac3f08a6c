"""A capture on disk: one file a kernel, a sidecar for readers, and a marker that it is whole.

The layout of a capture's folder, mode 0700, all files 0600::

    kernel-<id>.state   what devcluster.kernel_state wrote
    sidecar.json        kernels, sessions, sizes: nothing needs to be unpickled to read it
    complete            the capture's id; written last, so without it there is no capture

Tokens and secrets of the server are in none of them: they belong to a lease, and a
capture outlives it.

Nothing is forced to the disk here, in the middle of the pause: the agent does so while the
capture is being sent, and does not end the frozen source before. What a power cut until
then has damaged is found by its size, or by the checks of devcluster.kernel_state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from devcluster.core.errors import BadRequest, Conflict, NotFound
from devcluster.core.records import CaptureReport, KernelPlan, Record
from pydantic import Field, ValidationError

_MARKER, _SIDECAR, _PARTIAL = "complete", "sidecar.json", ".partial"


class CaptureRequest(Record):
    """Save into, or restore from, a folder on this host."""

    #: Absolute; its parent exists.
    path: str = Field(pattern=r"^/")
    capture: str = Field(min_length=1)


class Unseen(Record):
    """What a kernel said while the browser was away; jupyter-server keeps it until it is back."""

    #: ``kernel id:browser session``, as jupyter-server names who may have it.
    session_key: str
    #: (channel, frames from the header on, in base64).
    messages: list[tuple[str, list[str]]]


class SavedKernel(Record):
    """One kernel in a capture."""

    plan: KernelPlan
    #: ISO 8601, UTC.
    last_activity: str
    execution_state: str
    #: Size of its state file in bytes; None for a kernel that restarts empty.
    size: int | None = None
    unseen: Unseen | None = None


class SavedSession(Record):
    """One session: what ties a notebook or console to its kernel."""

    id: str
    path: str
    name: str
    type: str
    kernel_id: str


class Sidecar(Record):
    """What a capture holds."""

    version: int = 1
    capture: str
    kernels: list[SavedKernel]
    sessions: list[SavedSession]
    terminals: int = 0

    @property
    def report(self) -> CaptureReport:
        """What the agent is told."""
        plans = [kernel.plan for kernel in self.kernels]
        size = sum(kernel.size or 0 for kernel in self.kernels)
        return CaptureReport(capture=self.capture, bytes=size, kernels=plans)


class CaptureFolder:
    """The folder of one capture.

    Parameters
    ----------
    request
        Names the folder and the capture.
    """

    def __init__(self, request: CaptureRequest) -> None:
        self.path = Path(request.path)
        self.capture = request.capture

    def begin(self) -> None:
        """Make the folder, empty of an earlier capture and its marker."""
        if not self.path.parent.is_dir():
            raise BadRequest(f"There is no folder {self.path.parent} on this host to capture into.")
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.path.chmod(0o700)
        self.discard()

    def discard(self) -> None:
        """Delete what is there, the marker first."""
        (self.path / _MARKER).unlink(missing_ok=True)
        # With a dot: what a kernel that was killed in the middle of its save left.
        for file in (*self.path.glob("kernel-*"), *self.path.glob(".kernel-*")):
            file.unlink()
        for name in (_SIDECAR, _SIDECAR + _PARTIAL, _MARKER + _PARTIAL):
            (self.path / name).unlink(missing_ok=True)

    def state_file(self, kernel_id: str) -> Path:
        """Return where a kernel's state lies."""
        return self.path / f"kernel-{quote(kernel_id, safe='')}.state"

    def partial_file(self, kernel_id: str) -> Path:
        """Return where a kernel's state is being written."""
        return self.state_file(kernel_id).with_suffix(f".state{_PARTIAL}")

    def keep(self, kernel_id: str) -> int:
        """Make a written state final; return its size in bytes."""
        partial = self.partial_file(kernel_id)
        partial.chmod(0o600)
        partial.rename(self.state_file(kernel_id))
        return self.state_file(kernel_id).stat().st_size

    def complete(self, sidecar: Sidecar) -> None:
        """Write the sidecar and then, all else being safe, the marker."""
        self._write(_SIDECAR, sidecar.model_dump_json(indent=1))
        self._write(_MARKER, self.capture)

    def is_complete(self) -> bool:
        """Tell whether this very capture is there and whole."""
        try:
            return (self.path / _MARKER).read_text(encoding="utf-8") == self.capture
        except FileNotFoundError:
            return False

    def read(self) -> Sidecar:
        """Return what the capture holds, every state file being there in full.

        Raises
        ------
        NotFound
            If it is not there, or not whole.
        Conflict
            If it is damaged, or of a version that is not known here.
        """
        if not self.is_complete():
            raise NotFound(f"There is no complete capture {self.capture} in {self.path}.")
        try:
            sidecar = Sidecar.model_validate_json((self.path / _SIDECAR).read_bytes())
        except (OSError, ValidationError) as error:
            raise Conflict(
                f"The capture in {self.path} has no readable sidecar: {error}"
            ) from error
        if sidecar.version != 1:
            raise Conflict(
                f"The capture in {self.path} has version {sidecar.version}; this server reads "
                "version 1. Restore it with a newer Dev Cluster."
            )
        for kernel in sidecar.kernels:
            if kernel.size is not None:
                self._check(self.state_file(kernel.plan.kernel_id), kernel.size)
        return sidecar

    def _check(self, file: Path, size: int) -> None:
        found: Any = file.stat().st_size if file.exists() else "nothing"
        if found != size:
            raise Conflict(
                f"The capture is damaged: {file} should have {size} bytes, and has {found}. "
                "Fetch it again from the host that made it."
            )

    def _write(self, name: str, text: str) -> None:
        partial = self.path / (name + _PARTIAL)
        partial.touch(mode=0o600)
        partial.write_text(text, encoding="utf-8")
        partial.rename(self.path / name)
