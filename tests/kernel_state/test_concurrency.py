"""Locks, queues, threads, executors and futures: at rest they come over, at work they are named."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest
from sessions import moved, plan_of, session


def test_locks_queues_and_their_likes_come_over_at_rest():
    there = moved(
        session(
            "import threading, queue, asyncio, collections\n"
            "lock = threading.Lock(); rlock = threading.RLock(); event = threading.Event()\n"
            "event.set(); condition = threading.Condition()\nown = threading.Condition(lock)\n"
            "semaphore = threading.Semaphore(3); bounded = threading.BoundedSemaphore(2)\n"
            "barrier = threading.Barrier(2); q = queue.Queue(5); q.put(1); q.put(2); q.get()\n"
            "simple = queue.SimpleQueue(); [simple.put(n) for n in range(4)]; simple.get()\n"
            "heap = queue.PriorityQueue(); heap.put(2); heap.put(1); lifo = queue.LifoQueue()\n"
            "aq = asyncio.Queue(); aq.put_nowait(7); alock = asyncio.Lock()\n"
            "aevent = asyncio.Event(); aevent.set(); acondition = asyncio.Condition()\n"
            "asemaphore = asyncio.Semaphore(2)\n"
        )
    )
    exec(
        "assert lock.acquire(False) and not own.acquire(False); lock.release()\n"
        "worked = []\n"
        "def other():\n"
        "    with rlock, condition, bounded: worked.append(event.is_set())\n"
        "t = threading.Thread(target=other); t.start(); t.join(5); assert worked == [True]\n"
        "assert semaphore._value == 3 and barrier.parties == 2 and lifo.empty()\n"
        "assert q.get_nowait() == 2 and q.unfinished_tasks == 2 and q.maxsize == 5\n"
        "assert [simple.get_nowait() for _ in range(3)] == [1, 2, 3] and simple.empty()\n"
        "assert heap.get_nowait() == 1 and heap.get_nowait() == 2\n"
        "async def use():\n"
        "    async with alock, acondition, asemaphore: await aevent.wait(); return await aq.get()\n"
        "assert asyncio.run(use()) == 7\n",
        there,
    )


def test_what_is_held_or_waited_for_is_refused_by_name():
    held, event, work = threading.Lock(), threading.Event(), queue.Queue()
    held.acquire()
    arrived = threading.Event()

    def wait():
        arrived.set()
        event.wait(10)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        arrived.wait(5)
        while not event._cond._waiters:
            pass
        plan = plan_of(session(held=held, event=event, work=work, thread=thread))
    finally:
        event.set()
        thread.join()
    assert {name for name, record in plan.items() if record.kind == "refused"} == {
        "held", "event", "thread",
    }  # fmt: skip
    assert "waiting for" in plan["event"].reason


def test_thread_local_values_of_the_main_thread_come_over_and_others_are_named():
    namespace = session(
        "import threading\n"
        "plain = threading.local(); plain.v = [4]; same = plain.v\n"
        "class Own(threading.local):\n"
        "    def __init__(self, n, *, scale=1): self.n = n * scale\n"
        "own = Own(2, scale=3); own.n += 1\n"
    )
    release, arrived = threading.Event(), threading.Event()

    def other():
        namespace["own"].n = 99
        arrived.set()
        release.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    arrived.wait(5)
    try:
        assert "other threads" in plan_of(namespace)["own"].reason
        there = moved(namespace)
    finally:
        release.set()
        thread.join()
    assert there["plain"].v is there["same"]
    assert there["own"].n == 7
    seen = []
    thread = threading.Thread(target=lambda: seen.append(there["own"].n))
    thread.start()
    thread.join()
    assert seen == [6]  # made anew from the arguments that it was given


def test_threads_that_have_ended_or_never_began_come_over_as_such():
    there = moved(
        session(
            "import threading\ndone = []\n"
            "class Own(threading.Thread):\n"
            "    def __init__(self, n): super().__init__(name='mine'); self.n = n\n"
            "    def run(self): done.append(self.n)\n"
            "ended = Own(1); ended.start(); ended.join()\n"
            "fresh = threading.Thread(target=done.append, args=(2,), name='later', daemon=True)\n"
            "timer = threading.Timer(0, done.append, [3]); main = threading.main_thread()\n"
            "ident = ended.ident\n"
        )
    )
    exec(
        "assert not ended.is_alive() and ended.name == 'mine' and ended.ident == ident\n"
        "ended.join(); assert done == [1]\n"
        "assert fresh.name == 'later' and fresh.daemon and fresh.ident is None\n"
        "fresh.start(); fresh.join(); timer.start(); timer.join(); assert done == [1, 2, 3]\n"
        "assert main is threading.main_thread()\n",
        there,
    )
    with pytest.raises(RuntimeError, match="only be started once"):
        there["ended"].start()


def test_executors_at_rest_start_anew_and_at_work_are_refused():
    namespace = session(
        "import concurrent.futures as cf, threading\nseen = []\n"
        "pool = cf.ThreadPoolExecutor(2, 'mine', seen.append, (1,))\n"
        "good = pool.submit(pow, 2, 5); bad = pool.submit(divmod, 1, 0); cf.wait([good, bad])\n"
        "closed = cf.ThreadPoolExecutor(); closed.shutdown(); empty = cf.ProcessPoolExecutor(3)\n"
        "cancelled = cf.Future(); cancelled.cancel(); pending = cf.Future()\n"
    )
    plan = plan_of(namespace)
    assert "not done" in plan["pending"].reason
    assert plan["pool"].kind == plan["empty"].kind == "rebuilt"
    there = moved(namespace)
    exec(
        "assert good.result() == 32 and cancelled.cancelled() and len(seen) >= 1\n"
        "assert isinstance(bad.exception(), ZeroDivisionError)\n"
        "assert pool.submit(lambda: threading.current_thread().name).result().startswith('mine')\n"
        "assert empty._max_workers == 3; pool.shutdown()\n",
        there,
    )
    with pytest.raises(RuntimeError, match="shutdown"):
        there["closed"].submit(pow, 2, 2)
    begun, release = threading.Event(), threading.Event()
    namespace["pool"].submit(lambda: begun.set() or release.wait(10))
    try:
        begun.wait(5)
        assert "at work" in plan_of(namespace)["pool"].reason
    finally:
        release.set()
        namespace["pool"].shutdown()


def test_asyncio_at_rest_comes_over_and_at_work_is_named():
    async def story():
        async def seven():
            return 7

        async def fails():
            raise KeyError("x")

        async def forever():
            await asyncio.Event().wait()

        task, under_way = asyncio.ensure_future(seven()), asyncio.ensure_future(forever())
        failed = asyncio.ensure_future(fails())
        waited, held = asyncio.Queue(), asyncio.Lock()
        getter = asyncio.ensure_future(waited.get())
        await asyncio.wait([task, failed])
        await held.acquire()
        loop = asyncio.get_running_loop()
        namespace = session(
            task=task, under_way=under_way, failed=failed, waited=waited, held=held, loop=loop
        )
        plan = plan_of(namespace)
        assert {n for n, r in plan.items() if r.kind == "refused"} >= {
            "under_way", "waited", "held",
        }  # fmt: skip
        assert under_way.get_name() in plan["under_way"].reason
        there = moved(namespace)
        assert await there["task"] == 7
        assert there["loop"] is loop
        with pytest.raises(KeyError):
            await there["failed"]
        with pytest.raises(KeyError):
            await failed
        under_way.cancel()
        getter.cancel()

    asyncio.run(story())


def test_a_future_that_is_done_comes_over_where_no_loop_runs():
    async def one():
        return asyncio.ensure_future(asyncio.sleep(0, 1))

    async def story():
        task = await one()
        await task
        return task

    there = moved(session(task=asyncio.run(story())))
    assert there["task"].result() == 1
