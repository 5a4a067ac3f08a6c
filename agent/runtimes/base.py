"""The port between leases and what runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class ServerSpec:
    """All that starts one workspace's server.

    Attributes
    ----------
    key
        The lease's name on disk.
    object
        The workspace's name on disk.
    command, env
        The server's arguments, and its whole environment but for what depends on ``home``.
    home
        The host's folder that holds the workspace's home.
    cpus, memory
        Limits: cores, bytes.
    """

    key: str
    object: str
    command: list[str]
    env: dict[str, str]
    home: Path
    log: Path
    cpus: float
    memory: int


@dataclass(frozen=True)
class Sight:
    """What a runtime sees of a server.

    Attributes
    ----------
    alive
        The server itself runs (or is frozen).
    known
        There is something to remove: processes, or traces of them.
    reason
        Why it is not alive, for people.
    """

    alive: bool
    known: bool
    server_pid: int | None = None
    reason: str = ""
    notes: tuple[str, ...] = field(default=())


class Runtime(Protocol):
    """Runs servers so that they survive the agent. Every call may be repeated."""

    name: str

    async def start(self, spec: ServerSpec) -> None:
        """Have the server's processes started, durably known; a live one is left as it is."""

    def look(self, key: str) -> Sight:
        """Say what is there."""

    def memory_used(self, key: str) -> int:
        """Return an upper bound of what the workspace's processes hold, in bytes."""

    async def freeze(self, key: str) -> None:
        """Stop all processes; returns once none runs any more."""

    async def thaw(self, key: str) -> None:
        """Let all processes go on."""

    async def take_path(self, key: str, home: Path, object_name: str) -> None:
        """Make the workspace's one path lead to this host's home."""

    async def end(self, key: str, grace_s: float) -> None:
        """End all processes; returns once none is left. A grace of 0 kills at once."""
