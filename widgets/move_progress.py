"""A move's progress in a notebook's output."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent


class MoveProgress(anywidget.AnyWidget):  # type: ignore[misc]
    """Shows the steps of one move, its question, and a Cancel button.

    Its front end asks the manager by itself, with the token of whoever looks at it: the
    kernel that made it is frozen during the move, and another process after it. So
    no token is in its state, and a saved notebook gives nothing away.

    Parameters
    ----------
    workspace
        The workspace's id, ``user/name``.
    move
        The move's id.
    said
        A sentence for front ends that show no widgets.
    """

    _esm = _HERE / "move_progress.js"
    _css = _HERE / "widgets.css"

    workspace = traitlets.Unicode(help="The workspace's id, user/name.").tag(sync=True)
    move = traitlets.Unicode(help="The move's id.").tag(sync=True)
    said = traitlets.Unicode(help="What is shown until the manager has answered.").tag(sync=True)

    def __init__(self, workspace: str, move: str, said: str) -> None:
        super().__init__(workspace=workspace, move=move, said=said)

    def __repr__(self) -> str:
        return self.said
