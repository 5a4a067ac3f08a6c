"""Objects that hang on a live resource: made anew where nothing is lost, else refused."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import mmap
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from ..pickler import StatePickler, for_library, reducer, refuse
from ..records import Refused

_DELETE = "Delete it before the move, or make it again after it."


def _refuse(what: str, remedy: str, *types: type) -> None:
    reducer(*types)(refuse(what, remedy))


_refuse(
    "a coroutine that was not awaited to its end",
    "Await it, or delete it and make it again after the move.",
    types.CoroutineType,
)
_refuse("a frame of running code", _DELETE, types.FrameType)
_refuse("a traceback", "Keep its text (traceback.format_exc()) instead.", types.TracebackType)
_refuse("a selector of open sockets", _DELETE, selectors.BaseSelector)
_refuse(
    "memory that is mapped to a file or shared with other processes",
    "Copy what is in it (bytes(x)), and map it again after the move.",
    mmap.mmap,
)
_refuse(
    "a temporary directory or file, which stays on this machine",
    "Copy what is in it into your home, and make a new one after the move.",
    tempfile.TemporaryDirectory, tempfile._TemporaryFileWrapper, tempfile.SpooledTemporaryFile,
)  # fmt: skip
_refuse("a finalizer", _DELETE, weakref.finalize)
_refuse("a context variable", "Make it again after the move.", contextvars.ContextVar,
        contextvars.Context, contextvars.Token)  # fmt: skip


@reducer(socket.socket)
def _socket(_pickler: StatePickler, connection: Any) -> Any:
    if connection.fileno() != -1:
        raise Refused(
            "an open network connection (socket)",
            "Close it, and connect again after the move.",
            connection,
        )
    return _closed_socket, (int(connection.family), int(connection.type), connection.proto)


def _closed_socket(family: int, kind: int, protocol: int) -> Any:
    closed = socket.socket(family, kind, protocol)
    closed.close()
    return closed


@reducer(subprocess.Popen)
def _process(_pickler: StatePickler, process: Any) -> Any:
    if process.returncode is None:  # not poll(): asking must change nothing
        raise Refused(
            f"a child process (pid {process.pid})",
            "Let it end (x.wait()), and start it again after the move.",
            process,
        )
    return NotImplemented


# --- files ----------------------------------------------------------------------


@reducer(io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
def _file(_pickler: StatePickler, file: Any) -> Any:
    """Refuse an open file, and carry a closed one as closed; none is ever opened by a load."""
    if type(file) not in _CLOSED:
        return _open_file(file)
    try:
        closed = file.closed
    except ValueError:  # its buffer was detached
        closed = False
    if not closed:
        return _open_file(file)
    mode = getattr(file, "mode", None)
    encoding = file.encoding if isinstance(file, io.TextIOWrapper) else None
    name = getattr(file, "name", None)
    name = name if isinstance(name, str | bytes) else None
    return _closed_file, (type(file).__name__, name, mode, encoding)


def _open_file(file: Any) -> Any:
    try:
        name, mode = file.name, getattr(file, "mode", "?")
    except (AttributeError, ValueError):
        name, mode = "?", "?"
    place = "?"
    if not isinstance(file, io.TextIOWrapper):
        try:
            place = str(file.tell())  # of a text file it could flush what is not written yet
        except (OSError, ValueError):
            place = "?"
    else:
        place = _text_position(file)
    raise Refused(
        f"the open file {name!r} (mode {mode!r}, at byte {place})",
        "Close it before the move, and open it again after it (mode 'a' or 'r+' keeps what is in "
        "it).",
        file,
    )


def _text_position(file: io.TextIOWrapper) -> str:
    # Asked of the system by its descriptor: TextIOWrapper.tell() flushes, so it writes.
    try:
        return str(os.lseek(file.fileno(), 0, os.SEEK_CUR))
    except (OSError, ValueError):
        return "?"


def _closed_file(kind: str, name: Any, mode: Any, encoding: str | None) -> Any:
    raw = io.FileIO(os.devnull, "r+")
    raw.name = name
    file: Any = raw
    if kind != "FileIO":
        file = (getattr(io, kind) if kind != "TextIOWrapper" else io.BufferedReader)(raw)
    if kind == "TextIOWrapper":
        file = io.TextIOWrapper(file, encoding=encoding)
        if mode is not None:
            file.mode = mode
    file.close()
    return file


_CLOSED = (
    io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper,
)  # fmt: skip


# --- the interpreter's own records, references, loggers -----------------------------


def _of_interpreter(pickler: StatePickler, record: Any) -> Any:
    for name in ("version_info", "flags"):  # of types that nobody can make another of
        if getattr(sys, name) is record:
            pickler.note(f"sys.{name} is that of the kernel that it comes to.")
            return getattr, (sys, name)
    return NotImplemented


reducer(type(sys.version_info), type(sys.flags))(_of_interpreter)


@reducer(weakref.ref)
def _weak_reference(_pickler: StatePickler, reference: Any) -> Any:
    target, callback = reference(), reference.__callback__
    if target is None:
        return _dead_reference, ()
    if type(reference) is weakref.WeakMethod:
        # Its own callback hands on to the one that it was given.
        cells = dict(zip(callback.__code__.co_freevars, callback.__closure__, strict=True))
        return weakref.WeakMethod, (target, cells["callback"].cell_contents)
    if type(reference) is not weakref.ref:
        raise Refused("a weak reference of a class of its own", _DELETE, reference)
    return weakref.ref, (target,) if callback is None else (target, callback)


def _dead_reference() -> Any:
    return weakref.ref(_Gone())


class _Gone:
    pass


@reducer(weakref.WeakValueDictionary, weakref.WeakKeyDictionary)
def _weak_dictionary(_pickler: StatePickler, weak: Any) -> Any:
    kind = type(weak)
    if kind not in (weakref.WeakValueDictionary, weakref.WeakKeyDictionary):
        raise Refused("a weak dictionary of a class of its own", _DELETE, weak)
    return kind, (), None, None, iter(list(weak.items()))


@reducer(logging.Logger)
def _logger(pickler: StatePickler, logger: logging.Logger) -> Any:
    if logger.handlers:
        pickler.note(
            f"The logger {logger.name!r} comes over by its name, without its handlers and level."
        )
    if isinstance(logger, logging.RootLogger):
        return logging.getLogger, ()
    if logging.Logger.manager.loggerDict.get(logger.name) is not logger:
        return NotImplemented
    return logging.getLogger, (logger.name,)


# --- libraries that the kernel may never import ---------------------------------------


def _of_library(module: str, what: str, remedy: str, *names: str) -> None:
    """Refuse some types of a library, once it is imported."""

    def install() -> None:
        for name in names:
            kind: Any = sys.modules.get(module)
            for part in name.split("."):
                kind = getattr(kind, part, None)
            if isinstance(kind, type):
                _refuse(what, remedy, kind)

    for_library(module)(install)


_database = "Close it, and open it again after the move; data in memory only must be written out."
for _module, _names in (
    ("sqlite3", ("Connection", "Cursor", "Blob")),
    ("_duckdb", ("DuckDBPyConnection", "DuckDBPyRelation")),
    ("duckdb", ("DuckDBPyConnection", "DuckDBPyRelation")),
    ("h5py", ("File", "Group", "Dataset")),
):
    _of_library(_module, f"an open database or file ({_module})", _database, *_names)
_of_library("_hashlib", "a hash that is under way", "Keep its digest (x.hexdigest()).", "HASH")
_of_library("ssl", "an open network connection", "Connect again after the move.",
            "SSLSocket", "SSLObject", "SSLContext")  # fmt: skip
_of_library("zmq", "an open network connection (ZeroMQ)", "Close it, and connect again after it.",
            "Context", "Socket", "Poller")  # fmt: skip
_of_library("multiprocessing.process", "a child process", "Let it end (x.join()).", "BaseProcess")
_of_library("multiprocessing.pool", "a pool of worker processes",
            "Close it, and make it again after the move.", "Pool")  # fmt: skip
_of_library("multiprocessing.shared_memory", "memory shared with other processes",
            "Copy what is in it.", "SharedMemory", "ShareableList")  # fmt: skip
_of_library("multiprocessing.synchronize", "a lock between processes",
            "Make it again after the move.", "SemLock", "Event", "Condition",
            "Barrier")  # fmt: skip
_of_library("multiprocessing.queues", "a queue between processes", "Make it again after the move.",
            "Queue", "SimpleQueue")  # fmt: skip
_of_library("multiprocessing.connection", "a pipe between processes",
            "Make it again after the move.", "_ConnectionBase", "Listener")  # fmt: skip
_of_library("multiprocessing.sharedctypes", "a value shared between processes",
            "Keep what is in it, and make it again after it.", "SynchronizedBase")  # fmt: skip
_of_library("multiprocessing.managers", "a manager of other processes",
            "Make it again after the move.", "BaseManager", "BaseProxy")  # fmt: skip


def user_threads(is_users: Callable[[Any], bool]) -> list[tuple[threading.Thread, Any]]:
    """Return the live threads that run the person's own code, each with its function.

    Parameters
    ----------
    is_users
        Whether a function's globals are the person's.
    """
    found = []
    for thread in threading.enumerate():
        if thread in (threading.main_thread(), threading.current_thread()):
            continue
        work: Any = getattr(thread, "_target", None) or getattr(thread, "function", None)
        if work is None and type(thread).run is not threading.Thread.run:
            work = type(thread).run
        work = getattr(work, "func", work)  # of a partial
        work = getattr(work, "__func__", work)  # of a method
        if is_users(getattr(work, "__globals__", None)):
            found.append((thread, work))
    return found


def user_tasks(is_users: Callable[[Any], bool]) -> list[asyncio.Task[Any]]:
    """Return the unfinished asyncio tasks that run the person's own code."""
    try:
        tasks = asyncio.all_tasks(asyncio.get_running_loop())
    except RuntimeError:
        return []
    found = []
    for task in tasks:
        frame = getattr(task.get_coro(), "cr_frame", None)
        # The cell that is running is such a task too, of the file that IPython gave it.
        if frame is not None and is_users(frame.f_globals) and frame.f_code.co_name != "<module>":
            found.append(task)
    return found
