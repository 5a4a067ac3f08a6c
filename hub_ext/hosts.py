"""What is known of hosts: their last account, and how long ago they were heard from.

Three states with different meanings: a *fresh* host takes work; a *suspect* one takes
none but keeps its sessions and routes; a *lost* one has been silent for so long that
people are told. None of them means "stopped": silence tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from devcluster.core.errors import Unavailable
from devcluster.core.records import HostReport
from devcluster.core.scheduler import HostRoom

from .store import Store

Freshness = Literal["fresh", "suspect", "lost"]

#: A heartbeat that tells nothing new is written down this often, in seconds.
_WRITE_EVERY_S = 30.0


class HostBook:
    """The hosts, in memory and in the store.

    Parameters
    ----------
    suspect_after_s, lost_after_s
        Seconds of silence.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        suspect_after_s: float = 15.0,
        lost_after_s: float = 60.0,
    ) -> None:
        self._store, self._clock = store, clock
        self._suspect_after_s, self._lost_after_s = suspect_after_s, lost_after_s
        self._reports: dict[str, HostReport] = {}
        self._seen: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._former_boots: dict[str, set[str]] = {}
        with store.transaction() as tx:
            for row in tx.hosts():
                self._reports[row.name] = HostReport.model_validate(row.report)
                self._seen[row.name] = row.last_seen

    def accept(self, report: HostReport) -> bool:
        """Take in a report; False if it is older than what is known, and so ignored."""
        known = self._reports.get(report.host)
        former = self._former_boots.setdefault(report.host, set())
        if report.boot in former:
            return False
        if known is not None and known.boot == report.boot:
            if report.sequence <= known.sequence:
                return False
        elif known is not None:
            former.add(known.boot)
        now = self._clock()
        self._reports[report.host], self._seen[report.host] = report, now
        same = (
            known is not None and known.model_copy(update={"sequence": report.sequence}) == report
        )
        if not same or now - self._written.get(report.host, 0.0) >= _WRITE_EVERY_S:
            with self._store.transaction() as tx:
                tx.put_host(
                    report.host,
                    url=report.url,
                    boot=report.boot,
                    sequence=report.sequence,
                    report=report.model_dump(mode="json"),
                    last_seen=now,
                )
            self._written[report.host] = now
        return True

    def reports(self) -> list[HostReport]:
        """Return the last account of each host, by name."""
        return [self._reports[name] for name in sorted(self._reports)]

    def report(self, name: str) -> HostReport | None:
        """Return the last account of a host, if it ever gave one."""
        return self._reports.get(name)

    def last_seen(self, name: str) -> float:
        """Return when a host was heard from last."""
        return self._seen[name]

    def freshness(self, name: str) -> Freshness:
        """Return how much a host's silence means."""
        silence = self._clock() - self._seen.get(name, float("-inf"))
        if silence >= self._lost_after_s:
            return "lost"
        return "suspect" if silence >= self._suspect_after_s else "fresh"

    def url(self, name: str) -> str:
        """Return the address of a host's agent.

        Raises
        ------
        Unavailable
            If it never reported.
        """
        report = self._reports.get(name)
        if report is None:
            raise Unavailable(f"The host {name} has not reported yet.")
        return report.url

    def rooms(self) -> tuple[HostRoom, ...]:
        """Return the hosts as the scheduler looks at them."""
        return tuple(
            HostRoom(
                name=r.host,
                cpus=r.cpus,
                memory=r.memory,
                gpus=tuple(r.gpus),
                answers=self.freshness(r.host) == "fresh",
                lost=self.freshness(r.host) == "lost",
                trouble=r.trouble,
            )
            for r in self.reports()
        )
