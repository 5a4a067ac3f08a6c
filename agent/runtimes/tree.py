"""Process trees from ``/proc``: who is below a launcher, freeze them, end them.

Source of the states' letters and of the fields: ``proc_pid_stat(5)``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import NamedTuple

from devcluster.core.errors import StepFailed

_STOPPED = frozenset("TtZX")
#: Between two looks at processes that should stop or end.
_PAUSE_S = 0.005


class Identity(NamedTuple):
    """A process that is not confused with a later one of the same pid."""

    pid: int
    #: Clock ticks since boot.
    started: int

    def alive(self) -> bool:
        """Tell whether it is there and not a zombie."""
        found = _stat(self.pid)
        return found is not None and found.started == self.started and found.state not in "ZX"


class _Stat(NamedTuple):
    pid: int
    parent: int
    state: str
    started: int


def _stat(pid: int | str) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
    except OSError:
        return None
    fields = content.rpartition(b")")[2].split()
    return _Stat(int(pid), int(fields[1]), fields[0].decode(), int(fields[19]))


def _all() -> list[_Stat]:
    return [found for name in os.listdir("/proc") if name.isdigit() and (found := _stat(name))]


def below(launcher: Identity) -> list[Identity]:
    """Return every live process below a launcher, without itself."""
    children: dict[int, list[_Stat]] = {}
    for one in _all():
        children.setdefault(one.parent, []).append(one)
    found: list[Identity] = []
    todo = [launcher.pid] if launcher.alive() else []
    while todo:
        for one in children.get(todo.pop(), []):
            todo.append(one.pid)
            if one.state not in "ZX":
                found.append(Identity(one.pid, one.started))
    return found


def with_variable(name: str, value: str) -> list[Identity]:
    """Return every live process that was started with ``name=value`` in its environment.

    Finds what is left of a tree whose launcher was killed.
    """
    wanted = f"{name}={value}".encode()
    found = []
    for one in _all():
        with contextlib.suppress(OSError), open(f"/proc/{one.pid}/environ", "rb") as file:
            if one.state not in "ZX" and wanted in file.read().split(b"\0"):
                found.append(Identity(one.pid, one.started))
    return found


def memory_of(processes: list[Identity]) -> int:
    """Return the resident memory of processes, in bytes."""
    pages = 0
    for one in processes:
        with contextlib.suppress(OSError), open(f"/proc/{one.pid}/statm", "rb") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_stopped(process: Identity) -> bool:
    """Tell whether no thread of a process runs."""
    try:
        threads = os.listdir(f"/proc/{process.pid}/task")
    except OSError:
        return True
    return all(_thread(process.pid, thread) in _STOPPED for thread in threads)


def _thread(pid: int, thread: str) -> str:
    try:
        with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return "X"


def send(processes: list[Identity], number: signal.Signals) -> None:
    """Send a signal to each that is still the one it was."""
    for one in processes:
        if one.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, number)


async def freeze(launcher: Identity, deadline_s: float) -> None:
    """Stop everything below a launcher.

    Done when two looks, one after the other, find the same processes and every thread
    stopped: what a still running one forked meanwhile is in the second look.
    """
    end = time.monotonic() + deadline_s
    quiet: list[Identity] | None = None
    while True:
        found = below(launcher)
        running = [one for one in found if not is_stopped(one)]
        if not running:
            if quiet == found:
                return
            quiet = found
            continue
        quiet = None
        send(running, signal.SIGSTOP)
        if time.monotonic() > end:
            raise StepFailed(
                f"Processes {', '.join(str(one.pid) for one in running)} could not be frozen "
                f"within {deadline_s:g} s: they wait for a device or a network file system."
            )
        await asyncio.sleep(_PAUSE_S)


def thaw(launcher: Identity, leave: frozenset[Identity]) -> None:
    """Let everything below a launcher go on, but for what the person had stopped.

    Children before their parents: a shell that wakes up first would find its job stopped
    and put it in the background.
    """
    send([one for one in reversed(below(launcher)) if one not in leave], signal.SIGCONT)


async def kill(launcher: Identity, name: str, value: str, deadline_s: float) -> None:
    """End a whole tree with SIGKILL, and its launcher last.

    Parameters
    ----------
    name, value
        The variable by which to find processes whose launcher is gone.
    """
    end = time.monotonic() + deadline_s
    while True:
        found = below(launcher) if launcher.alive() else with_variable(name, value)
        if not found:
            if not launcher.alive():
                return
            send([launcher], signal.SIGKILL)
        else:
            send(found, signal.SIGKILL)
        if time.monotonic() > end:
            raise StepFailed(
                f"Processes {', '.join(str(one.pid) for one in found)} do not end: they wait in "
                "the kernel, for a device or a network file system. Their hardware is not free."
            )
        await asyncio.sleep(_PAUSE_S)
