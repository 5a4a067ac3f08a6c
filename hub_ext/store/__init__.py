"""The manager's memory: the only place with SQL."""

from .models import Event, Garbage, Host, Lease, Move, Role, Workspace
from .store import Store, Transaction

__all__ = [
    "Event",
    "Garbage",
    "Host",
    "Lease",
    "Move",
    "Role",
    "Store",
    "Transaction",
    "Workspace",
]
