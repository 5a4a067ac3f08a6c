"""Counting: what is free on a host, for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..resources import Flavor, Gpu
from .model import HostRoom, Taken

#: Sums of fractions of CPUs are compared with this slack.
_SLACK = 1e-9


@dataclass(frozen=True)
class Held:
    """What is kept on a host for a request that came earlier and still waits."""

    model: str | None
    gpus: int
    cpus: float
    memory: int


@dataclass(frozen=True)
class Free:
    """What one workspace could use of one host now."""

    cpus: float
    memory: int
    gpus: tuple[Gpu, ...]

    def of_model(self, model: str | None) -> tuple[Gpu, ...]:
        """Return the free GPUs of a model."""
        return tuple(g for g in self.gpus if g.model == model)

    def fits(self, flavor: Flavor) -> bool:
        """Tell whether the flavor fits in."""
        return (
            self.cpus + _SLACK >= flavor.cpus
            and self.memory >= flavor.memory
            and len(self.of_model(flavor.gpu_model)) >= flavor.gpus
        )


def empty(host: HostRoom) -> Free:
    """Return what a host offers with nothing on it."""
    return Free(host.cpus, host.memory, host.gpus)


def free_for(
    workspace: str | None, host: HostRoom, taken: Iterable[Taken], held: Iterable[Held] = ()
) -> Free:
    """Return what ``workspace`` could use of a host.

    The leases of one workspace overlap: it is charged the larger of two, not their
    sum, since a switch replaces one by the other. Its own owner lease is free to it.
    """
    cpus: dict[str, float] = {}
    memory: dict[str, int] = {}
    gone: set[str] = set()
    for lease in taken:
        if lease.host != host.name or (lease.workspace == workspace and lease.owner):
            continue
        cpus[lease.workspace] = max(cpus.get(lease.workspace, 0), lease.cpus)
        memory[lease.workspace] = max(memory.get(lease.workspace, 0), lease.memory)
        gone |= lease.gpus
    free_cpus = host.cpus - sum(cpus.values())
    free_memory = host.memory - sum(memory.values())
    gpus = [g for g in host.gpus if g.uuid not in gone]
    for hold in held:
        free_cpus -= hold.cpus
        free_memory -= hold.memory
        kept = [g for g in gpus if g.model == hold.model][: hold.gpus]
        gpus = [g for g in gpus if g not in kept]
    return Free(free_cpus, free_memory, tuple(gpus))
