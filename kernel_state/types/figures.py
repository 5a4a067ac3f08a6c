"""Matplotlib's figures, with the callbacks of the person and their place in pyplot.

Matplotlib pickles figures itself, but drops every callback, makes whichever comes last the
current one, and knows nothing of figures that only pyplot holds.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..loading import current
from ..pickler import StatePickler, for_library, reducer
from ..session import Session


@for_library("matplotlib.figure")
def install() -> None:
    """Install the reducers."""
    reducer(importlib.import_module("matplotlib.figure").Figure)(_reduce_figure)
    reducer(importlib.import_module("matplotlib.backend_bases").FigureCanvasBase)(_reduce_canvas)
    reducer(importlib.import_module("matplotlib.cbook").CallbackRegistry)(_reduce_callbacks)


def _managers() -> Any:
    """Return pyplot's figures by number, the current one last."""
    return importlib.import_module("matplotlib._pylab_helpers").Gcf.figs


def _reduce_figure(_pickler: StatePickler, figure: Any) -> Any:
    state = (figure.__getstate__(), list(_managers()))
    return object.__new__, (type(figure),), state, None, None, _fill_figure


def _fill_figure(figure: Any, content: tuple[dict[str, Any], list[int]]) -> None:
    state, order = content
    figure.__setstate__(state)
    current().finally_do.append(lambda: _order(order))


def _order(order: list[int]) -> None:
    managers = _managers()
    for number in order:
        if number in managers:
            managers.move_to_end(number)


def _reduce_canvas(_pickler: StatePickler, canvas: Any) -> Any:
    return _canvas, (canvas.figure, type(canvas))


def _canvas(figure: Any, kind: Any) -> Any:
    made = vars(figure).get("canvas")
    if made is None:  # met while its figure is being made, which then makes one by itself
        made = object.__new__(kind)
        current().finally_do.append(lambda: _become(made, figure))
    return made


def _become(canvas: Any, figure: Any) -> None:
    by_itself = figure.canvas
    canvas.__class__, canvas.__dict__ = type(by_itself), by_itself.__dict__
    figure.set_canvas(canvas)
    if canvas.manager is not None:
        canvas.manager.canvas = canvas


def _reduce_callbacks(_pickler: StatePickler, registry: Any) -> Any:
    # A canvas comes anew with what Matplotlib connects to it; no other registry does.
    of_canvas = "button_press_event" in (registry._signals or ())
    kept = {
        signal: {
            number: work
            for number, reference in by_number.items()
            if (work := reference()) is not None
            and (not of_canvas or number in registry._pickled_cids or _is_persons(work))
        }
        for signal, by_number in registry.callbacks.items()
    }
    # Asking the counter itself would use up a number.
    following = int(repr(registry._cid_gen).removeprefix("count(").removesuffix(")"))
    state = {**vars(registry), "callbacks": kept, "_func_cid_map": None, "_cid_gen": following}
    return object.__new__, (type(registry),), state, None, None, _fill_callbacks


def _fill_callbacks(registry: Any, state: dict[str, Any]) -> None:
    registry.__setstate__(state)


def _is_persons(work: Any) -> bool:
    """Whether the person connected it to a canvas, or a widget of Matplotlib did."""
    owner = getattr(work, "__self__", None)
    widgets: Any = sys.modules.get("matplotlib.widgets")
    if widgets is not None and isinstance(owner, widgets.Widget):
        return True
    module = getattr(work, "__module__", None) if owner is None else type(owner).__module__
    return str(module).partition(".")[0] not in ("matplotlib", "mpl_toolkits")


def unnamed(session: Session) -> list[tuple[str, Any]]:
    """Return the figures that pyplot holds and no variable does, with words to call them."""
    if "matplotlib._pylab_helpers" not in sys.modules:
        return []
    named = {id(value) for value in [*session.variables().values(), *session.outputs().values()]}
    return [
        (f"(figure {number})", manager.canvas.figure)
        for number, manager in _managers().items()
        if id(manager.canvas.figure) not in named
    ]
