"""What must hold in the database at every moment; tests ask after each of them."""

from __future__ import annotations

from devcluster.core.lifecycle import MOVING, MoveKind, State

from .models import Role
from .store import UNDER_WAY, Store

_MOVING_STATES = frozenset(MOVING.values())


def check_consistency(store: Store) -> list[str]:
    """Return what is wrong, as sentences; empty if all is well."""
    wrong: list[str] = []
    with store.transaction() as tx:
        rows = {row.id: row for row in tx.workspaces()}
        leases = tx.leases()
        moves = tx.open_moves()
    holders: dict[str, set[str]] = {}
    for lease in leases:
        for gpu in lease.gpus:
            holders.setdefault(gpu["uuid"], set()).add(lease.workspace)
    wrong += [f"GPU {g} is in {sorted(w)}" for g, w in holders.items() if len(w) > 1]
    for row in rows.values():
        own = [x for x in leases if x.workspace == row.id]
        owners = [x for x in own if x.role == Role.owner]
        targets = [x for x in own if x.role == Role.target]
        active = [m for m in moves if m.workspace == row.id and m.status in UNDER_WAY]
        if [x.id for x in owners] != ([row.lease_id] if row.lease_id else []):
            wrong.append(f"{row.id} has lease {row.lease_id}, owners {[x.id for x in owners]}")
        if row.state == State.running and not row.lease_id:
            wrong.append(f"{row.id} runs on nothing")
        if (
            row.state in (State.created, State.deflated, State.stopped, State.failed)
            and row.lease_id
        ):
            wrong.append(f"{row.id} is {row.state} with the lease {row.lease_id}")
        if row.state == State.deflated and not row.capture:
            wrong.append(f"{row.id} is deflated without a capture")
        if len(active) > 1:
            wrong.append(f"{row.id} has {len(active)} moves under way")
        for move in active:
            if row.state != MOVING[MoveKind(move.kind)]:
                wrong.append(f"{row.id} is {row.state} during {move.kind}")
        if row.state in _MOVING_STATES and not [m for m in moves if m.workspace == row.id]:
            wrong.append(f"{row.id} is {row.state} without a move")
        known = {m.target for m in active}
        wrong += [
            f"the target {x.id} of {row.id} is nobody's" for x in targets if x.id not in known
        ]
    return wrong
