"""A workspace's record as JupyterHub wants to hear it: progress events and exit statuses. Pure."""

from __future__ import annotations

from typing import Any

from devcluster.core.lifecycle import STEPS, State, Step, Wish
from devcluster.core.records import MoveView, WorkspaceView

#: States of which a server's process is certainly not running. All others are "running" to
#: the hub: it would take down route, token and server of anything else.
EXITED = {State.created: 0, State.stopped: 0, State.failed: 1}

_SAYS = {
    Step.prepare: "Starting the server",
    Step.check: "Checking what comes along",
    Step.park: "Holding your requests",
    Step.capture: "Saving kernels",
    Step.send: "Sending saved kernels",
    Step.restore: "Restoring kernels and variables",
    Step.commit: "Taking the new place",
    Step.reroute: "Connecting your address",
    Step.release: "Freeing the old place",
}


def exit_status(state: State) -> int | None:
    """Return what ``poll()`` says of a state: None unless it surely does not run."""
    return EXITED.get(state)


def is_over(before: WorkspaceView | None, now: WorkspaceView) -> bool:
    """Tell whether a start has ended without a running workspace.

    Parameters
    ----------
    before
        The record before the start was asked for: its last move, however that
        ended, says nothing of this one.
    """
    if now.state not in EXITED and now.state is not State.deflated:
        return False
    if now.wish is not Wish.running:
        return True  # somebody stopped it meanwhile
    old = before.move.id if before is not None and before.move is not None else None
    return now.move is not None and now.move.id != old and now.move.ended is not None


def ordinal(number: int) -> str:
    """Return ``"1st"``, ``"2nd"``, ``"11th"``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def progress_event(view: WorkspaceView) -> dict[str, Any]:
    """Return the hub's progress event for what a workspace is doing.

    ``progress`` is in percent and leaves the last ones to the hub's own checks.
    ``message`` is plain text: the hub escapes it.
    """
    move = view.move
    if view.state is State.running:
        return {"progress": 90, "message": f"Running on {view.host or 'its host'}"}
    if view.state is State.stopping:
        return {"progress": 5, "message": "Waiting for the former server to end"}
    if move is None:
        return {"progress": 5, "message": f"The workspace is {view.state}"}
    if move.status == "queued":
        return {"progress": 10, "message": _queued(move)}
    ended = {report.step for report in move.steps if report.ended is not None}
    begun = [report for report in move.steps if report.ended is None]
    percent = 15 + round(70 * len(ended) / len(STEPS[move.kind]))
    if not begun:
        return {"progress": percent, "message": move.reason or "Hardware found"}
    note = f": {begun[-1].note}" if begun[-1].note else ""
    where = f" on {view.host}" if view.host and begun[-1].step is Step.prepare else ""
    return {"progress": percent, "message": f"{_SAYS[begun[-1].step]}{where}{note}"}


def _queued(move: MoveView) -> str:
    what = f" for {move.flavor}" if move.flavor else ""
    place = f", {ordinal(move.place)} in the queue" if move.place else ""
    reason = f". {move.reason}" if move.reason else ""
    return f"Waiting{what}{place}{reason}"
