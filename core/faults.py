"""Named fault points, so that tests break a chosen step instead of hoping for timing.

A process looks for faults only if ``DEVCLUSTER_FAULTS`` names a folder. A file in
it named like a point (``manager.capture.recorded``) holds the action:

``raise TEXT``
    raise :class:`~devcluster.core.errors.StepFailed` with that text
``kill``
    end this process at once with SIGKILL, as a power cut would
``hang``
    sleep for an hour, as a machine that answers no more would

Reaching a point removes its file, so a fault happens once.
"""

from __future__ import annotations

import os
import signal
import time

from .errors import StepFailed

VARIABLE = "DEVCLUSTER_FAULTS"


def reach(point: str) -> None:
    """Pass a fault point; do what the test planted there, if anything."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    path = os.path.join(folder, point)
    try:
        with open(path, encoding="utf-8") as file:
            action = file.read().strip()
        os.unlink(path)  # whoever removes it owns the fault
    except FileNotFoundError:
        return
    word, _, text = action.partition(" ")
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "hang":
        time.sleep(3600)
    elif word == "raise":
        raise StepFailed(text or f"The fault point {point} was asked to fail.")
    else:
        raise ValueError(f"{path} asks for {word!r}; allowed are raise, kill, hang")
