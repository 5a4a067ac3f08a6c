"""The state of an IPython kernel, saved and loaded: a library of its own.

Try it in plain Jupyter. In one notebook::

    import numpy as np
    from devcluster import kernel_state

    data = np.arange(1e8)
    part = data[10:20]            # a view of the same memory
    log = open("log.txt", "a")    # cannot be carried

    for record in kernel_state.plan():
        print(record.name, record.kind, record.bytes, record.reason, record.remedy)

    kernel_state.save("session.capture")

Restart the kernel, or open another notebook, and::

    from devcluster import kernel_state
    kernel_state.load("session.capture")

``data`` and ``part`` are there and still share their memory; ``log`` was named by the plan
as refused, with what to do about it, and so it is not there.

What is promised: what a plan calls *carried* comes over, as one graph with the variables
that share it; what cannot be carried is refused by the name of its variable, and never
keeps the rest from coming over; neither ``plan`` nor a failed ``load`` changes the session.

A type that is refused can be taught with :func:`register`. Captures are pickles: load only
your own. :func:`read_records` reads a capture's list of variables without unpickling it.
"""

from .api import load, plan, save
from .parts.history import reopen_history
from .parts.imports import modules, warm
from .parts.kernel import record_baseline
from .pickler import register
from .records import CaptureError, Record
from .seal import Seal
from .stream.reader import read_records

__all__ = [
    "CaptureError",
    "Record",
    "Seal",
    "load",
    "modules",
    "plan",
    "read_records",
    "record_baseline",
    "register",
    "reopen_history",
    "save",
    "warm",
]
