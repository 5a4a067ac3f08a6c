"""The life of a workspace: its states, its moves, and the one table of what may follow what.

``state`` is what is; only the manager's reconciler changes it, only through
:func:`move`. ``wish`` is what should be; everybody else writes that. A *moving*
state is exactly one outstanding :class:`MoveKind`, whose steps are recorded
before they are taken, so after a crash the record says what to ask the agents.
"""

from __future__ import annotations

from enum import StrEnum

from .errors import DevClusterError


class State(StrEnum):
    """What a workspace is."""

    created = "created"  # known; never ran
    starting = "starting"  # queued for a host, or a host is making it
    running = "running"  # live, with all it asked for
    switching = "switching"  # changing hardware; the old place is kept until the new one answers
    deflating = "deflating"  # being captured, then its hardware is freed
    deflated = "deflated"  # no hardware; all warm on a host
    inflating = "inflating"  # queued for a host, or coming back from its capture
    stopping = "stopping"  # a host is removing the server
    stopped = "stopped"  # no server, no kernels; the home stays on its host
    failed = "failed"  # the last move did not work; the reason says why, the home is kept


class Wish(StrEnum):
    """What a person, or a policy, wants of a workspace."""

    running = "running"
    deflated = "deflated"
    stopped = "stopped"


class MoveKind(StrEnum):
    """The ways from one resting state to another."""

    start = "start"
    switch = "switch"
    deflate = "deflate"
    inflate = "inflate"
    stop = "stop"


class Step(StrEnum):
    """The steps of moves. Each is idempotent, and recorded before it is taken."""

    prepare = "prepare"  # target: home pre-copied, server up and answering, kernels warm
    check = "check"  # source: plan made; busy kernels and losses asked about
    park = "park"  # Net Switch: holds the browser's requests and sockets
    capture = "capture"  # source: kernels saved, all processes frozen
    send = "send"  # target: pulls capture and the home's last delta, verified
    restore = "restore"  # target: kernels and sessions loaded, answering
    commit = "commit"  # manager: the target is the owner from here on; no way back
    reroute = "reroute"  # Net Switch: leads to the target, lets go what it held
    release = "release"  # source: processes removed, hardware free


#: What a move consists of, in order.
STEPS: dict[MoveKind, tuple[Step, ...]] = {
    MoveKind.start: (Step.prepare, Step.commit, Step.reroute),
    MoveKind.switch: tuple(Step),
    MoveKind.deflate: (
        Step.check,
        Step.park,
        Step.capture,
        Step.commit,
        Step.reroute,
        Step.release,
    ),
    MoveKind.inflate: (Step.prepare, Step.send, Step.restore, Step.commit, Step.reroute),
    MoveKind.stop: (Step.commit, Step.reroute, Step.release),
}

#: The only changes of state that exist.
TABLE: dict[State, frozenset[State]] = {
    State.created: frozenset({State.starting, State.stopped}),
    State.starting: frozenset({State.running, State.stopping, State.failed}),
    State.running: frozenset(
        {State.switching, State.deflating, State.stopping, State.failed},
    ),
    State.switching: frozenset({State.running, State.failed}),
    State.deflating: frozenset({State.deflated, State.running}),
    State.deflated: frozenset({State.inflating, State.stopping}),
    State.inflating: frozenset({State.running, State.deflated}),
    State.stopping: frozenset({State.stopped, State.failed}),
    State.stopped: frozenset({State.starting}),
    State.failed: frozenset({State.starting, State.stopping}),
}

#: The moving state that each kind of move holds a workspace in.
MOVING: dict[MoveKind, State] = {
    MoveKind.start: State.starting,
    MoveKind.switch: State.switching,
    MoveKind.deflate: State.deflating,
    MoveKind.inflate: State.inflating,
    MoveKind.stop: State.stopping,
}


class InvalidMove(DevClusterError):
    """A change of state that is not in the table: a defect, never a user's fault."""

    code = "invalid-move"


def move(was: State, now: State, story: str = "") -> State:
    """Return ``now`` if the table allows it after ``was``; the only way to a new state.

    Raises
    ------
    InvalidMove
        With ``story``, what led here, so that the log alone explains it.
    """
    if now not in TABLE[was]:
        raise InvalidMove(f"A workspace cannot go from {was} to {now}. {story}".strip())
    return now


def is_committed(kind: MoveKind, step: Step | None) -> bool:
    """Tell whether a move that has begun ``step`` can only go forward."""
    if step is None:
        return False
    order = STEPS[kind]
    return order.index(step) >= order.index(Step.commit)
