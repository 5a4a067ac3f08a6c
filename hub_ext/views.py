"""What clients see of the tables: pure, and without any secret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from devcluster.core.lifecycle import MoveKind, State, Wish
from devcluster.core.names import DEFAULT
from devcluster.core.records import (
    EventView,
    FlavorView,
    HostView,
    Launch,
    MoveView,
    Plan,
    Question,
    Route,
    StepReport,
    WorkspaceView,
)
from devcluster.core.resources import Flavor, Gpu
from devcluster.core.scheduler import count_free, count_total

from .admission import Admission
from .hosts import HostBook
from .store import Event, Move, Role, Transaction, Workspace


def move_view(move: Move, place: int | None = None) -> MoveView:
    """Return a move as clients see it."""
    return MoveView(
        id=move.id,
        workspace=move.workspace,
        kind=MoveKind(move.kind),
        flavor=move.flavor,
        status=cast(Any, move.status),
        place=place,
        steps=[StepReport.model_validate(s) for s in move.steps],
        question=Question.model_validate(move.question) if move.question else None,
        reason=move.reason,
        created=move.created,
        ended=move.ended,
        pause_s=move.pause_s,
        plan=Plan.model_validate(move.plan) if move.plan else None,
    )


def workspace_view(
    tx: Transaction, row: Workspace, places: dict[str, int] | None = None
) -> WorkspaceView:
    """Return a workspace as clients see it."""
    lease = tx.lease(row.lease_id)
    move = tx.shown_move(row.id)
    launch = Launch.model_validate(row.launch) if row.launch else None
    return WorkspaceView(
        id=row.id,
        user=row.user,
        name=row.server or DEFAULT,
        state=State(row.state),
        wish=Wish(row.wish),
        flavor=row.flavor,
        host=lease.host if lease else None,
        gpus=[Gpu.model_validate(g) for g in lease.gpus] if lease else [],
        reason=row.reason,
        prefix=launch.prefix if launch else None,
        move=move_view(move, (places or {}).get(move.id)) if move else None,
        since=row.since,
    )


def event_view(event: Event) -> EventView:
    """Return one line of a story."""
    return EventView(
        id=event.id,
        time=event.time,
        workspace=event.workspace,
        was=State(event.was),
        now=State(event.now),
        reason=event.reason,
        cause=event.cause,
    )


def flavor_views(
    tx: Transaction, flavors: Sequence[Flavor], admission: Admission
) -> list[FlavorView]:
    """Return the flavors with how many of each could start now, behind those who wait."""
    snapshot, waiting = admission.snapshot(tx), admission.queue(tx).asks
    return [
        FlavorView(
            flavor=f,
            free=count_free(snapshot, f, waiting),
            total=count_total(snapshot, f),
        )
        for f in flavors
    ]


def host_views(tx: Transaction, book: HostBook, may_see: Callable[[str], bool]) -> list[HostView]:
    """Return the hosts; of workspaces only those that the caller may see."""
    leases = tx.leases()
    return [
        HostView(
            name=r.host,
            state=book.freshness(r.host),
            cpus=r.cpus,
            memory=r.memory,
            gpus=r.gpus,
            taken=sorted({g["uuid"] for x in leases if x.host == r.host for g in x.gpus}),
            workspaces=sorted(
                {
                    x.workspace
                    for x in leases
                    if x.host == r.host and x.role == Role.owner and may_see(x.workspace)
                }
            ),
            trouble=r.trouble,
            last_seen=book.last_seen(r.host),
            runtime=r.runtime,
        )
        for r in book.reports()
    ]


def routes(tx: Transaction) -> list[Route]:
    """Return the whole routing table, as last decided."""
    return [Route.model_validate(row.route) for row in tx.workspaces() if row.route]
