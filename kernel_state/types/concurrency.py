"""Locks, queues, threads, executors and asyncio's likes: carried at rest, refused at work."""

from __future__ import annotations

import _queue
import _thread
import asyncio
import asyncio.mixins
import concurrent.futures
import concurrent.futures.process
import concurrent.futures.thread
import gc
import inspect
import queue
import sys
import threading
import time
import weakref
from typing import Any

from ..pickler import StatePickler, reducer, refuse
from ..records import Refused

# --- locks and queues ---------------------------------------------------------------


@reducer(_thread.LockType)
def _lock(_pickler: StatePickler, lock: Any) -> Any:
    if lock.locked():
        raise Refused("a lock that is held", "Release it before the move.", lock)
    return _thread.allocate_lock, ()


@reducer(_thread.RLock)
def _rlock(_pickler: StatePickler, lock: Any) -> Any:
    # There is no asking a C RLock whether another thread has it; its repr begins with it.
    if lock._is_owned() or repr(lock).startswith("<locked"):
        raise Refused("a lock that is held", "Release it before the move.", lock)
    return threading.RLock, ()


@reducer(threading.Condition)
def _condition(_pickler: StatePickler, condition: Any) -> Any:
    if condition._waiters:
        raise Refused(
            "something that a thread is waiting for (an event, a condition or a queue)",
            "Let the thread end before the move, and start it again after it.",
            condition,
        )
    return NotImplemented


@reducer(_queue.SimpleQueue)
def _simple_queue(_pickler: StatePickler, simple: Any) -> Any:
    # Its items are in order among what the garbage collector sees of it: one by one
    # since Python 3.13, in a list that begins with items already taken before that.
    items: list[Any] = []
    for seen in gc.get_referents(simple):
        if type(seen) is list and sys.version_info < (3, 13):
            items = seen
        elif sys.version_info >= (3, 13) and seen is not type(simple):
            items.append(seen)
    size = simple.qsize()
    if len(items) < size:
        raise Refused("a queue that cannot be looked into", "Use queue.Queue instead.", simple)
    state = (items[len(items) - size :], dict(getattr(simple, "__dict__", {})))
    return type(simple).__new__, (type(simple),), state, None, None, _fill_queue


def _fill_queue(simple: Any, state: tuple[list[Any], dict[str, Any]]) -> None:
    items, attributes = state
    for item in items:
        queue.SimpleQueue.put(simple, item)
    if attributes:
        simple.__dict__.update(attributes)


# --- threads ------------------------------------------------------------------------


@reducer(threading.local)
def _thread_local(pickler: StatePickler, local: Any) -> Any:
    if threading.current_thread() is not threading.main_thread():
        # The walk of deep objects has a thread of its own, which would see its own values.
        raise Refused("thread-local data beside deeply nested objects", "Keep its values in a "
                      "dict.", local)  # fmt: skip
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    for seen in gc.get_referents(local):
        if type(seen) is tuple:
            arguments = seen
        elif type(seen) is dict and all(isinstance(key, weakref.ref) for key in seen):
            if len(seen) > 1:
                pickler.note("Thread-local values of other threads than the main one stay behind.")
        elif type(seen) is dict and seen is not local.__dict__:
            named = seen
    return _make_local, (type(local), arguments, named), dict(local.__dict__), None, None, _update


def _make_local(kind: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    # Not called: __init__ ran once for these values. It runs in other threads with these
    # arguments.
    return kind.__new__(kind, *arguments, **named)


def _update(obj: Any, attributes: dict[str, Any]) -> None:
    obj.__dict__.update(attributes)


@reducer(threading.Thread)
def _thread_object(pickler: StatePickler, thread: Any) -> Any:
    if thread is threading.main_thread():
        pickler.note("It is the main thread of the kernel that it comes to.")
        return threading.main_thread, ()
    if thread.is_alive():
        raise Refused(
            f"a running thread ({thread.name})",
            "Let it end (x.join()), and start it again after the move.",
            thread,
        )
    ended = thread._started.is_set()
    plain = vars(threading.Thread(name="plain"))
    work = {name: vars(thread)[name] for name in _WORK if name in vars(thread)}
    own = {name: value for name, value in vars(thread).items() if name not in plain}
    state = {
        "name": thread.name,
        "daemon": thread.daemon,
        "ident": thread.ident if ended else None,
        "native": thread.native_id if ended else None,
        "work": work,
        "own": own,
    }
    return type(thread).__new__, (type(thread),), state, None, None, _fill_thread


#: What a thread has to do, while it has not been done.
_WORK = ("_target", "_args", "_kwargs")


def _fill_thread(thread: Any, state: dict[str, Any]) -> None:
    threading.Thread.__init__(thread, name=state["name"], daemon=state["daemon"])
    for name in _WORK:
        vars(thread).pop(name, None)
    vars(thread).update(state["work"])
    vars(thread).update(state["own"])
    if state["ident"] is None:
        return
    thread._started.set()
    thread._ident, thread._native_id = state["ident"], state["native"]
    if hasattr(thread, "_handle"):  # since Python 3.13
        thread._handle._set_done()
    else:
        thread._is_stopped = True
    threading._dangling.discard(thread)  # type: ignore[attr-defined]


# --- executors and futures ------------------------------------------------------------

_WAIT = "Wait until its work is done, or shut it down, before the move."
reducer(concurrent.futures.Executor)(
    refuse("a pool of worker threads or processes", "Shut it down, and make it again after it.")
)


@reducer(concurrent.futures.ThreadPoolExecutor)
def _thread_pool(pickler: StatePickler, pool: Any) -> Any:
    if pool._work_queue.qsize() and not pool._shutdown:
        raise Refused("a pool of threads with work that waits", _WAIT, pool)
    if not _is_idle(pool):
        raise Refused("a pool of threads that is at work", _WAIT, pool)
    if pool._broken:
        raise Refused("a broken pool of threads", "Make it again after the move.", pool)
    if hasattr(pool, "_initializer"):
        start = (pool._initializer, pool._initargs)
    else:  # since Python 3.14
        kept = inspect.getclosurevars(pool._create_worker_context).nonlocals
        start = (kept["initializer"], kept["initargs"])
    arguments = (pool._max_workers, pool._thread_name_prefix, *start)
    pickler.note("A pool of threads starts its threads anew.")
    return _reduce_pool(pool, concurrent.futures.ThreadPoolExecutor, arguments)


def _is_idle(pool: Any) -> bool:
    """Whether all workers wait for work; one whose work is done may need a moment to."""
    waiting = concurrent.futures.thread._worker.__code__
    for _ in range(10):
        frames = sys._current_frames()
        at = [frames.get(thread.ident) for thread in list(pool._threads)]
        if all(frame is None or frame.f_code is waiting for frame in at):
            return True
        del frames, at
        time.sleep(0.002)
    return False


@reducer(concurrent.futures.ProcessPoolExecutor)
def _process_pool(pickler: StatePickler, pool: Any) -> Any:
    if pool._pending_work_items:
        raise Refused("a pool of processes that is at work", _WAIT, pool)
    if pool._broken:
        raise Refused("a broken pool of processes", "Make it again after the move.", pool)
    method = None if pool._mp_context is None else pool._mp_context.get_start_method()
    arguments = (pool._max_workers, method, pool._initializer, pool._initargs)
    limit = getattr(pool, "_max_tasks_per_child", None)
    pickler.note("A pool of processes starts its processes anew.")
    return _reduce_pool(pool, concurrent.futures.ProcessPoolExecutor, (*arguments, limit))


def _reduce_pool(pool: Any, base: Any, arguments: tuple[Any, ...]) -> Any:
    closed = bool(getattr(pool, "_shutdown", False) or getattr(pool, "_shutdown_thread", False))
    own = {name: value for name, value in vars(pool).items() if name not in _attributes(base)}
    state = (arguments, closed, own)
    return type(pool).__new__, (type(pool),), state, None, None, _FILLS[base]


def _attributes(base: Any) -> set[str]:
    """Return the names of the private attributes that an executor's ``__init__`` gives it."""
    return {name for name in base.__init__.__code__.co_names if name.startswith("_")}


def _fill_thread_pool(pool: Any, state: tuple[tuple[Any, ...], bool, dict[str, Any]]) -> None:
    arguments, closed, own = state
    concurrent.futures.ThreadPoolExecutor.__init__(pool, *arguments)
    vars(pool).update(own)
    if closed:
        concurrent.futures.ThreadPoolExecutor.shutdown(pool)


def _fill_process_pool(pool: Any, state: tuple[tuple[Any, ...], bool, dict[str, Any]]) -> None:
    import multiprocessing

    (workers, method, initializer, arguments, limit), closed, own = state
    context = None if method is None else multiprocessing.get_context(method)
    concurrent.futures.ProcessPoolExecutor.__init__(
        pool, workers, context, initializer, arguments, max_tasks_per_child=limit
    )
    vars(pool).update(own)
    if closed:
        concurrent.futures.ProcessPoolExecutor.shutdown(pool)


_FILLS: dict[Any, Any] = {
    concurrent.futures.ThreadPoolExecutor: _fill_thread_pool,
    concurrent.futures.ProcessPoolExecutor: _fill_process_pool,
}


@reducer(concurrent.futures.Future)
def _future(_pickler: StatePickler, future: Any) -> Any:
    if not future.done():
        raise Refused(
            "a future whose work is not done", "Wait for it (x.result()) before the move.", future
        )
    # What was to be called at its end has been called.
    state = {"_state": future._state, "_result": future._result, "_exception": future._exception}
    return type(future), (), state, None, None, _update


# --- asyncio ----------------------------------------------------------------------------


@reducer(asyncio.mixins._LoopBoundMixin)
def _loop_bound(_pickler: StatePickler, obj: Any) -> Any:
    """Reduce a queue, lock, event, condition or semaphore of asyncio."""
    what = type(obj).__name__
    for name in ("_waiters", "_getters", "_putters"):
        if any(not waiting.done() for waiting in vars(obj).get(name) or ()):
            raise Refused(
                f"an asyncio {what} that a task is waiting for",
                "Await or cancel the task before the move.",
                obj,
            )
    if vars(obj).get("_locked"):
        raise Refused(f"an asyncio {what} that is held", "Release it before the move.", obj)
    # It binds to a loop again when it is first waited for.
    state = {name: value for name, value in vars(obj).items() if name != "_loop"}
    return type(obj).__new__, (type(obj),), state, None, None, _update


@reducer(asyncio.Future)
def _asyncio_future(pickler: StatePickler, future: Any) -> Any:
    task = isinstance(future, asyncio.Task)
    if not future.done():
        name = f" ({future.get_name()})" if task else ""
        raise Refused(
            f"an asyncio {'task' if task else 'future'} that is not done{name}",
            "Await or cancel it before the move, and make it again after it.",
            future,
        )
    if task:
        pickler.note("An asyncio task that is done comes over as a future with its result.")
    # Not result(): asking for an exception would count as having seen it.
    seen = not getattr(future, "_log_traceback", False)
    state = (future._state, future._result, future._exception, seen)
    return _make_future, (), state, None, None, _fill_future


reducer(asyncio.Task)(_asyncio_future)


def _make_future() -> Any:
    return asyncio.Future(loop=_loop())


def _fill_future(future: Any, state: tuple[str, Any, Any, bool]) -> None:
    kind, result, error, seen = state
    if kind == "CANCELLED":
        future.cancel()
    elif error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
        if seen:
            future._log_traceback = False


@reducer(asyncio.AbstractEventLoop)
def _event_loop(pickler: StatePickler, loop: Any) -> Any:
    if loop.is_running() and getattr(loop, "_thread_id", 0) == threading.main_thread().ident:
        pickler.note("It is the event loop of the kernel that it comes to.")
        return _loop, ()
    raise Refused("an event loop", "Delete it before the move, or make it again after it.", loop)


_idle_loop: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop that runs here; without one, a loop that never runs."""
    global _idle_loop
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        if _idle_loop is None or _idle_loop.is_closed():
            _idle_loop = asyncio.new_event_loop()
        return _idle_loop


for _name in ("TaskGroup", "Runner", "Timeout"):
    reducer(getattr(asyncio, _name))(
        refuse(f"an asyncio {_name}", "Delete it before the move, and make it again after it.")
    )
