"""A small switch for notebooks that have no Dev Cluster panel: VS Code, Notebook 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import ipywidgets
from devcluster.core.calls import Call
from devcluster.core.errors import DevClusterError
from devcluster.core.records import DeflateRequest, SwitchRequest
from devcluster.hub_ext import client as calls
from devcluster.hub_ext.client import ManagerClient

from . import words
from .magic import workspace_access

T = TypeVar("T")


class HardwareSwitch(ipywidgets.VBox):  # type: ignore[misc]
    """A list of flavors with a *Switch*, a *Deflate* and a *Refresh* button.

    The kernel asks the manager, so it works in any front end that shows ipywidgets. Show
    it as the last line of a cell: ``HardwareSwitch()``.

    Raises
    ------
    devcluster.core.errors.DevClusterError
        If this kernel is in no workspace. What goes wrong later is shown in the widget.
    """

    def __init__(self) -> None:
        self._access, self._workspace = workspace_access()
        self._flavor = ipywidgets.Dropdown(description="Hardware")
        self._said = ipywidgets.HTML()
        self._switch = self._button("Switch", self._on_switch, "primary")
        self._deflate = self._button("Deflate", self._on_deflate)
        self._refresh = self._button("Refresh", self.refresh)
        row = ipywidgets.HBox([self._flavor, self._switch, self._deflate, self._refresh])
        super().__init__([row, self._said])
        self.refresh()

    def refresh(self) -> None:
        """Ask the manager again what there is and how the workspace stands."""
        flavors = self._send(calls.flavors())
        workspace = self._send(calls.workspace(self._workspace))
        if flavors is None or workspace is None:
            return
        self._flavor.options = [
            (words.flavor_choice(view.flavor, view.free), view.flavor.name) for view in flavors
        ]
        if workspace.flavor in {view.flavor.name for view in flavors}:
            self._flavor.value = workspace.flavor
        self._tell(words.status(workspace))

    def _on_switch(self) -> None:
        request = SwitchRequest(flavor=self._flavor.value, on_busy="wait", on_loss="ask")
        move = self._send(calls.switch(self._workspace, request))
        if move is not None:
            self._tell(words.move(move))

    def _on_deflate(self) -> None:
        request = DeflateRequest(on_busy="wait", on_loss="ask")
        move = self._send(calls.deflate(self._workspace, request))
        if move is not None:
            self._tell(words.move(move))

    def _send(self, call: Call[T]) -> T | None:
        """Return the answer; None, with the reason shown, if there is none."""
        try:
            with ManagerClient(self._access.url, self._access.token) as manager:
                return manager.send(call)
        except DevClusterError as error:
            self._tell(error.message)
            return None

    def _tell(self, text: str) -> None:
        self._said.value = words.as_html(text)

    @staticmethod
    def _button(label: str, press: Callable[[], None], style: str = "") -> ipywidgets.Button:
        button = ipywidgets.Button(
            description=label, button_style=style, layout=ipywidgets.Layout(width="auto")
        )
        button.on_click(lambda _: press())
        return button
