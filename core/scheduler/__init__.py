"""Where workspaces go: pure functions of a snapshot of the cluster.

No I/O, no clock, no database, so a decision can be replayed, explained and tested
by properties. :func:`plan` is what admission, the flavor list and "what if" all use.
"""

from .model import Ask, HostRoom, Placement, Plan, Snapshot, Taken, Wait
from .planning import count_free, count_total, impossible, plan, waits_in_circle

__all__ = [
    "Ask",
    "HostRoom",
    "Placement",
    "Plan",
    "Snapshot",
    "Taken",
    "Wait",
    "count_free",
    "count_total",
    "impossible",
    "plan",
    "waits_in_circle",
]
