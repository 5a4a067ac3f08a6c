"""What an agent's account means for the workspaces on its host."""

from __future__ import annotations

from devcluster.core.lifecycle import State
from devcluster.core.records import HeartbeatReply, HostReport, LeasePhase, LeaseReport, RouteMode

from .hosts import HostBook
from .parts import Parts
from .reconciler import Reconciler
from .store import Lease, Role, Transaction, Workspace
from .undoing import give_up

#: In how many reports in a row a lease must be unknown before its host is believed.
GRACE = 2


class Heartbeats:
    """Takes in reports."""

    def __init__(self, parts: Parts, hosts: HostBook, reconciler: Reconciler) -> None:
        self._parts, self._hosts, self._reconciler = parts, hosts, reconciler

    def receive(self, report: HostReport) -> HeartbeatReply:
        """Take in one report; answer which leases the host should not have.

        An old report changes nothing. Silence and errors never get here: only a
        host that speaks for itself can say that something ended.
        """
        if not self._hosts.accept(report):
            return HeartbeatReply()
        told = {x.lease: x for x in report.leases}
        ended: list[str] = []
        news: set[str] = set()
        with self._parts.store.transaction() as tx:
            leases = {x.id: x for x in tx.leases(host=report.host)}
            for lease in leases.values():
                row = tx.workspace(lease.workspace)
                if lease.role == Role.releasing:
                    news.add(row.id)
                elif lease.role == Role.owner and self._look_at(tx, row, lease, told.get(lease.id)):
                    ended.append(row.id)
            remove = [x.lease for x in report.leases if self._is_given_up(tx, x, leases)]
            news |= {x.workspace for x in leases.values() if _is_frozen(told.get(x.id))}
            news |= {x.workspace for x in tx.garbage(host=report.host)}
        for workspace in ended:  # in effect as soon as the reconciler gets to it
            self._parts.write_route(
                workspace, RouteMode.closed, None, "The server has ended. Start it again."
            )
        for workspace in {*news, *ended}:
            self._reconciler.wake(workspace)
        self._reconciler.admit_waiting()  # this host may be what somebody waits for
        return HeartbeatReply(remove=remove)

    def _look_at(
        self, tx: Transaction, row: Workspace, lease: Lease, told: LeaseReport | None
    ) -> bool:
        """Tell whether a running workspace has ended, and write that down."""
        if row.state != State.running or tx.active_move(row.id) is not None:
            return False  # its move finds out by itself
        if told is None:
            lease.missing += 1
            if lease.missing < GRACE:
                return False
            reason = f"The host {lease.host} does not have the server any more."
        elif told.phase is LeasePhase.exited:
            reason = told.reason or f"The server on {lease.host} has ended."
        else:
            if lease.missing:
                lease.missing = 0
            return False
        for move in tx.open_moves(row.id):
            if move.kind in ("switch", "deflate"):
                self._parts.admission.end(tx, row, move, "failed", reason)
        give_up(tx, row, reason, f"report of {lease.host}")
        return True

    @staticmethod
    def _is_given_up(tx: Transaction, told: LeaseReport, known: dict[str, Lease]) -> bool:
        lease = known.get(told.lease)
        if lease is not None:
            return lease.role == Role.releasing
        # A workspace that the database has never heard of may be one that the database
        # has lost: nothing is removed on so little.
        row = tx.find(told.workspace)
        return row is not None and told.epoch <= row.epoch and told.lease != row.lease_id


def _is_frozen(told: LeaseReport | None) -> bool:
    return told is not None and told.phase is LeasePhase.frozen
