"""The walk over a session's variables: the same for a plan and for a save.

Each variable is pickled by one pickler after the other, so that shared objects stay shared.
An object that fails half-way leaves the pickler's memo with objects that were never
finished; so after a failure a plan goes on with a fresh pickler, and a save
begins again without that variable.
"""

from __future__ import annotations

import os
import sys
import types
from dataclasses import dataclass
from typing import Any

from .limits import Limit, no_collection, run_deep
from .parts import hooks, settings
from .parts.kernel import pack_kernel, pack_place
from .pickler import StatePickler
from .records import Record, Refused, TimeLimit
from .session import Session
from .stream.sink import CaptureSink, NullSink
from .types import figures, live, widgets

_TEACH = (
    "Delete it before the move, or teach how to carry it: "
    "devcluster.kernel_state.register(type, save=..., load=...)."
)


@dataclass(frozen=True)
class Item:
    """Something to be saved under a name."""

    name: str
    value: Any
    #: Whether it is ``Out[n]`` and not a variable.
    output: int | None = None


def items_of(session: Session) -> list[Item]:
    """Return all that is to be saved, what others build on first.

    Loading runs user code (a ``__hash__``, a ``__setstate__``) that may need the session's
    modules, classes and functions.
    """

    def rank(item: Item) -> int:
        if isinstance(item.value, types.ModuleType):
            return 0
        return 1 if isinstance(item.value, type | types.FunctionType) else 2

    items = [Item(name, value) for name, value in session.variables().items()]
    items += [Item(f"Out[{n}]", value, n) for n, value in session.outputs().items()]
    unnamed = [*widgets.unnamed(session), *figures.unnamed(session)]
    items += [Item(name, value) for name, value in unnamed]
    return sorted(items, key=rank)


def survey(
    session: Session,
    limit: Limit,
    known: dict[str, Record] | None = None,
    sink: NullSink | None = None,
) -> list[Record]:
    """Walk everything into a null sink and return what would become of it.

    Parameters
    ----------
    known
        Records of variables that need no walk any more.
    sink
        Another null sink than one that counts.
    """
    found = dict(known or {})
    sink = sink or NullSink(limit.check)
    pickler = None
    with limit.signals(), no_collection():
        for item in items_of(session):
            if item.name in found:
                continue
            if pickler is None:
                pickler = StatePickler(sink, session)
            record = _pickle(pickler, sink, item, limit)
            if record is None:  # too deep for this stack
                pickler.forget()
                pickler = StatePickler(sink, session)
                record = _pickle_deep(pickler, sink, item, limit)
            found[item.name] = record
            if record.kind == "refused":
                pickler.forget()
                pickler = None
        if pickler is not None:
            pickler.forget()
    return _in_order(session, found) + _live_work(session)


def save_graph(session: Session, limit: Limit, sink: CaptureSink) -> list[Record]:
    """Pickle everything that can be carried, as one graph, and return what became of it."""
    found: dict[str, Record] = {}
    deep = False
    while True:
        sink.begin_again()
        saved, too_deep = _attempt(session, sink, limit, found, deep)
        if saved is not None:
            return _in_order(session, {**saved, **found}) + _live_work(session)
        if too_deep:
            deep = True
        else:
            # Learn of all others that fail, so that the next attempt is the last.
            for record in survey(session, limit, found):
                if record.kind == "refused" and not record.name.startswith("("):
                    found[record.name] = record


def _attempt(
    session: Session, sink: CaptureSink, limit: Limit, found: dict[str, Record], deep: bool
) -> tuple[dict[str, Record] | None, bool]:
    """Return the records if all went well, and whether the recursion was too deep."""
    in_hand: list[Item] = []
    recursion_limit = sys.getrecursionlimit()

    def work() -> tuple[dict[str, Record] | None, bool]:
        pickler = StatePickler(sink, session)
        items = [item for item in items_of(session) if item.name not in found]
        index = [(item.name if item.output is None else item.output) for item in items]
        pickler.dump(pack_place())
        pickler.dump(index)
        records = {}
        for item in items:
            in_hand[:] = [item]
            record = _pickle(pickler, sink, item, limit, deep)
            if record is None:
                return None, True
            if record.kind == "refused":
                found[item.name] = record
                return None, False
            records[item.name] = record
        modules = pickler.memory.get("modules", set())
        pickler.dump(pack_kernel(session, modules, recursion_limit))
        return records, False

    with limit.signals(), no_collection():
        if not deep:
            return work()
        try:
            return run_deep(limit, work)
        except TimeLimit as error:
            found[in_hand[0].name] = _refusal(in_hand[0], error)
            return None, False


def _pickle(
    pickler: StatePickler, sink: NullSink, item: Item, limit: Limit, deep: bool = False
) -> Record | None:
    """Pickle one variable; None if it is nested too deeply for the stack in use."""
    before, process = sink.bytes, os.getpid()
    pickler.notes.clear()
    sink.begin()
    try:
        with limit.one_variable():
            pickler.dump(item.value)
    except BaseException as error:
        if os.getpid() != process:
            os._exit(70)  # a child that pickling forked must not go on as if it were the kernel
        if limit.by_person(error):
            raise
        if isinstance(error, RecursionError) and not deep:
            return None
        return _refusal(item, error)
    if os.getpid() != process:
        os._exit(70)
    size = sink.bytes - before
    if pickler.notes:
        return Record(item.name, "rebuilt", size, " ".join(pickler.notes))
    return Record(item.name, "carried", size)


def _pickle_deep(pickler: StatePickler, sink: NullSink, item: Item, limit: Limit) -> Record:
    def work() -> Record | None:
        return _pickle(pickler, sink, item, limit, deep=True)

    try:
        record = run_deep(limit, work)
    except (MemoryError, TimeLimit) as error:
        return _refusal(item, error)
    assert record is not None  # deep walks refuse by themselves
    return record


def _refusal(item: Item, error: BaseException) -> Record:
    if isinstance(error, Refused):
        verb = "It is" if error.subject is item.value else "It holds"
        return Record(item.name, "refused", 0, f"{verb} {error.what}.", error.remedy)
    if isinstance(error, TimeLimit):
        reason = f"Saving it does not come to an end ({str(error) or 'out of time'})."
    elif isinstance(error, RecursionError):
        reason = "It is nested too deeply, or without end."
    else:
        text = str(error).strip() or "no message"
        reason = f"It cannot be pickled: {type(error).__name__}: {text[:300]}"
    return Record(item.name, "refused", 0, reason, _TEACH)


def _in_order(session: Session, found: dict[str, Record]) -> list[Record]:
    """Return the records in the namespace's order, results of cells last."""
    names = [*session.variables(), *(f"Out[{n}]" for n in session.outputs())]
    names += [name for name in found if name not in set(names)]  # what has no name of its own
    return [found[name] for name in names if name in found]


def _live_work(session: Session) -> list[Record]:
    """Return what becomes of the person's threads, tasks, hooks and settings."""

    def is_users(namespace: Any) -> bool:
        return namespace is session.namespace

    records = []
    for thread, work in live.user_threads(is_users):
        used = _used(session, work)
        records.append(
            Record(
                f"(thread {thread.name})",
                "refused",
                0,
                f"A thread is running {getattr(work, '__name__', 'your code')}{used}; it ends here "
                "and does not run on after the move.",
                "Let it end before the move, and start it again after it.",
            )
        )
    for task in live.user_tasks(is_users):
        name = getattr(task.get_coro(), "__qualname__", "your code")
        records.append(
            Record(
                f"(task {task.get_name()})",
                "refused",
                0,
                f"An asyncio task is running {name}; it does not run on after the move.",
                "Await or cancel it before the move, and start it again after it.",
            )
        )
    return records + hooks.refusals(session) + settings.records(session.shell)


def _used(session: Session, work: Any) -> str:
    code = getattr(work, "__code__", None)
    plain = [
        name
        for name in getattr(code, "co_names", ())
        if name in session.namespace and not isinstance(session.namespace[name], types.ModuleType)
    ]
    return f" with {', '.join(plain)}" if plain else ""
