"""``%devcluster``: what each action asks of the manager, and what it shows."""

from __future__ import annotations

import os
from typing import Any

from devcluster.core.errors import BadRequest, DevClusterError
from devcluster.core.names import canonical_id
from devcluster.core.records import (
    DeflateRequest,
    InflateRequest,
    MoveView,
    PlanRequest,
    SwitchRequest,
)
from devcluster.core.resources import Flavor
from devcluster.hub_ext import client as calls
from devcluster.hub_ext.client import Access, ManagerClient
from IPython.core.error import UsageError

from . import words
from .asking import Asking, Shape, parse

_OUTSIDE = (
    "This kernel does not run in a Dev Cluster workspace, so there is no hardware to switch. "
    "In a workspace DEVCLUSTER_WORKSPACE and DEVCLUSTER_URL are set."
)


def run_line(line: str, shell: Any) -> None:
    """Do what a line says. It gives no value, so nothing is kept in ``Out``.

    Raises
    ------
    UsageError
        With a sentence for the person, shown without a traceback.
    """
    try:
        asking = parse(line)
        if asking.action == "help":
            print(words.HELP)
            return
        access, workspace = workspace_access()
        with ManagerClient(access.url, access.token) as manager:
            _ACTIONS[asking.action](_Context(manager, workspace, shell), asking)
    except DevClusterError as error:
        raise UsageError(words.printable(error.message)) from None


def workspace_access() -> tuple[Access, str]:
    """Return where the manager is, and which workspace this kernel is in.

    Raises
    ------
    BadRequest
        If it is in none.
    """
    workspace = os.environ.get("DEVCLUSTER_WORKSPACE", "")
    if not os.environ.get("DEVCLUSTER_URL") or not workspace:
        raise BadRequest(_OUTSIDE)
    return Access.from_env(), canonical_id(workspace)


class _Context:
    """What the actions need."""

    def __init__(self, manager: ManagerClient, workspace: str, shell: Any) -> None:
        self.manager, self.workspace, self.shell = manager, workspace, shell

    def flavor(self, shape: Shape) -> Flavor:
        return shape.find([view.flavor for view in self.manager.send(calls.flavors())])

    def show_progress(self, move: MoveView, said: str) -> None:
        """Show the progress widget where there are widgets, else a sentence."""
        # A terminal cannot show widgets; every kernel has this attribute.
        if not hasattr(self.shell, "kernel"):
            print(said)
            return
        try:
            from IPython.display import display

            from .move_progress import MoveProgress

            display(MoveProgress(self.workspace, move.id, said))
        except ImportError:
            print(said)


def _status(context: _Context, asking: Asking) -> None:
    found = context.manager.send(calls.workspace(context.workspace))
    print(found.model_dump_json(indent=2) if asking.json else words.status(found))


def _flavors(context: _Context, _asking: Asking) -> None:
    current = context.manager.send(calls.workspace(context.workspace)).flavor
    print(words.flavor_rows(context.manager.send(calls.flavors()), current))


def _resize(context: _Context, asking: Asking) -> None:
    flavor = context.flavor(asking.shape or Shape())
    # This very cell is running, so the move waits for its end instead of asking about it.
    request = SwitchRequest(flavor=flavor.name, on_busy="wait", on_loss="ask")
    move = context.manager.send(calls.switch(context.workspace, request))
    context.show_progress(
        move,
        words.printable(f"Switching to {flavor.label}; the move begins when this cell has ended."),
    )


def _plan(context: _Context, asking: Asking) -> None:
    flavor = context.flavor(asking.shape or Shape())
    request = PlanRequest(flavor=flavor.name)
    print(words.plan(context.manager.send(calls.plan(context.workspace, request))))


def _deflate(context: _Context, _asking: Asking) -> None:
    request = DeflateRequest(on_busy="wait", on_loss="ask")
    move = context.manager.send(calls.deflate(context.workspace, request))
    context.show_progress(move, "Deflating; it begins when this cell has ended.")


def _inflate(context: _Context, asking: Asking) -> None:
    flavor = None if asking.shape is None else context.flavor(asking.shape).name
    move = context.manager.send(calls.inflate(context.workspace, InflateRequest(flavor=flavor)))
    context.show_progress(move, "Inflating.")


def _cancel(context: _Context, _asking: Asking) -> None:
    print(words.printable(words.move(context.manager.send(calls.cancel(context.workspace)))))


_ACTIONS = {
    "status": _status,
    "flavors": _flavors,
    "resize": _resize,
    "plan": _plan,
    "deflate": _deflate,
    "inflate": _inflate,
    "cancel": _cancel,
}
