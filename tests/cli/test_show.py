"""What people read: tables, steps, and nothing that a terminal would obey."""

from __future__ import annotations

import io

import pytest
from devcluster.cli import show
from devcluster.core.lifecycle import MoveKind, State
from devcluster.core.records import HostView, KernelPlan, Plan, PlanAnswer, VariablePlan
from devcluster.core.resources import Gpu
from rich.console import Console, RenderableType

from tests.support.stub_manager import FLAVORS, StubManager, move, step

NASTY = [
    "\x1b[2J",
    "a\r\nSet-Cookie: a=b",
    "\u202egnp.exe",
    "\x9b31m",
    "<img src=x onerror=alert(1)>",
    "[red]markup[/red]",
    "=HYPERLINK(1)",
    "\u2066\u200f",
]


def printed(shown: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=False).print(shown, highlight=False)
    return out.getvalue()


@pytest.mark.parametrize("text", NASTY)
def test_b48_what_comes_from_outside_is_never_obeyed(text: str) -> None:
    stub = StubManager()
    view = stub.set(
        state=State.failed, reason=text, host=text, flavor="cpu", move=move("failed", reason=text)
    )
    host = HostView(
        name=text,
        state="fresh",
        cpus=1,
        memory=1,
        gpus=[Gpu(uuid=text, model=text, memory=1)],
        workspaces=[text],
        trouble=text,
        last_seen=1.0,
    )
    plan = PlanAnswer(
        flavor=FLAVORS[0].flavor,
        free=True,
        plan=Plan(
            kernels=[
                KernelPlan(
                    kernel_id="k",
                    kernel_name="python3",
                    title=text,
                    variables=[VariablePlan(name=text, kind="refused", reason=text, remedy=text)],
                )
            ]
        ),
    )
    for shown in (
        show.workspaces([view]),
        show.workspace(view),
        show.hosts([host]),
        show.plan(plan),
    ):
        out = printed(shown)
        allowed = set(out) - {"\n"}
        assert all(char.isprintable() for char in allowed), ascii(out)
        if text.isprintable():
            assert text in out  # not eaten as markup, not changed


def test_b48_a_megabyte_of_name_is_cut() -> None:
    assert len(show.plain("x" * 10**6)) <= 301


def test_steps_are_told_as_people_know_them_with_their_times() -> None:
    view = move(
        "done",
        MoveKind.switch,
        flavor="1xA100",
        pause_s=0.51,
        steps=[
            step("prepare", 1.0, 3.5),
            step("park", 3.5, 3.6),
            step("capture", 3.6, 4.0),
            step("commit", 4.0, 4.1),
            step("reroute", 4.1, 4.2),
            step("release", 4.2, 4.5),
        ],
    )
    lines = [" ".join(line.split()) for line in show.step_lines(view)]
    assert lines == ["✓ prepare 2.50 s", "✓ capture 0.50 s", "✓ reroute 0.50 s"]
    assert "switch to 1xA100: done, pause 0.51 s" in printed(show.move(view))


def test_a_step_that_was_under_way_when_the_move_failed_is_marked() -> None:
    view = move("failed", MoveKind.switch, steps=[step("prepare", 1.0)])
    assert "✗ prepare" in show.step_lines(view)[0]
