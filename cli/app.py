"""The commands: read what was asked, send it, print what came."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from devcluster.core.errors import BadRequest, DevClusterError
from devcluster.core.names import canonical_id
from devcluster.core.records import (
    AnswerRequest,
    DeflateRequest,
    InflateRequest,
    MoveView,
    PlanRequest,
    SwitchRequest,
)
from devcluster.core.resources import match_flavor
from devcluster.hub_ext import client
from devcluster.hub_ext.client import Access, ManagerClient
from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.text import Text

from . import show
from .exits import Status, status_of
from .follow import Superseded, Unanswered, ask_person, follow

app = typer.Typer(
    name="devcluster",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Share GPUs: see what runs where, and switch hardware without losing anything.\n\n"
    "Needs DEVCLUSTER_URL and DEVCLUSTER_TOKEN (a JupyterHub token); inside a workspace "
    "both are there.\n\n"
    "Exit status: 0 done; 1 failed or cancelled; 2 bad request or not permitted; "
    "3 the manager does not answer; 4 does not fit the present state, or a question "
    "waits for an answer.",
)

Workspace = Annotated[str, typer.Argument(help="USER, or USER/NAME for a named server.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print records as JSON, for programs.")]
Gpus = Annotated[int | None, typer.Option("--gpu", help="How many GPUs.")]
Model = Annotated[str | None, typer.Option("--model", help="GPU model, with --gpu.")]
FlavorName = Annotated[str | None, typer.Option("--flavor", help="A flavor by its name.")]
Cpu = Annotated[bool, typer.Option("--cpu", help="No GPU.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the move to its end.")]
OnBusy = Annotated[
    Literal["ask", "wait", "interrupt"],
    typer.Option("--on-busy", help="If a cell runs: ask, wait for its end, or interrupt it."),
]
OnLoss = Annotated[
    Literal["ask", "accept"],
    typer.Option("--on-loss", help="If something cannot be carried: ask, or accept the loss."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Ask nothing: --on-busy wait --on-loss accept.")
]


@contextmanager
def _manager(as_json: bool) -> Iterator[ManagerClient]:
    """Give a client; turn errors into a message on standard error and an exit status."""
    try:
        access = Access.from_env()
        with ManagerClient(access.url, access.token) as manager:
            yield manager
    except DevClusterError as error:
        _complain(error, as_json)
        raise typer.Exit(status_of(error)) from error
    except KeyboardInterrupt:
        print("Stopped watching; the move goes on.", file=sys.stderr)
        raise typer.Exit(Status.interrupted) from None


def _complain(error: DevClusterError, as_json: bool) -> None:
    if as_json:
        print(json.dumps(error.to_json()), file=sys.stderr)
    else:
        message = show.plain(error.message)
        Console(stderr=True).print(Text.assemble(("Error: ", "red"), message), highlight=False)


def _print(value: BaseModel | list[Any], shown: RenderableType, as_json: bool) -> None:
    if not as_json:
        Console().print(shown, highlight=False)
    elif isinstance(value, BaseModel):
        print(value.model_dump_json())
    else:
        print(json.dumps([one.model_dump(mode="json") for one in value]))


@app.command("ls")
def list_workspaces(as_json: AsJson = False) -> None:
    """List the workspaces that you may see."""
    with _manager(as_json) as manager:
        views = manager.send(client.workspaces())
        _print(views, show.workspaces(views), as_json)


@app.command()
def hosts(as_json: AsJson = False) -> None:
    """List the hosts and what is taken on each."""
    with _manager(as_json) as manager:
        views = manager.send(client.hosts())
        _print(views, show.hosts(views), as_json)


@app.command()
def flavors(as_json: AsJson = False) -> None:
    """List the flavors and how many of each are free."""
    with _manager(as_json) as manager:
        views = manager.send(client.flavors())
        _print(views, show.flavors(views), as_json)


@app.command("show")
def show_workspace(workspace: Workspace, as_json: AsJson = False) -> None:
    """Show one workspace and its last move."""
    with _manager(as_json) as manager:
        view = manager.send(client.workspace(canonical_id(workspace)))
        _print(view, show.workspace(view), as_json)


@app.command()
def events(workspace: Workspace, as_json: AsJson = False) -> None:
    """Tell the story of a workspace."""
    with _manager(as_json) as manager:
        views = manager.send(client.events(canonical_id(workspace)))
        _print(views, show.events(views), as_json)


@app.command()
def plan(
    workspace: Workspace,
    gpu: Gpus = None,
    model: Model = None,
    flavor: FlavorName = None,
    cpu: Cpu = False,
    as_json: AsJson = False,
) -> None:
    """Tell what a switch would carry and lose; nothing moves."""
    with _manager(as_json) as manager:
        request = PlanRequest(flavor=_flavor(manager, gpu, model, flavor, cpu))
        answer = manager.send(client.plan(canonical_id(workspace), request))
        _print(answer, show.plan(answer), as_json)


@app.command()
def switch(
    workspace: Workspace,
    gpu: Gpus = None,
    model: Model = None,
    flavor: FlavorName = None,
    cpu: Cpu = False,
    wait: Wait = True,
    on_busy: OnBusy = "ask",
    on_loss: OnLoss = "ask",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Give a running workspace other hardware; its kernels and variables come along."""
    with _manager(as_json) as manager:
        request = SwitchRequest(
            flavor=_flavor(manager, gpu, model, flavor, cpu),
            on_busy="wait" if yes and on_busy == "ask" else on_busy,
            on_loss="accept" if yes else on_loss,
        )
        move = manager.send(client.switch(canonical_id(workspace), request))
        _finish(manager, move, wait, as_json)


@app.command()
def deflate(
    workspace: Workspace,
    wait: Wait = True,
    on_busy: OnBusy = "ask",
    on_loss: OnLoss = "ask",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Free a workspace's hardware and keep its kernels for later."""
    with _manager(as_json) as manager:
        request = DeflateRequest(
            on_busy="wait" if yes and on_busy == "ask" else on_busy,
            on_loss="accept" if yes else on_loss,
        )
        move = manager.send(client.deflate(canonical_id(workspace), request))
        _finish(manager, move, wait, as_json)


@app.command()
def inflate(
    workspace: Workspace,
    gpu: Gpus = None,
    model: Model = None,
    flavor: FlavorName = None,
    cpu: Cpu = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Bring a deflated workspace back, on the hardware that it had or on another."""
    with _manager(as_json) as manager:
        chosen = gpu is not None or flavor is not None or cpu or model is not None
        name = _flavor(manager, gpu, model, flavor, cpu) if chosen else None
        request = InflateRequest(flavor=name)
        move = manager.send(client.inflate(canonical_id(workspace), request))
        _finish(manager, move, wait, as_json)


@app.command()
def answer(
    workspace: Workspace,
    choice: Annotated[str, typer.Argument(help="One of the choices that the question gives.")],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Answer the question that a move asks."""
    with _manager(as_json) as manager:
        name = canonical_id(workspace)
        asking = manager.send(client.workspace(name)).move
        if asking is None or asking.status != "asking":
            raise BadRequest(f"{name} asks nothing now.")
        request = AnswerRequest(move=asking.id, choice=choice)
        _finish(manager, manager.send(client.answer(name, request)), wait, as_json)


@app.command()
def cancel(workspace: Workspace, as_json: AsJson = False) -> None:
    """Cancel a move that is queued, asks, or has not passed the point of no return."""
    with _manager(as_json) as manager:
        move = manager.send(client.cancel(canonical_id(workspace)))
        _print(move, show.move(move), as_json)


def _flavor(
    manager: ManagerClient, gpu: int | None, model: str | None, name: str | None, cpu: bool
) -> str:
    """Return the name of the flavor that the options mean."""
    if (gpu is not None) + (name is not None) + cpu != 1:
        raise BadRequest("Say which hardware: --gpu N (with --model NAME), --flavor NAME or --cpu.")
    if model is not None and gpu is None:
        raise BadRequest("--model goes with --gpu N.")
    if name is not None:
        return name
    offered = [view.flavor for view in manager.send(client.flavors())]
    return match_flavor(offered, gpu or 0, model).name


def _finish(manager: ManagerClient, move: MoveView, wait: bool, as_json: bool) -> None:
    """Follow a move if wanted, print it, and end with its status."""
    progress = Console(stderr=True, quiet=as_json)
    if wait:
        person = sys.stdin.isatty() and progress.is_terminal and not as_json
        try:
            move = follow(manager, move, progress, ask_person(progress) if person else None)
        except Unanswered as unanswered:
            move = unanswered.move
        except Superseded:
            move = move.model_copy(
                update={"status": "cancelled", "reason": "Another move took its place."}
            )
    live = wait and progress.is_terminal and not as_json
    if as_json or not live:
        _print(move, show.move(move), as_json)
    if move.status == "asking" and move.question is not None:
        hint = f"{move.question.text} Answer with: devcluster answer {move.workspace} CHOICE "
        hint += f"({', '.join(move.question.choices)})."
        items = "".join(f"\n  {show.plain(item)}" for item in move.question.items)
        print(show.plain(hint) + items, file=sys.stderr)
        raise typer.Exit(Status.conflict)
    if move.status in ("failed", "cancelled"):
        raise typer.Exit(Status.failed)
