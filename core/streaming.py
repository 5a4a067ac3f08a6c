"""Records of a session's way from one kernel to another, and of what it is sealed with.

A switch sends large arrays before the pause: the kernels of the source write into sockets
of their agent, the target's agent pulls from there and writes into sockets of its own, and
the kernels of the target read from those. Whatever breaks on this way costs speed only: a
kernel that cannot stream is saved into the capture's folder.
"""

from __future__ import annotations

from pydantic import Field

from .records import Record


class CaptureSeal(Record):
    """What a capture is sealed with, in the form of ``devcluster.kernel_state.seal.Seal``.

    Attributes
    ----------
    key
        A secret in base64, good for this capture only. It is passed on and never written down.
    owner, workspace, sequence
        Whose state it is, and which of the workspace's captures.
    """

    key: str = Field(repr=False)
    owner: str
    workspace: str
    sequence: int


class Sealed(Record):
    """The body of a request to capture or to restore."""

    seal: CaptureSeal | None = None


class ShareRequest(Sealed):
    """Have kernels of the source begin to send."""

    kernels: list[str]


class ReceiveRequest(Sealed):
    """Have kernels of the target begin to receive.

    Attributes
    ----------
    source, lease
        The address of the source's agent, and the lease there.
    kernels
        What each kernel is going to send beforehand, in bytes.
    """

    source: str
    lease: str
    kernels: dict[str, int]


class KernelSockets(Sealed):
    """Which unix socket each kernel is to connect to; what the agent tells the server."""

    sockets: dict[str, str]


class StreamReport(Record):
    """The kernels that have begun, and what each has to send beforehand, in bytes."""

    kernels: dict[str, int]


class StreamProgress(Record):
    """How far it has come, over all kernels that have begun.

    Attributes
    ----------
    received, expected
        Bytes; what is changed meanwhile may be sent twice.
    open
        How many kernels' streams are whole so far.
    """

    received: int
    expected: int
    open: int

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.received >= self.expected or not self.open
