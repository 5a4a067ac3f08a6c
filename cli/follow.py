"""Following a move to its end: live progress on a terminal, questions to the person."""

from __future__ import annotations

import time
from collections.abc import Callable

from devcluster.core.errors import Unavailable
from devcluster.core.records import AnswerRequest, MoveView, Question, WorkspaceView
from devcluster.hub_ext import client
from devcluster.hub_ext.client import ManagerClient
from rich.console import Console
from rich.live import Live
from rich.prompt import Prompt
from rich.text import Text

from . import show

_WAIT_S = 15.0
_PATIENCE_S = 60.0
ENDED = ("done", "failed", "cancelled")


class Unanswered(Exception):
    """The move asks, and there is nobody to answer; it goes on waiting."""

    def __init__(self, move: MoveView) -> None:
        super().__init__(move.id)
        self.move = move


class Superseded(Exception):
    """Another move has taken this one's place, so its end was not seen."""


def follow(
    manager: ManagerClient,
    move: MoveView,
    console: Console,
    choose: Callable[[Question], str] | None,
) -> MoveView:
    """Return the move as it ended.

    Parameters
    ----------
    console
        Where the progress goes: live on a terminal, a line for each change elsewhere.
    choose
        How to get an answer to the move's question; None if nobody can be asked.

    Raises
    ------
    Unanswered
        If it asks and ``choose`` is None.
    Superseded
        If the workspace's newest move is another one.
    """
    told: list[str] = []
    after = 0.0
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while True:
            if console.is_terminal:
                live.update(show.move(move))
            else:
                _tell_news(console, move, told)
            if move.status in ENDED:
                return move
            if move.status == "asking" and move.question is not None:
                if choose is None:
                    raise Unanswered(move)
                live.stop()
                choice = choose(move.question)
                request = AnswerRequest(move=move.id, choice=choice)
                move = manager.send(client.answer(move.workspace, request))
                live.start()
                continue
            view = _next(manager, move.workspace, after)
            after = view.since
            if view.move is None or view.move.id != move.id:
                raise Superseded
            move = view.move


def _next(manager: ManagerClient, workspace: str, after: float) -> WorkspaceView:
    """Ask for news; a restart of the manager is waited out."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return manager.send(client.workspace(workspace, _WAIT_S, after))
        except Unavailable:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def _tell_news(console: Console, move: MoveView, told: list[str]) -> None:
    if move.status == "queued":
        lines = [f"queued, place {move.place}. {show.plain(move.reason)}".strip()]
    else:
        lines = show.step_lines(move)
        if move.status not in ENDED:
            lines = lines[:-1]  # the last one may still grow
    for line in lines:
        if line not in told:
            told.append(line)
            console.print(Text(line), highlight=False)


def ask_person(console: Console) -> Callable[[Question], str]:
    """Return a function that puts a question to whoever sits at the terminal."""

    def choose(question: Question) -> str:
        console.print(Text(show.plain(question.text), style="bold"))
        for item in question.items:
            console.print(Text(f"  {show.plain(item)}"))
        return Prompt.ask("What shall be done", choices=question.choices, console=console)

    return choose
