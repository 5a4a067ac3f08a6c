"""Widgets: made anew in the kernel, bound to the very models that the browser still has.

A widget lives twice: as an object here, and as a model in the browser that knows it by the
id of its comm. The browser's tab stays open over a move. So a comm that comes along is
registered in the target's kernel as if it had been opened there; nothing is sent, for a
``comm_open`` would make a second model (https://jupyter-client.readthedocs.io/en/stable/messaging.html#opening-a-comm).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from ..loading import current
from ..pickler import StatePickler, for_library, reducer
from ..records import Refused
from ..session import Session


@for_library("traitlets")
def _install_traits() -> None:
    traitlets = importlib.import_module("traitlets")
    reducer(traitlets.HasTraits)(_reduce_traits)


@for_library("comm")
def _install_comms() -> None:
    reducer(importlib.import_module("comm.base_comm").BaseComm)(_reduce_comm)


@for_library("ipywidgets")
def _install_widgets() -> None:
    reducer(importlib.import_module("ipywidgets").Widget)(_reduce_widget)


# --- objects with traits ---------------------------------------------------------------

#: What HasTraits makes by itself.
_OWN = ("_trait_values", "_trait_notifiers", "_trait_validators", "_cross_validation_lock")


def _reduce_traits(_pickler: StatePickler, obj: Any) -> Any:
    """Reduce an object with traits together with its observers, which its own pickling drops."""
    traitlets = importlib.import_module("traitlets")
    kind = type(obj)
    if kind.__getstate__ is not traitlets.HasTraits.__getstate__:
        return NotImplemented
    observers = {
        name: {
            event: [each for each in found if not isinstance(each, traitlets.EventHandler)]
            for event, found in by_event.items()
        }
        for name, by_event in obj._trait_notifiers.items()
    }
    rest = {name: value for name, value in vars(obj).items() if name not in _OWN}
    state = (dict(obj._trait_values), observers, rest)
    return kind.__new__, (kind,), state, None, None, _fill_traits


def _fill_traits(obj: Any, state: tuple[dict[str, Any], dict[Any, Any], dict[str, Any]]) -> None:
    values, observers, rest = state
    vars(obj).update(rest)
    obj._trait_values = values
    for name, by_event in observers.items():
        for event, found in by_event.items():
            # Those that the class declares are there already.
            obj._trait_notifiers.setdefault(name, {}).setdefault(event, []).extend(found)


# --- comms and widgets -----------------------------------------------------------------


def _reduce_comm(pickler: StatePickler, comm: Any) -> Any:
    if type(comm).__module__.partition(".")[0] not in ("comm", "ipykernel"):
        raise Refused(
            f"a channel to the browser of a kind of its own ({type(comm).__name__})",
            "Delete it before the move, or make it again after it.",
            comm,
        )
    pickler.note("It stays bound to its model in the browser.")
    arguments = (comm.comm_id, comm.target_name, comm.primary, comm._closed)
    state = (comm._msg_callback, comm._close_callback, comm._open_data, comm._close_data)
    return _make_comm, arguments, state, None, None, _fill_comm


def _make_comm(number: str, target: str, primary: bool, closed: bool) -> Any:
    library = importlib.import_module("comm")
    comm = library.create_comm(comm_id=number, target_name=target, primary=False)
    comm.primary = primary
    # Closed until all is loaded: one that is dropped half-way must not tell the browser.
    comm._closed = True
    if not closed:
        current().finally_do.append(lambda: _open(library.get_comm_manager(), comm))
    return comm


def _open(manager: Any, comm: Any) -> None:
    comm._closed = False
    kernelbase = sys.modules.get("ipykernel.kernelbase")
    if kernelbase is not None and kernelbase.Kernel.initialized():
        # Set when a comm first sends something; until then ipywidgets sends nothing by it.
        comm.kernel = kernelbase.Kernel.instance()
    manager.register_comm(comm)


def _fill_comm(comm: Any, state: tuple[Any, Any, Any, Any]) -> None:
    comm._msg_callback, comm._close_callback, comm._open_data, comm._close_data = state


def _reduce_widget(pickler: StatePickler, widget: Any) -> Any:
    reduced = _reduce_traits(pickler, widget)
    if reduced is NotImplemented:
        raise Refused(
            "a widget with a pickling of its own",
            "Run the cell that makes it again after the move.",
            widget,
        )
    make, arguments, state, *_ = reduced
    control = type(widget)._control_comm
    return make, arguments, (state, control), None, None, _fill_widget


def _fill_widget(widget: Any, content: tuple[Any, Any]) -> None:
    state, control = content
    _fill_traits(widget, state)
    current().finally_do.append(lambda: _register(widget, control))


def _register(widget: Any, control: Any) -> None:
    library = importlib.import_module("ipywidgets")
    if widget.comm is not None:
        live_widgets()[widget.comm.comm_id] = widget
    if control is not None:
        library.Widget._control_comm = control


def live_widgets() -> dict[str, Any]:
    """Return the registry of ipywidgets: all widgets that have a model, by its id."""
    module = importlib.import_module("ipywidgets.widgets.widget")
    found: dict[str, Any] = module._instances
    return found


def unnamed(session: Session) -> list[tuple[str, Any]]:
    """Return the widgets that are on display and in no variable, with words to call them.

    Only those that no other widget contains: the rest comes with them.
    """
    if "ipywidgets" not in sys.modules:
        return []
    named = {id(value) for value in [*session.variables().values(), *session.outputs().values()]}
    found = list(live_widgets().values())
    within = {id(part) for widget in found for part in _parts(widget)}
    return [
        (f"(widget {type(widget).__name__} {widget.model_id[:8]})", widget)
        for widget in found
        if id(widget) not in named | within
    ]


def _parts(widget: Any) -> Iterator[Any]:
    """Yield what a widget is made of: its children, layout and style."""
    for value in widget._trait_values.values():
        yield from value if isinstance(value, list | tuple) else (value,)
