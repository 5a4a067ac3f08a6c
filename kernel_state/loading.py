"""The load in progress: what reconstructors need to know beyond their arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from .records import CaptureError
from .session import Session


class Buffers(Protocol):
    """Where large buffers come from, in the order in which they were saved."""

    def next_size(self) -> int:
        """Return the size of the next buffer."""

    def take(self, size: int) -> Any:
        """Return the next buffer's memory, to keep: pages, an array of bytes or a bytearray."""

    def read_into(self, memory: Any) -> None:
        """Fill writable memory with the next buffer; sizes must agree."""


class Loading:
    """One load: its target, its buffers, and what is to be done once all objects exist."""

    def __init__(self, session: Session, buffers: Buffers) -> None:
        self.session = session
        self.buffers = buffers
        self.finally_do: list[Callable[[], None]] = []
        #: Room for reconstructors to remember what they have decided.
        self.memory: dict[Any, Any] = {}
        self._marks = session.landmarks()

    def landmark(self, name: str) -> Any:
        """Return the target's own landmark of that name."""
        try:
            return self._marks[name]
        except KeyError:
            if name == "numpy-random":
                from numpy.random import mtrand

                return mtrand._rand
            raise CaptureError(
                f"The capture refers to {name!r} of an IPython session, which this one has not. "
                "Load it in an IPython kernel."
            ) from None


_current: Loading | None = None


@contextlib.contextmanager
def loading(session: Session, buffers: Buffers) -> Iterator[Loading]:
    """Make a load the current one of this process."""
    global _current
    before, _current = _current, Loading(session, buffers)
    try:
        yield _current
    finally:
        _current = before


def current() -> Loading:
    """Return the load in progress."""
    if _current is None:
        raise CaptureError("Captures are read by devcluster.kernel_state.load, not by pickle.")
    return _current


def landmark(name: str) -> Any:
    """Reconstructor: a landmark of the target."""
    return current().landmark(name)


class Mark:
    """Stands for a landmark while it is pickled for the first time."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return landmark, (self.name,)
