"""What the agent remembers of its leases, on disk before it acts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from devcluster.core.errors import Stale
from devcluster.core.names import object_name
from devcluster.core.records import CaptureReport, LeaseRequest, Record
from pydantic import ValidationError

from .durable import read_json, sync_folder, write_bytes, write_json


class CaptureRecord(Record):
    """How far a capture has come.

    ``saving``: the server may be saving, or waits to be resumed, or to be frozen.
    ``frozen``: saved and frozen; stays so until the manager says thaw or remove.
    """

    id: str
    state: Literal["saving", "frozen"]
    report: CaptureReport | None = None


class LeaseRecord(Record):
    """One lease. Holds tokens: its file is for the agent's user only."""

    request: LeaseRequest
    port: int
    #: The secret of the server's control interface.
    control: str
    #: Whether the server has answered once.
    ready: bool = False
    #: Set before the processes are ended, so that a restarted agent goes on ending them.
    removing: bool = False
    capture: CaptureRecord | None = None
    #: The capture that was loaded, and what came back.
    restored: str | None = None

    @property
    def key(self) -> str:
        """The lease's name on disk."""
        return key_of(self.request.lease)

    @property
    def object(self) -> str:
        """The workspace's name on disk."""
        return object_name(self.request.workspace)


def key_of(lease: str) -> str:
    """Return a lease's name on disk: short, since sockets' paths hold it."""
    return hashlib.sha256(lease.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class LeaseStore:
    """The records of all leases, and the highest epoch seen of each workspace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._epochs_file = folder / "epochs"
        self._records: dict[str, LeaseRecord] = {}
        #: Files that could not be read; named so that a person looks at them.
        self.damaged: list[Path] = []
        for path in sorted(folder.glob("*.json")):
            try:
                record = LeaseRecord.model_validate_json(path.read_bytes())
            except (ValidationError, ValueError):
                self.damaged.append(path)
                continue
            self._records[record.request.lease] = record
        epochs = read_json(self._epochs_file)
        self._epochs: dict[str, int] = epochs if isinstance(epochs, dict) else {}

    def all(self) -> list[LeaseRecord]:
        """Return all records."""
        return list(self._records.values())

    def get(self, lease: str) -> LeaseRecord | None:
        """Return a lease's record."""
        return self._records.get(lease)

    def put(self, record: LeaseRecord) -> LeaseRecord:
        """Write a record, durably, and return it."""
        write_bytes(self._path(record.request.lease), record.model_dump_json().encode())
        self._records[record.request.lease] = record
        return record

    def change(self, lease: str, **changes: object) -> LeaseRecord:
        """Write a record with some fields changed."""
        return self.put(self._records[lease].model_copy(update=changes))

    def forget(self, lease: str) -> None:
        """Remove a record."""
        self._path(lease).unlink(missing_ok=True)
        sync_folder(self._folder)
        self._records.pop(lease, None)

    def fence(self, workspace: str, epoch: int) -> None:
        """Note an epoch of a workspace, or refuse one that has been superseded."""
        seen = self._epochs.get(workspace, 0)
        if epoch < seen:
            raise Stale(
                f"Epoch {epoch} of {workspace} was superseded by {seen}; nothing was done.",
                epoch=epoch,
                seen=seen,
            )
        if epoch > seen:
            write_json(self._epochs_file, {**self._epochs, workspace: epoch})
            self._epochs[workspace] = epoch

    def _path(self, lease: str) -> Path:
        return self._folder / f"{key_of(lease)}.json"
