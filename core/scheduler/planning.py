"""The decisions: best fit now, in the order of request, nobody starved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..resources import Flavor, format_bytes
from .model import Ask, HostRoom, Placement, Plan, Snapshot, Taken, Wait
from .room import Free, Held, empty, free_for

Holds = Mapping[str, Sequence[Held]]

_NO_HOLDS: Holds = {}


def plan(snapshot: Snapshot, asks: Iterable[Ask]) -> Plan:
    """Place what can be placed, in the order of request.

    A later request may pass an earlier one that waits, but only with what the
    earlier one could not use now: free GPUs count as held for it.

    Parameters
    ----------
    asks
        In the order of request; at most one for each workspace.
    """
    taken = list(snapshot.taken)
    holds: dict[str, list[Held]] = {}
    placements: list[Placement] = []
    waits: list[Wait] = []
    for ask in asks:
        found = place(Snapshot(snapshot.hosts, tuple(taken)), ask, holds)
        if found is not None:
            placements.append(found)
            taken.append(_as_taken(found, ask.flavor))
            continue
        now = Snapshot(snapshot.hosts, tuple(taken))
        waits.append(Wait(ask.workspace, explain(now, ask, holds)))
        _hold(now, ask, holds)
    return Plan(tuple(placements), tuple(waits))


def place(snapshot: Snapshot, ask: Ask, holds: Holds = _NO_HOLDS) -> Placement | None:
    """Return the best place for one request, or None if there is none now.

    Requests without GPUs go to hosts without GPUs if they can; then least is left
    over; on a tie the host that has the home wins.
    """
    if not _home_answers(snapshot, ask):
        return None
    best: tuple[tuple[object, ...], Placement] | None = None
    for host in snapshot.hosts:
        if not host.usable or host.name in ask.avoid:
            continue
        free = free_for(ask.workspace, host, snapshot.taken, holds.get(host.name, ()))
        if not free.fits(ask.flavor):
            continue
        chosen = _choose_gpus(snapshot, ask, host, free)
        left = len(free.of_model(ask.flavor.gpu_model)) - ask.flavor.gpus
        rank = (
            not ask.flavor.gpus and bool(host.gpus),
            left if ask.flavor.gpus else 0,
            host.name != ask.home,
            free.cpus - ask.flavor.cpus,
            free.memory - ask.flavor.memory,
            host.name,
        )
        if best is None or rank < best[0]:
            best = (rank, Placement(ask.workspace, host.name, chosen))
    return best[1] if best else None


def impossible(snapshot: Snapshot, flavor: Flavor) -> str:
    """Tell why no host could ever hold the flavor; empty if one could, or none is known."""
    if not snapshot.hosts or any(empty(h).fits(flavor) for h in snapshot.hosts):
        return ""
    if not flavor.gpus:
        roomy = max(snapshot.hosts, key=lambda h: (h.cpus, h.memory))
        return (
            f"No host can hold {flavor.label} ({flavor.cpus:g} CPUs, "
            f"{format_bytes(flavor.memory)}). The largest is {roomy.name} with "
            f"{roomy.cpus:g} CPUs and {format_bytes(roomy.memory)}."
        )
    counts = {h.name: len(empty(h).of_model(flavor.gpu_model)) for h in snapshot.hosts}
    name, most = max(counts.items(), key=lambda pair: pair[1])
    if most == 0:
        models = sorted({g.model for h in snapshot.hosts for g in h.gpus})
        return f"No host has {flavor.gpu_model}. GPUs here: {', '.join(models) or 'none'}."
    if most >= flavor.gpus:
        return (
            f"No host has {flavor.gpus} × {flavor.gpu_model} together with {flavor.cpus:g} CPUs "
            f"and {format_bytes(flavor.memory)} of memory."
        )
    return (
        f"No host has {flavor.gpus} × {flavor.gpu_model} in one. "
        f"The largest is {name} with {most} × {flavor.gpu_model}."
    )


def explain(snapshot: Snapshot, ask: Ask, holds: Holds = _NO_HOLDS) -> str:
    """Tell why a request waits, for people."""
    flavor = ask.flavor
    if not _home_answers(snapshot, ask):
        return f"waits for host {ask.home}, which holds its home and does not answer"
    able = [h for h in snapshot.hosts if empty(h).fits(flavor) and h.name not in ask.avoid]
    if not snapshot.hosts:
        return "waits for a host: none has reported yet"
    if not able:
        return impossible(snapshot, flavor) or "waits for another host than those that failed"
    usable = [h for h in able if h.usable]
    if not usable:
        reasons = [f"{h.name} {h.trouble or 'does not answer'}" for h in able]
        return f"waits for {flavor.label}: {'; '.join(reasons)}"
    if any(free_for(ask.workspace, h, snapshot.taken).fits(flavor) for h in usable):
        return f"waits for {flavor.label}: others asked before"
    if not flavor.gpus:
        return f"waits for {flavor.label}: CPUs and memory are taken"
    total = sum(len(empty(h).of_model(flavor.gpu_model)) for h in usable)
    free = sum(
        len(free_for(ask.workspace, h, snapshot.taken).of_model(flavor.gpu_model)) for h in usable
    )
    what = f"waits for {flavor.gpus} × {flavor.gpu_model}: "
    if free:
        if free >= flavor.gpus:
            return what + f"{free} of {total} are free, but not enough on one host"
        return what + f"{free} of {total} {'is' if free == 1 else 'are'} free"
    return what + {1: "it is taken", 2: "both are taken"}.get(total, f"all {total} are taken")


def count_free(snapshot: Snapshot, flavor: Flavor, waiting: Iterable[Ask] = ()) -> int:
    """Return how many of a flavor could start now, behind those that wait."""
    taken = list(snapshot.taken)
    holds: dict[str, list[Held]] = {}
    for ask in waiting:
        found = place(Snapshot(snapshot.hosts, tuple(taken)), ask, holds)
        if found is None:
            _hold(Snapshot(snapshot.hosts, tuple(taken)), ask, holds)
        else:
            taken.append(_as_taken(found, ask.flavor))
    return sum(
        _times(free_for(None, h, taken, holds.get(h.name, ())), flavor)
        for h in snapshot.hosts
        if h.usable
    )


def count_total(snapshot: Snapshot, flavor: Flavor) -> int:
    """Return how many of a flavor the whole cluster could hold if it were empty."""
    return sum(_times(empty(h), flavor) for h in snapshot.hosts if not h.lost)


def waits_in_circle(snapshot: Snapshot, waiting: Sequence[Ask], new: Ask) -> list[str]:
    """Return the workspaces that would wait for each other for ever if ``new`` waits too.

    One waits for another where the other's leaving alone would make room for it.
    Empty if there is no circle that ``new`` closes.
    """
    asks = {a.workspace: a for a in waiting} | {new.workspace: new}
    if place(snapshot, new) is not None:
        return []

    def waits_for(ask: Ask) -> list[str]:
        found: list[str] = []
        if place(snapshot, ask) is not None:
            return found
        for other in asks:
            if other == ask.workspace:
                continue
            rest = tuple(t for t in snapshot.taken if t.workspace != other)
            if len(rest) < len(snapshot.taken) and place(Snapshot(snapshot.hosts, rest), ask):
                found.append(other)
        return found

    path = _path_back(new.workspace, {name: waits_for(ask) for name, ask in asks.items()})
    return path


def _path_back(start: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    trails = [[start]]
    seen = {start}
    while trails:
        trail = trails.pop(0)
        for following in edges[trail[-1]]:
            if following == start:
                return trail
            if following not in seen:
                seen.add(following)
                trails.append([*trail, following])
    return []


def _home_answers(snapshot: Snapshot, ask: Ask) -> bool:
    return ask.home is None or any(h.name == ask.home and h.answers for h in snapshot.hosts)


def _choose_gpus(snapshot: Snapshot, ask: Ask, host: HostRoom, free: Free) -> tuple[str, ...]:
    """Prefer the workspace's own GPUs, so that a switch on one host takes least of others."""
    own = {
        uuid
        for t in snapshot.taken
        if t.workspace == ask.workspace and t.host == host.name
        for uuid in t.gpus
    }
    candidates = sorted(
        (g.uuid for g in free.of_model(ask.flavor.gpu_model)), key=lambda u: (u not in own, u)
    )
    return tuple(candidates[: ask.flavor.gpus])


def _as_taken(placement: Placement, flavor: Flavor) -> Taken:
    return Taken(
        placement.workspace,
        placement.host,
        flavor.cpus,
        flavor.memory,
        frozenset(placement.gpus),
        owner=False,
    )


def _hold(snapshot: Snapshot, ask: Ask, holds: dict[str, list[Held]]) -> None:
    """Keep for a waiting request what it could use now, where it lacks least."""
    if not _home_answers(snapshot, ask):
        return
    flavor = ask.flavor
    best: tuple[tuple[float, ...], HostRoom, Free] | None = None
    for host in snapshot.hosts:
        if not host.usable or host.name in ask.avoid or not empty(host).fits(flavor):
            continue
        # What it has there itself it keeps anyway: only what others could take is held.
        free = free_for(None, host, snapshot.taken, holds.get(host.name, ()))
        lacks = max(0, flavor.gpus - len(free.of_model(flavor.gpu_model)))
        rank = (lacks, max(0.0, flavor.cpus - free.cpus), -free.memory)
        if best is None or rank < best[0]:
            best = (rank, host, free)
    if best is None:
        return
    _, host, free = best
    holds.setdefault(host.name, []).append(
        Held(
            flavor.gpu_model,
            min(flavor.gpus, len(free.of_model(flavor.gpu_model))),
            max(0.0, min(flavor.cpus, free.cpus)),
            max(0, min(flavor.memory, free.memory)),
        )
    )


def _times(free: Free, flavor: Flavor) -> int:
    counts = [int((free.cpus + 1e-9) // flavor.cpus), free.memory // flavor.memory]
    if flavor.gpus:
        counts.append(len(free.of_model(flavor.gpu_model)) // flavor.gpus)
    return max(0, min(counts))
