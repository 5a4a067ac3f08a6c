"""Exit statuses: a contract for scripts. Pure."""

from __future__ import annotations

from enum import IntEnum

from devcluster.core.errors import (
    BadRequest,
    Conflict,
    DevClusterError,
    Forbidden,
    NotFound,
    Unavailable,
)


class Status(IntEnum):
    """What the command's exit status says."""

    #: Done.
    ok = 0
    #: It was tried and did not work, or was cancelled; the workspace runs on where it was.
    failed = 1
    #: The request is wrong: usage, an unknown name, not permitted. Nothing was changed.
    bad_request = 2
    #: The manager does not answer; nothing is known.
    unavailable = 3
    #: It does not fit the present state, or waits for an answer that nobody gave.
    conflict = 4
    #: Ctrl-C: the command ended, the move goes on.
    interrupted = 130


def status_of(error: DevClusterError) -> Status:
    """Return the exit status for an error."""
    if isinstance(error, (BadRequest, NotFound, Forbidden)):
        return Status.bad_request
    if isinstance(error, Unavailable):
        return Status.unavailable
    if isinstance(error, Conflict):
        return Status.conflict
    return Status.failed
