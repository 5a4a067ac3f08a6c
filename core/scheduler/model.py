"""What the scheduler looks at, and what it says: immutable values."""

from __future__ import annotations

from dataclasses import dataclass

from ..resources import Flavor, Gpu


@dataclass(frozen=True)
class HostRoom:
    """A host, as far as placing cares.

    Attributes
    ----------
    answers
        Whether its agent was heard from lately; if not, nothing can be pulled from it.
    lost
        Whether it has been silent so long that it does not count as part of the cluster.
    trouble
        Why it takes no new work though it answers; empty if nothing is wrong.
    """

    name: str
    cpus: float
    memory: int
    gpus: tuple[Gpu, ...] = ()
    answers: bool = True
    lost: bool = False
    trouble: str = ""

    @property
    def usable(self) -> bool:
        """Whether new work may be placed here."""
        return self.answers and not self.trouble


@dataclass(frozen=True)
class Taken:
    """What one lease takes of a host.

    Attributes
    ----------
    owner
        True for the lease that the workspace runs on: that one counts as free for a
        move of the same workspace, since it gives it up.
    """

    workspace: str
    host: str
    cpus: float
    memory: int
    gpus: frozenset[str] = frozenset()
    owner: bool = True


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment."""

    hosts: tuple[HostRoom, ...]
    taken: tuple[Taken, ...] = ()


@dataclass(frozen=True)
class Ask:
    """A workspace that wants a place.

    Attributes
    ----------
    home
        The host that holds its home (and capture); it must answer, and is preferred
        where places are equally good. None if the workspace never ran.
    avoid
        Hosts where this very request failed already.
    """

    workspace: str
    flavor: Flavor
    home: str | None = None
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Placement:
    """A place that was found: a host, and GPUs by UUID."""

    workspace: str
    host: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wait:
    """A request that cannot be served now, and why, for people."""

    workspace: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What to do with a queue of requests; each is in exactly one of the two."""

    placements: tuple[Placement, ...] = ()
    waits: tuple[Wait, ...] = ()
