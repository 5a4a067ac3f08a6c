"""Bounds on the time, size and depth of a pickling, so that no object can hang a save."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from .records import TimeLimit

T = TypeVar("T")

#: One level of nesting of Python objects takes two or three levels of recursion in the
#: pickler. Below, each level of recursion has some 2.5 KiB of stack, several times what
#: the C pickler was seen to use.
DEEP_RECURSION = 400_000
DEEP_STACK = 1 << 30


#: How long a thread may take to notice that its time is up.
_GRACE_S = 3.0


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Hold the garbage collector back: it would walk every object again and again."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class Limit:
    """The time and the size that one variable may take.

    Parameters
    ----------
    seconds
        How long one variable's pickling may take.
    stream_bytes
        How much of it may stand in the pickle itself; large buffers do not count.
    """

    def __init__(self, seconds: float, stream_bytes: int = 1 << 30) -> None:
        self.seconds = seconds
        self.stream_bytes = stream_bytes
        self._expires = float("inf")
        self._interrupted = False

    @property
    def expired(self) -> bool:
        """Whether the variable in hand has used up its time."""
        return time.monotonic() > self._expires

    @property
    def overdue(self) -> bool:
        """Whether its time was up so long ago that it will not notice any more."""
        return time.monotonic() > self._expires + _GRACE_S

    def stop_counting(self) -> None:
        """Count no time until the next variable begins."""
        self._expires = float("inf")

    def check(self, stream_bytes: int) -> None:
        """Raise :class:`TimeLimit` if the variable in hand has gone too far."""
        if stream_bytes > self.stream_bytes:
            raise TimeLimit(f"more than {self.stream_bytes >> 20} MiB of small objects")
        if self.expired:
            raise TimeLimit(f"not done after {self.seconds:g} s")

    @contextlib.contextmanager
    def one_variable(self) -> Iterator[None]:
        """Count the time of one variable; an alarm cuts code that never comes back to us."""
        self._expires = time.monotonic() + self.seconds
        alarm = threading.current_thread() is threading.main_thread()
        if alarm:
            # Again each second: user code may swallow the first one.
            signal.setitimer(signal.ITIMER_REAL, self.seconds, 1.0)
        try:
            yield
        finally:
            if alarm:
                signal.setitimer(signal.ITIMER_REAL, 0)
            self.stop_counting()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Own SIGALRM and SIGINT meanwhile, and put back what the person had.

        SIGINT is owned to tell the person's own interrupt, which ends the save, from a
        ``KeyboardInterrupt`` that an object raises while it is pickled.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_alarm(_number: int, _frame: FrameType | None) -> None:
            if self.expired:
                raise TimeLimit(f"not done after {self.seconds:g} s")

        def on_interrupt(_number: int, _frame: FrameType | None) -> None:
            self._interrupted = True
            raise KeyboardInterrupt

        delay, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        began = time.monotonic()
        alarm = signal.signal(signal.SIGALRM, on_alarm)
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, alarm)
            if callable(interrupt):
                signal.signal(signal.SIGINT, interrupt)
            if delay:
                left = max(delay - (time.monotonic() - began), 0.001)
                signal.setitimer(signal.ITIMER_REAL, left, interval)

    def by_person(self, error: BaseException) -> bool:
        """Whether an error is the person's own interrupt."""
        return isinstance(error, KeyboardInterrupt) and self._interrupted


def run_deep(limit: Limit, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread with a stack for deeply nested objects, and wait for it.

    Raises
    ------
    MemoryError
        If there is no room for such a stack.
    TimeLimit
        If a variable's time is up and its thread does not even notice.
    """
    result: list[T] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:
            errors.append(error)

    recursion, stack = sys.getrecursionlimit(), threading.stack_size(DEEP_STACK)
    thread = threading.Thread(target=target, name="devcluster-deep-pickle", daemon=True)
    sys.setrecursionlimit(max(recursion, DEEP_RECURSION))
    try:
        try:
            thread.start()
        except RuntimeError as error:
            raise MemoryError("no room for the stack that deeply nested objects need") from error
        finally:
            threading.stack_size(stack)
        while thread.is_alive():
            thread.join(0.2)
            if limit.overdue:  # it sleeps in a system call; it ends by itself when it wakes
                limit.stop_counting()
                raise TimeLimit(f"not done after {limit.seconds:g} s")
            if limit.expired and thread.ident is not None:
                # Raises TimeLimit in that thread, as the alarm does in the main one.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(TimeLimit)
                )
    finally:
        sys.setrecursionlimit(recursion)
    if errors:
        raise errors[0]
    return result[0]
