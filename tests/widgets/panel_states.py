"""The states that a workspace can be in, as a stub of the manager tells them."""

from __future__ import annotations

import time
from typing import Any

from devcluster.core.lifecycle import MoveKind, State
from devcluster.core.records import (
    FlavorView,
    MoveView,
    Question,
)
from devcluster.core.resources import Flavor, Gpu

from tests.support.stub_manager import StubManager, move, step

ME = "alice/default"
GIB = 2**30


def _flavor(name: str, title: str, model: str | None, gpus: int, cpus: int) -> Flavor:
    return Flavor(
        name=name, title=title, gpu_model=model, gpus=gpus, cpus=cpus, memory=cpus * 8 * GIB
    )


FLAVORS = [
    FlavorView(flavor=_flavor("cpu", "CPU", None, 0, 2), free=6, total=8),
    FlavorView(flavor=_flavor("1xV100", "1 × V100", "V100", 1, 4), free=2, total=2),
    FlavorView(flavor=_flavor("1xA100", "1 × A100", "A100", 1, 8), free=1, total=2),
    FlavorView(flavor=_flavor("2xA100", "2 × A100", "A100", 2, 16), free=0, total=1),
]
A100 = Gpu(uuid="GPU-1", model="A100", memory=80 * GIB)


def idle(stub: StubManager) -> None:
    stub.set(ME, state=State.running, flavor="cpu", host="cpu-1", gpus=[], move=None, reason="")


def steps_of(*names: str, active: bool = False) -> list[Any]:
    began = time.time() - 4.0
    took = {"prepare": 2.4, "check": 0.1, "park": 0.05, "capture": 0.3, "send": 0.2, "restore": 0.3}
    steps = []
    for name in names:
        ended = began + took.get(name, 0.1)
        steps.append(step(name, began, ended))
        began = ended
    if active:
        steps[-1] = step(names[-1], steps[-1].began, None)
    return steps


def asked(status: str, kind: MoveKind = MoveKind.switch, **fields: Any) -> MoveView:
    now = time.time()
    ended = now if status in ("done", "failed", "cancelled") else None
    values = {"flavor": "1xA100", "created": now - 4.0, "ended": ended} | fields
    return move(status, kind, **values)


def switching(stub: StubManager) -> None:
    steps = steps_of("prepare", "check", "park", "capture", active=True)
    stub.set(ME, state=State.switching, move=asked("running", steps=steps))


def queued(stub: StubManager) -> None:
    reason = "waits until bob/default or carol/big gives a GPU back."
    stub.set(ME, move=asked("queued", flavor="2xA100", place=2, reason=reason))


def asking(stub: StubManager) -> None:
    question = Question(
        kind="loss",
        text="This would not survive the switch; everything else does. Go on?",
        items=[
            "lines: an open generator cannot be carried. Make it again after the switch.",
            "log: the file 'train.log' is open for writing. Close it first.",
        ],
        choices=["accept", "cancel"],
    )
    steps = steps_of("prepare", "check")
    stub.set(ME, state=State.switching, move=asked("asking", steps=steps, question=question))


def busy(stub: StubManager) -> None:
    question = Question(
        kind="busy",
        text="A cell is running in train.ipynb. Wait for it to end, interrupt it, or cancel?",
        items=["train.ipynb"],
        choices=["wait", "interrupt", "cancel"],
    )
    steps = steps_of("prepare", "check")
    stub.set(ME, state=State.switching, move=asked("asking", steps=steps, question=question))


def deflated(stub: StubManager) -> None:
    steps = steps_of("check", "park", "capture", "commit", "reroute", "release")
    done = asked("done", MoveKind.deflate, flavor=None, steps=steps)
    stub.set(ME, state=State.deflated, flavor="1xA100", host=None, move=done)


def failed(stub: StubManager) -> None:
    steps = steps_of("prepare", "check", "park", "capture", "send")
    why = "the agent of a100-1 stopped answering while it fetched the capture."
    stub.set(ME, state=State.running, move=asked("failed", steps=steps, reason=why))


def moved(stub: StubManager) -> None:
    names = ("prepare", "check", "park", "capture", "send", "restore", "commit", "reroute")
    done = asked("done", steps=steps_of(*names, "release"), pause_s=0.84)
    stub.set(ME, state=State.running, flavor="1xA100", host="a100-1", gpus=[A100], move=done)
