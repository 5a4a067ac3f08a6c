"""B12: one variable that cannot be pickled never loses the rest."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from devcluster import kernel_state
from sessions import moved, plan_of, session

GOOD = "\n".join(f"good{i} = [{i}, shared]" for i in range(1000))


def _socket():
    return socket.socket()


def _held_lock():
    lock = threading.Lock()
    lock.acquire()
    return lock


def _generator():
    generator = (i for i in range(3))
    next(generator)
    return generator


def _process():
    process = subprocess.Popen(["sleep", "60"])
    return process


def _future():
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    return future


class ReduceRaises:
    def __reduce__(self):
        raise OSError("no")


class Exits:
    def __getstate__(self):
        sys.exit(3)


class Interrupts:
    def __getstate__(self):
        raise KeyboardInterrupt


class NeverEnds:
    """Its reduce gives new items for ever."""

    def __reduce__(self):
        def items():
            while True:
                yield object()

        return list, (), None, items()


class Sleeps:
    def __reduce__(self):
        while True:
            time.sleep(60)


class NestsForEver:
    def __reduce__(self):
        return NestsForEver, (NestsForEver(),)


class Forks:
    def __reduce__(self):
        if os.fork() == 0:
            return list, ()  # the child must not go on to save
        os.wait()
        return list, ()


BAD = {
    "socket": (_socket, "socket"),
    "held lock": (_held_lock, "lock that is held"),
    "generator": (_generator, "generator"),
    "process": (_process, "child process"),
    "future": (_future, "asyncio"),
    "sqlite": (lambda: sqlite3.connect(":memory:"), "database"),
    "lambda over a lock": (lambda: (lambda lock: lambda: lock)(_held_lock()), "lock that is held"),
    "reduce raises": (ReduceRaises, "OSError: no"),
    "sys.exit": (Exits, "SystemExit: 3"),
    "interrupt": (Interrupts, "KeyboardInterrupt"),
    "never ends": (NeverEnds, "does not come to an end"),
    "sleeps": (Sleeps, "does not come to an end"),
    "nests for ever": (NestsForEver, "end"),
    "frame": (sys._getframe, "frame"),
}


def _end(bad):
    if isinstance(bad, subprocess.Popen):
        bad.kill()
        bad.wait()
    elif hasattr(bad, "close"):
        bad.close()


@pytest.mark.parametrize("kind", BAD)
def test_b12_the_bad_one_is_named_and_the_good_ones_arrive(kind):
    make, why = BAD[kind]
    bad = make()
    try:
        namespace = session(GOOD, shared=["s"])
        namespace = {"early": 1, **namespace, "bad": bad, "holder": {"deep": [bad]}, "late": 2}
        before = {name: id(value) for name, value in namespace.items()}
        plan = plan_of(namespace, limit_s=0.5)
        refused = [name for name, record in plan.items() if record.kind == "refused"]
        assert refused == ["bad", "holder"]
        assert why in plan["bad"].reason
        assert plan["bad"].remedy
        assert {name: id(value) for name, value in namespace.items()} == before
        there = moved(namespace, limit_s=0.5)
        assert there["early"] == 1
        assert there["late"] == 2
        assert there["good999"] == [999, ["s"]]
        assert there["good0"][1] is there["good999"][1]
        assert "bad" not in there
        assert "holder" not in there
    finally:
        _end(bad)


def test_b12_an_object_that_forks_while_it_is_pickled_leaves_no_second_kernel(tmp_path):
    path = tmp_path / "capture"
    records = kernel_state.save(path, namespace=session(a=1, forks=Forks()))
    assert [r.name for r in records] == ["a", "forks"]
    there = session()
    kernel_state.load(path, namespace=there)
    assert there["a"] == 1


def test_b12_a_chain_100000_deep_is_carried_or_named():
    code = (
        "class Node:\n    def __init__(self, v): self.v, self.next = v, None\n"
        "head = cur = Node(0)\n"
        "for i in range(1, 100_000):\n    cur.next = Node(i); cur = cur.next\n"
    )
    namespace = session(code, good=1)
    assert {r.kind for r in plan_of(namespace).values()} == {"carried"}
    there = moved(namespace)
    count, node = 1, there["head"]
    while node.next is not None:
        count, node = count + 1, node.next
    assert count == 100_000
    assert node is there["cur"]


def test_b12_a_deep_chain_that_sleeps_at_its_end_is_named():
    code = "class Node:\n    def __init__(self, next): self.next = next\n"
    namespace = session(code, good=1)
    chain = Sleeps()
    for _ in range(5000):
        chain = namespace["Node"](chain)
    namespace["chain"] = chain
    assert "does not come to an end" in plan_of(namespace, limit_s=0.3)["chain"].reason
    there = moved(namespace, limit_s=0.3)
    assert there["good"] == 1
    assert "chain" not in there


def test_a_save_that_meets_what_its_plan_did_not_drops_it_and_reports():
    class Fickle:
        times = 0

        def __reduce__(self):
            Fickle.times += 1
            if Fickle.times == 2:
                raise ValueError("not now")
            return list, ()

    namespace = session(a=[1], fickle=Fickle(), b=2)
    assert plan_of(namespace)["fickle"].kind == "carried"
    stream = io.BytesIO()
    report = {r.name: r for r in kernel_state.save(stream, namespace=namespace)}
    assert report["fickle"].kind == "refused"
    assert "not now" in report["fickle"].reason
    assert report["b"].kind == "carried"


def test_the_persons_own_interrupt_ends_a_save():
    class Slow:
        def __reduce__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
            return list, ()

    with pytest.raises(KeyboardInterrupt):
        kernel_state.plan(namespace=session(slow=Slow()))


def test_the_persons_alarm_and_handlers_are_put_back():
    rang = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: rang.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        kernel_state.plan(namespace=session(a=1))
        assert rang.wait(5)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_running_thread_of_the_person_is_reported_with_what_it_uses():
    code = "import threading\ndef loop():\n    counter.append(1); stop.wait()\n"
    namespace = session(code, stop=threading.Event(), counter=[])
    thread = threading.Thread(target=namespace["loop"], name="worker", daemon=True)
    thread.start()
    try:
        record = plan_of(namespace)["(thread worker)"]
        assert record.kind == "refused"
        assert "counter, stop" in record.reason
        assert "(thread worker)" in {
            r.name for r in kernel_state.save(io.BytesIO(), namespace=namespace)
        }
    finally:
        namespace["stop"].set()
        thread.join(5)
    assert "(thread worker)" not in plan_of(namespace)


def test_a_registered_type_is_rebuilt_and_so_is_its_subclass():
    class Door:
        def __init__(self, number):
            self.number, self.socket = number, _held_lock()

    class FrontDoor(Door):
        pass

    namespace = session(door=Door(4), front=FrontDoor(5))
    assert plan_of(namespace)["door"].kind == "refused"
    kernel_state.register(Door, save=lambda d: d.number, load=str)
    plan = plan_of(namespace)
    assert plan["door"].kind == plan["front"].kind == "rebuilt"
    assert "Door" in plan["door"].reason
    assert moved(namespace)["front"] == "5"
    with pytest.raises(TypeError, match="two functions"):
        kernel_state.register(Door, save=None, load=str)


def test_plan_and_save_agree_on_sizes_and_kinds(tmp_path):
    np = pytest.importorskip("numpy")
    namespace = session(a=np.zeros(100_000), b=b"x" * 3_000_000, c="text", lock=_held_lock())
    plan = kernel_state.plan(namespace=namespace)
    assert kernel_state.save(tmp_path / "c", namespace=namespace) == plan
    assert plan[0].bytes == pytest.approx(800_000, abs=500)
    assert plan[1].bytes == pytest.approx(3_000_000, abs=100)
    assert [r.to_json()["kind"] for r in plan] == ["carried", "carried", "carried", "refused"]


def test_plan_without_a_session_says_what_to_do():
    with pytest.raises(RuntimeError, match="namespace=globals"):
        kernel_state.plan()
