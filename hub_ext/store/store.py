"""Transactions: short, without network, and told to whoever waits for a change."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from devcluster.core.errors import NotFound, Stale, Unavailable
from devcluster.core.lifecycle import MoveKind, State, Wish, move
from devcluster.core.names import canonical_id, object_name, split_id
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from .engine import open_engine
from .models import Event, Garbage, Host, Lease, Move, Role, Workspace
from .schema import upgrade

#: The statuses of a move that is under way, and of one that is not over.
UNDER_WAY = ("running", "asking")
OPEN = ("queued", *UNDER_WAY)


class Store:
    """The database.

    Parameters
    ----------
    url
        ``sqlite:///FILE`` or ``postgresql+psycopg://...``. Its tables are brought up to
        date.
    clock
        Seconds since the epoch.
    """

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self.engine = open_engine(url)
        self._clock = clock
        #: Called with the ids of workspaces that a transaction changed, after it.
        self.on_change: Callable[[set[str]], None] = lambda _: None
        try:
            upgrade(self.engine)
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction; it is committed at the end of the block, or not at all.

        Raises
        ------
        Stale
            If another writer came in between; nothing was changed, so do it again.
        Unavailable
            If the database does not answer.
        """
        changed: set[str] = set()
        with Session(self.engine, expire_on_commit=False) as session:
            event.listen(session, "before_flush", lambda s, *_: self._touch(s, changed))
            try:
                yield Transaction(session, self._clock)
                session.commit()
            except StaleDataError as error:
                raise Stale("Another change of this workspace came first.") from error
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) in ("40001", "40P01"):
                    raise Stale("Another change came first.") from error
                raise Unavailable(f"The manager's database does not answer: {error.orig}") from None
        if changed:
            self.on_change(changed)

    def _touch(self, session: Session, changed: set[str]) -> None:
        """Let ``since`` of each workspace concerned rise, so that waiting clients see it."""
        for row in [*session.new, *session.dirty, *session.deleted]:
            if isinstance(row, Lease | Move):
                owner = session.get(Workspace, row.workspace)
            elif isinstance(row, Workspace) and row not in session.deleted:
                owner = row
            else:
                continue
            new = row in session.new or row in session.deleted
            if owner is None or owner.id in changed or not (new or session.is_modified(row)):
                continue
            owner.since = max(self._clock(), (owner.since or 0.0) + 2e-6)
            changed.add(owner.id)

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()


class Transaction:
    """What can be asked and changed within one transaction.

    Rows stay readable after it; a change made to one then goes nowhere.
    """

    def __init__(self, session: Session, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock

    # --- workspaces ---------------------------------------------------------------

    def find(self, workspace: str) -> Workspace | None:
        """Return a workspace, or None."""
        return self._session.get(Workspace, workspace)

    def workspace(self, workspace: str) -> Workspace:
        """Return a workspace.

        Raises
        ------
        NotFound
            If there is none of that id.
        """
        row = self.find(workspace)
        if row is None:
            raise NotFound(f"There is no workspace {workspace!r}.")
        return row

    def workspaces(self) -> list[Workspace]:
        """Return all workspaces, by id."""
        return list(self._session.scalars(select(Workspace).order_by(Workspace.id)))

    def create(self, workspace: str) -> Workspace:
        """Add a workspace that never ran."""
        user, server = split_id(canonical_id(workspace))
        row = Workspace(
            id=workspace,
            user=user,
            server=server,
            object=object_name(workspace),
            state=State.created,
            wish=Wish.running,
            epoch=0,
            route_revision=0,
            route_applied=0,
            reason="",
            since=self._clock(),
        )
        self._session.add(row)
        self._session.flush()
        return row

    def enter(self, row: Workspace, state: State, reason: str, cause: str) -> None:
        """Change a workspace's state, by the table alone, and write it into its story."""
        was = State(row.state)
        row.reason = reason
        if was is state:
            return
        row.state = move(was, state, f"{row.id}: {cause}; {reason}")
        self._session.add(
            Event(
                time=self._clock(),
                workspace=row.id,
                was=was,
                now=state,
                reason=reason,
                cause=cause,
            )
        )

    def events(self, workspace: str) -> list[Event]:
        """Return a workspace's story, oldest first."""
        query = select(Event).where(Event.workspace == workspace).order_by(Event.id)
        return list(self._session.scalars(query))

    # --- moves ---------------------------------------------------------------------

    def add_move(
        self,
        row: Workspace,
        kind: MoveKind,
        by: str,
        flavor: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Move:
        """Add a move that was asked for, at the end of the queue."""
        added = Move(
            id=uuid.uuid4().hex,
            workspace=row.id,
            kind=kind,
            flavor=flavor,
            options=options or {},
            status="queued",
            step_done=False,
            committed=False,
            steps=[],
            reason="",
            created=self._clock(),
            requested_by=by,
        )
        self._session.add(added)
        self._session.flush()
        return added

    def move(self, move_id: str) -> Move | None:
        """Return a move, or None."""
        return self._session.scalars(select(Move).where(Move.id == move_id)).one_or_none()

    def open_moves(self, workspace: str | None = None) -> list[Move]:
        """Return the moves that are not over, in the order of request."""
        query = select(Move).where(Move.status.in_(OPEN)).order_by(Move.number)
        if workspace is not None:
            query = query.where(Move.workspace == workspace)
        return list(self._session.scalars(query))

    def active_move(self, workspace: str) -> Move | None:
        """Return the move that is under way, if any: there is at most one."""
        query = select(Move).where(Move.workspace == workspace, Move.status.in_(UNDER_WAY))
        return self._session.scalars(query).one_or_none()

    def shown_move(self, workspace: str) -> Move | None:
        """Return what people see: the move under way, else the newest."""
        query = select(Move).where(Move.workspace == workspace).order_by(Move.number.desc())
        return self.active_move(workspace) or self._session.scalars(query.limit(1)).first()

    # --- leases ----------------------------------------------------------------------

    def lease(self, lease_id: str | None) -> Lease | None:
        """Return a lease, or None."""
        return self._session.get(Lease, lease_id) if lease_id else None

    def leases(self, workspace: str | None = None, host: str | None = None) -> list[Lease]:
        """Return leases, of one workspace or one host if named."""
        query = select(Lease).order_by(Lease.id)
        if workspace is not None:
            query = query.where(Lease.workspace == workspace)
        if host is not None:
            query = query.where(Lease.host == host)
        return list(self._session.scalars(query))

    def reserve(
        self, row: Workspace, host: str, flavor: dict[str, Any], gpus: list[dict[str, Any]]
    ) -> Lease:
        """Add the lease of a target."""
        added = Lease(
            id=uuid.uuid4().hex,
            workspace=row.id,
            host=host,
            flavor=flavor,
            gpus=gpus,
            role=Role.target,
            epoch=row.epoch + 1,
            missing=0,
        )
        self._session.add(added)
        self._session.flush()
        return added

    def delete(self, row: Lease | Garbage) -> None:
        """Delete a row whose thing is gone for certain."""
        self._session.delete(row)

    # --- hosts -------------------------------------------------------------------------

    def hosts(self) -> list[Host]:
        """Return all hosts that ever reported, by name."""
        return list(self._session.scalars(select(Host).order_by(Host.name)))

    def put_host(self, name: str, **facts: Any) -> None:
        """Write what a host told."""
        self._session.merge(Host(name=name, **facts))

    # --- garbage -------------------------------------------------------------------------

    def discard(self, workspace: str, capture: str, hosts: Iterable[str]) -> None:
        """Note that a capture on these hosts is to be deleted."""
        for host in sorted(set(hosts)):
            self._session.add(Garbage(workspace=workspace, host=host, capture=capture))

    def garbage(self, workspace: str | None = None, host: str | None = None) -> list[Garbage]:
        """Return what is to be deleted, of one workspace or on one host if named."""
        query = select(Garbage).order_by(Garbage.id)
        if workspace is not None:
            query = query.where(Garbage.workspace == workspace)
        if host is not None:
            query = query.where(Garbage.host == host)
        return list(self._session.scalars(query))
