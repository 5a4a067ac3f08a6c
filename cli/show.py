"""Records as tables and lines for people. Pure: returns what rich can print.

Everything that comes from outside (names, reasons, variables) passes through
:func:`plain`: a terminal must not obey it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from devcluster.core.lifecycle import State, Step
from devcluster.core.records import (
    EventView,
    FlavorView,
    HostView,
    MoveView,
    PlanAnswer,
    WorkspaceView,
)
from devcluster.core.resources import Gpu, format_bytes
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_LONGEST = 300
#: People see `park` as part of capture, and `commit` and `release` as part of reroute.
_SHOWN = {Step.park: Step.capture, Step.commit: Step.reroute, Step.release: Step.reroute}
_COLOURS = {
    State.running: "green",
    State.failed: "red",
    State.deflated: "cyan",
    State.stopped: "bright_black",
    State.created: "bright_black",
}


def plain(text: object) -> str:
    """Return text with control, formatting and unassigned characters written as escapes.

    So ``ESC [2J`` clears no screen and U+202E turns no line around. Longer text than
    300 characters is cut.
    """
    shown = "".join(
        char if not unicodedata.category(char).startswith("C") else _escaped(char)
        for char in str(text)[: _LONGEST + 1]
    )
    return shown if len(str(text)) <= _LONGEST else shown[:_LONGEST] + "…"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def hardware(gpus: Sequence[Gpu]) -> str:
    """Return GPUs for people: ``"2 × A100"``."""
    counted = Counter(gpu.model for gpu in gpus)
    return ", ".join(f"{count} × {plain(model)}" for model, count in counted.items())


def clock(seconds: float) -> str:
    """Return a time of the epoch as local date and time."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def state_text(state: State) -> Text:
    """Return a state in its colour; a moving one is yellow."""
    return Text(state.value, style=_COLOURS.get(state, "yellow"))


def note(view: WorkspaceView) -> str:
    """Return what there is to say about a workspace in one line."""
    move = view.move
    if move is None or move.ended is not None:
        return plain(view.reason)
    if move.status == "queued":
        place = f", place {move.place}" if move.place else ""
        return plain(f"{move.kind} to {move.flavor} queued{place}. {move.reason}".strip())
    if move.status == "asking":
        return f"{move.kind} asks: {plain(move.question.text if move.question else '')}"
    return plain(f"{move.kind}: {move.steps[-1].step if move.steps else 'begins'}")


def table(*columns: str) -> Table:
    """Return an empty table."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def workspaces(views: Sequence[WorkspaceView]) -> RenderableType:
    """Return the list of workspaces."""
    if not views:
        return Text("No workspaces.")
    rows = table("WORKSPACE", "STATE", "FLAVOR", "HOST", "GPUS", "NOTE")
    for view in views:
        rows.add_row(
            Text(plain(view.id)),
            state_text(view.state),
            Text(plain(view.flavor or "-")),
            Text(plain(view.host or "-")),
            Text(hardware(view.gpus) or "-"),
            Text(note(view)),
        )
    return rows


def workspace(view: WorkspaceView) -> RenderableType:
    """Return everything about one workspace."""
    rows = table("", "")
    rows.show_header = False
    facts: dict[str, str | Text] = {
        "Workspace": plain(view.id),
        "State": state_text(view.state),
        "Wish": view.wish.value,
        "Flavor": plain(view.flavor or "-"),
        "Host": plain(view.host or "-"),
        "GPUs": ", ".join(f"{plain(g.model)} {plain(g.uuid)}" for g in view.gpus) or "-",
        "Address": plain(view.prefix or "-"),
        "Since": clock(view.since),
        "Note": note(view) or "-",
    }
    for name, value in facts.items():
        rows.add_row(Text(name, style="bold"), value if isinstance(value, Text) else Text(value))
    return Group(rows, Text(), move(view.move)) if view.move is not None else rows


def hosts(views: Sequence[HostView]) -> RenderableType:
    """Return the list of hosts."""
    if not views:
        return Text("No hosts: no agent has registered.")
    rows = table("HOST", "STATE", "CPUS", "MEMORY", "GPUS", "TAKEN", "WORKSPACES", "NOTE")
    colours = {"fresh": "green", "suspect": "yellow", "lost": "red"}
    for view in views:
        rows.add_row(
            Text(plain(view.name)),
            Text(view.state, style=colours[view.state]),
            f"{view.cpus:g}",
            format_bytes(view.memory),
            Text(hardware(view.gpus) or "-"),
            f"{len(view.taken)}/{len(view.gpus)}" if view.gpus else "-",
            Text(", ".join(map(plain, view.workspaces)) or "-"),
            Text(plain(view.trouble)),
        )
    return rows


def flavors(views: Sequence[FlavorView]) -> RenderableType:
    """Return the list of flavors."""
    rows = table("FLAVOR", "HARDWARE", "CPUS", "MEMORY", "FREE")
    for view in views:
        flavor = view.flavor
        rows.add_row(
            Text(flavor.name),
            Text(f"{flavor.gpus} × {plain(flavor.gpu_model)}" if flavor.gpus else "CPU"),
            f"{flavor.cpus:g}",
            format_bytes(flavor.memory),
            Text(f"{view.free}/{view.total}", style="green" if view.free else "yellow"),
        )
    return rows


def events(views: Sequence[EventView]) -> RenderableType:
    """Return a workspace's story, oldest first."""
    rows = table("TIME", "FROM", "TO", "CAUSE", "REASON")
    for view in views:
        rows.add_row(
            clock(view.time),
            state_text(view.was),
            state_text(view.now),
            Text(plain(view.cause)),
            Text(plain(view.reason)),
        )
    return rows


def move(view: MoveView) -> RenderableType:
    """Return a move as a list of steps with their times."""
    what = view.kind.value + (f" to {plain(view.flavor)}" if view.flavor else "")
    colour = {"done": "green", "failed": "red", "cancelled": "yellow"}.get(view.status, "cyan")
    head = Text.assemble((what, "bold"), ": ", (view.status, colour))
    if view.status == "queued" and view.place:
        head.append(f", place {view.place}")
    if view.status == "done" and view.pause_s is not None:
        head.append(f", pause {view.pause_s:.2f} s")
    if view.reason:
        head.append(f". {plain(view.reason)}")
    return Group(head, *(Text(line) for line in step_lines(view)))


def step_lines(view: MoveView) -> list[str]:
    """Return one line for each step that people see, with the seconds that it took."""
    shown: dict[Step, tuple[float, float | None, str]] = {}
    for step in view.steps:
        name = _SHOWN.get(step.step, step.step)
        began = shown[name][0] if name in shown else step.began
        shown[name] = (began, step.ended, step.note)
    lines = []
    for name, (began, ended, said) in shown.items():
        mark = "…" if ended is None and view.ended is None else "✓" if ended is not None else "✗"
        time = "" if ended is None else f"{ended - began:6.2f} s"
        lines.append(f"  {mark} {name.value:<8} {time:>8}  {plain(said)}".rstrip())
    return lines


def plan(answer: PlanAnswer) -> RenderableType:
    """Return what a switch would carry, rebuild and lose."""
    free = "free now" if answer.free else "not free now: it would queue"
    lines: list[RenderableType] = [Text(f"{answer.flavor.label}: {free}", style="bold")]
    for kernel in answer.plan.kernels:
        title = plain(kernel.title or kernel.kernel_id)
        if kernel.busy:
            lines.append(Text(f"{title}: runs a cell now; its variables cannot be asked"))
            continue
        if not kernel.portable:
            lines.append(Text(f"{title}: starts empty. {plain(kernel.reason)}", style="red"))
            continue
        kinds = Counter(variable.kind for variable in kernel.variables)
        lines.append(
            Text(
                f"{title}: {kinds['carried']} carried, {kinds['rebuilt']} rebuilt, "
                f"{kinds['refused']} lost, {format_bytes(kernel.bytes)}"
            )
        )
    losses = answer.plan.losses
    if losses:
        lines.append(Text("Would be lost:", style="bold red"))
        lines.extend(Text(f"  {plain(line)}") for line in losses)
    else:
        lines.append(Text("Nothing would be lost.", style="green"))
    return Group(*lines)
