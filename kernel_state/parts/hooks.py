"""Where the person's code hangs in the kernel outside of its namespace: hooks stay behind."""

from __future__ import annotations

import contextlib
import signal
import sys
import types
from collections.abc import Iterator
from typing import Any

from ..records import Record
from ..session import Session

_AGAIN = "Run the cell that sets it up again after the move."


def refusals(session: Session) -> list[Record]:
    """Return a refusal for each hook that runs the person's code."""
    found = [*_of_modules(session), *_of_signals(session)]
    if session.shell is not None:
        found += _of_shell(session.shell, session)
    return [
        Record(f"({name})", "refused", 0, f"{reason}; it is not so after the move.", _AGAIN)
        for name, reason in found
    ]


def _is_users(work: Any, session: Session) -> bool:
    work = getattr(work, "func", work)  # of a partial
    work = getattr(work, "__func__", work)  # of a method
    if not isinstance(work, types.FunctionType):
        work = getattr(type(work), "__call__", None)  # noqa: B004  (the function itself)
    return getattr(work, "__globals__", None) is session.namespace


def _of_modules(session: Session) -> Iterator[tuple[str, str]]:
    """Yield names in modules that the person has set to a function of a cell."""
    for module_name, module in list(sys.modules.items()):
        content = getattr(module, "__dict__", None)
        if content is None or content is session.namespace or module_name == "__main__":
            continue
        for name, value in list(content.items()):
            if type(value) is types.FunctionType and value.__globals__ is session.namespace:
                yield f"{module_name}.{name}", f"It was replaced by your {value.__name__}()"


def _of_signals(session: Session) -> Iterator[tuple[str, str]]:
    for number in signal.valid_signals():
        with contextlib.suppress(ValueError):
            if _is_users(signal.getsignal(number), session):
                yield f"signal {signal.Signals(number).name}", "Your code handles this signal"


def _of_shell(shell: Any, session: Session) -> Iterator[tuple[str, str]]:
    for kind, sign in (("line", "%"), ("cell", "%%")):
        for name, work in shell.magics_manager.magics.get(kind, {}).items():
            if _is_users(work, session):
                yield f"magic {sign}{name}", "It was defined in a cell"
    for event, callbacks in shell.events.callbacks.items():
        for work in callbacks:
            if _is_users(work, session):
                yield f"event {event}", f"Your {_name(work)} is called at it"
    for where in ("input_transformers_post", "input_transformers_cleanup", "ast_transformers"):
        for work in getattr(shell, where, ()):
            if _is_users(work, session) or type(work).__module__ == "__main__":
                yield where, f"Your {_name(work)} changes each cell"
    for mime, formatter in shell.display_formatter.formatters.items():
        for kind, work in formatter.type_printers.items():
            if _is_users(work, session):
                yield f"display of {kind.__name__}", f"Your {_name(work)} shows it as {mime}"


def _name(work: Any) -> str:
    return str(getattr(work, "__name__", type(work).__name__))
