"""What the magic prints: records as text for people. Pure."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence

from devcluster.core.lifecycle import MoveKind
from devcluster.core.records import FlavorView, MoveView, PlanAnswer, WorkspaceView
from devcluster.core.resources import Flavor, format_bytes

HELP = """\
%devcluster status [--json]             what this workspace runs on, and its newest move
%devcluster flavors                     what it could run on, and how many are free
%devcluster resize cpu                  give the GPUs back
%devcluster resize 1xA100               switch to a flavor by its name
%devcluster resize gpu=1 model=A100     switch to the flavor with so many GPUs (of a model)
%devcluster plan gpu=2                  what such a switch would carry and lose; nothing moves
%devcluster deflate                     free the hardware, keep everything
%devcluster inflate                     take the hardware up again
%devcluster cancel                      cancel the queued or running switch
A switch begins when the running cells have ended. Nothing is lost: you are asked before."""

_DONE = {
    MoveKind.start: "Started",
    MoveKind.switch: "Moved",
    MoveKind.deflate: "Deflated",
    MoveKind.inflate: "Inflated",
    MoveKind.stop: "Stopped",
}
#: Characters that steer a terminal, or turn the direction of writing.
_UNSEEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def printable(text: str) -> str:
    """Return text with control and formatting characters escaped, fit for any terminal."""
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _UNSEEN else c
        for c in text
    )


def ordinal(n: int) -> str:
    """Return ``1st``, ``2nd``, ``11th``."""
    suffix = "th" if 10 < n % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as columns of even width, the first row being the header."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def flavor_rows(views: list[FlavorView], current: str | None) -> str:
    """Return the flavors as a table; the current one is marked."""
    rows: list[tuple[str, ...]] = [("", "flavor", "CPUs", "memory", "GPUs", "free")]
    for view in views:
        flavor = view.flavor
        rows.append(
            (
                "*" if flavor.name == current else "",
                flavor.name,
                f"{flavor.cpus:g}",
                format_bytes(flavor.memory),
                f"{flavor.gpus} × {flavor.gpu_model}" if flavor.gpus else "none",
                f"{view.free} of {view.total}",
            )
        )
    return table(rows)


def status(workspace: WorkspaceView) -> str:
    """Return what a workspace is and does, in a few lines."""
    gpus = ", ".join(gpu.model for gpu in workspace.gpus) or "no GPU"
    where = f"on {workspace.host}" if workspace.host else "on no host"
    lines = [
        f"{workspace.id} is {workspace.state}: {workspace.flavor or 'no flavor'} {where} ({gpus})"
    ]
    if workspace.reason:
        lines.append(workspace.reason)
    if workspace.move is not None:
        lines.append(move(workspace.move))
    return "\n".join(map(printable, lines))


def move(view: MoveView) -> str:
    """Return how a move stands, in one sentence."""
    goal = f" to {view.flavor}" if view.flavor else ""
    if view.status == "queued":
        place = f"{ordinal(view.place)} in the queue" if view.place else "queued"
        return f"{view.kind}{goal}: {place}. {view.reason}".rstrip()
    if view.status == "done":
        took = f" in {view.ended - view.created:.1f} s" if view.ended else ""
        pause = f", paused {view.pause_s:.1f} s" if view.pause_s is not None else ""
        return f"{_DONE[view.kind]}{goal}{took}{pause}."
    if view.status == "asking" and view.question is not None:
        choices = " or ".join(view.question.choices)
        return f"{view.kind}{goal} asks: {view.question.text} ({choices}, in the panel)"
    step = f", at {view.steps[-1].step}" if view.steps and view.status == "running" else ""
    return f"{view.kind}{goal}: {view.status}{step}. {view.reason}".rstrip()


def plan(answer: PlanAnswer) -> str:
    """Return what a switch would carry and lose."""
    free = "is free now" if answer.free else "is not free now: the switch would be queued"
    lines = [f"{answer.flavor.label} {free}."]
    for kernel in answer.plan.kernels:
        title = kernel.title or kernel.path or kernel.kernel_id
        if not kernel.portable:
            continue  # among the losses
        if kernel.busy:
            lines.append(f"  {title}: runs a cell, so it can be looked at only when that has ended")
            continue
        carried = sum(variable.kind != "refused" for variable in kernel.variables)
        lines.append(f"  {title}: {carried} variables, {format_bytes(kernel.bytes)}")
    losses = answer.plan.losses
    lines.append("Would not survive:" if losses else "Nothing would be lost.")
    return "\n".join(map(printable, lines + [f"  {loss}" for loss in losses]))


def flavor_choice(flavor: Flavor, free: int) -> str:
    """Return a flavor for a drop-down list."""
    return printable(f"{flavor.label} ({free} free)")


def as_html(text: str) -> str:
    """Return text as markup that shows it as it is, with its line ends."""
    return "<br>".join(html.escape(printable(line)) for line in text.split("\n"))
