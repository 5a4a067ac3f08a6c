"""The pickler of captures: cloudpickle's, with a table of reducers of our own in front."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any, Protocol

import cloudpickle

from .loading import Mark
from .records import Refused
from .session import Session

#: Given the pickler and an object, returns what ``__reduce__`` would, or NotImplemented.
Reducer = Callable[["StatePickler", Any], Any]
#: Buffers below this many bytes stay in the pickle: one large read is cheaper than many small.
LARGE = 1 << 16

#: Reducers by type; a subclass without its own takes the nearest of its bases.
_reducers: dict[type, Reducer] = {}
#: By module: what installs reducers once the kernel has imported that module.
_libraries: dict[str, list[Callable[[], None]]] = {}
#: By what a type is like, for types that have none of their own: asked last.
_by_shape: list[tuple[Callable[[type], bool], Reducer]] = []
#: By type, by the person: these are asked first.
_registered: dict[type, Reducer] = {}


def reducer(*types: type) -> Callable[[Reducer], Reducer]:
    """Decorate the reducer of some types."""

    def decorate(function: Reducer) -> Reducer:
        for each in types:
            _reducers[each] = function
        return function

    return decorate


def reducer_where(fits: Callable[[type], bool]) -> Callable[[Reducer], Reducer]:
    """Decorate the reducer of all types that fit and have none of their own."""

    def decorate(function: Reducer) -> Reducer:
        _by_shape.append((fits, function))
        return function

    return decorate


def for_library(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorate what installs the reducers of a library that may never be imported."""

    def decorate(function: Callable[[], None]) -> Callable[[], None]:
        _libraries.setdefault(name, []).append(function)
        return function

    return decorate


def register(
    type: type,
    save: Callable[[Any], Any],
    load: Callable[[Any], Any],
) -> None:
    """Teach how to carry the objects of a type, and of its subclasses.

    Parameters
    ----------
    type
        Objects of it come over as *rebuilt*.
    save
        Given the object, returns a state that can be carried. It must not change the object.
    load
        Given that state in the target, returns the object. Defined in a module that the
        target has too, or in the notebook.

    Examples
    --------
    >>> register(Connection, save=lambda c: c.url, load=Connection)  # doctest: +SKIP
    """

    def reduce(pickler: StatePickler, obj: Any) -> Any:
        pickler.note(f"Made anew by what was registered for {type.__qualname__}.")
        return _rebuild, (load, save(obj))

    if not isinstance(type, _Type) or not callable(save) or not callable(load):
        raise TypeError("register(type, save=..., load=...) takes a type and two functions.")
    _registered[type] = reduce


_Type = type


def _rebuild(load: Callable[[Any], Any], state: Any) -> Any:
    return load(state)


class Sink(Protocol):
    """Where a pickle goes."""

    #: Bytes taken so far, of the pickle and of buffers.
    bytes: int
    #: Whether it only counts.
    dry: bool

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""

    def buffer(self, memory: Any) -> int:
        """Take a large buffer out of band and return its number."""


class StatePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles a session's objects as one graph, over several calls of :meth:`dump`."""

    def __init__(self, sink: Sink, session: Session) -> None:
        super().__init__(sink, protocol=5, buffer_callback=self._take_buffer)
        self.sink = sink
        self.session = session
        self.notes: list[str] = []
        self._table: dict[type, Reducer | None] = {}
        #: Room for reducers to remember what must not be made twice.
        self.memory: dict[Any, Any] = {}
        self._plant_landmarks()

    def dump(self, obj: Any) -> None:
        """Pickle one object; what it shares with earlier ones is not written again."""
        # Not cloudpickle's, which hides that the recursion was too deep.
        pickle.Pickler.dump(self, obj)

    def forget(self) -> None:
        """Let go of all objects, which a pickler else keeps until the next collection."""
        self.clear_memo()
        self.memory.clear()

    def note(self, text: str) -> None:
        """Say that something in the variable in hand comes over changed."""
        if text not in self.notes:
            self.notes.append(text)

    def reducer_override(self, obj: Any) -> Any:
        """Reduce by our table, else leave it to cloudpickle and pickle.

        Not called for exact numbers, strings, bytes, tuples, lists, dicts and sets.
        """
        kind = type(obj)
        try:
            function = self._table[kind]
        except KeyError:
            function = self._table[kind] = find_reducer(kind)
        return NotImplemented if function is None else function(self, obj)

    def _take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        try:
            memory = buffer.raw()
        except BufferError:
            return True
        if memory.nbytes < LARGE:
            return True
        self.sink.buffer(memory)
        return False

    def _plant_landmarks(self) -> None:
        # Pickles a stand-in for each landmark, then makes the memo believe that it was the
        # landmark itself. Works for dicts and lists too, which never reach a reducer.
        landmarks = self.session.landmarks()
        marks = {name: Mark(name) for name in landmarks}
        self.dump(list(marks.values()))
        this: Any = self  # the memo is not in the stubs of a C pickler's subclass
        memo = this.memo.copy()
        for name, mark in marks.items():
            number, _ = memo.pop(id(mark))
            memo[id(landmarks[name])] = (number, landmarks[name])
        this.memo = memo
        self._marks = marks  # an id in the memo must stay taken


def find_reducer(kind: type) -> Reducer | None:
    """Return the reducer for a type, or None if pickle's own ways do."""
    for name in [name for name in _libraries if name in sys.modules]:
        for install in _libraries.pop(name):
            install()
    if issubclass(kind, type):
        return _reducers[type]
    for table in (_registered, _reducers):
        for base in kind.__mro__:
            if base in table:
                return table[base]
    return next((function for fits, function in _by_shape if fits(kind)), None)


def refuse(what: str, remedy: str) -> Reducer:
    """Return a reducer that refuses."""

    def reduce(_pickler: StatePickler, obj: Any) -> Any:
        raise Refused(what, remedy, obj)

    return reduce
