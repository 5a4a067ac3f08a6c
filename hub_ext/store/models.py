"""The tables. Portable SQL only: they are the same on SQLite and PostgreSQL."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from devcluster.core.lifecycle import MoveKind, State, Step, Wish
from sqlalchemy import JSON, Boolean, Double, ForeignKey, Index, Integer, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The base of all tables."""

    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        float: Double,
        dict[str, Any]: JSON(none_as_null=True),
        list[dict[str, Any]]: JSON(none_as_null=True),
        # Words, not database enums: a new state then needs no migration.
        State: String(20),
        Wish: String(20),
        MoveKind: String(20),
        Step: String(20),
    }


class Role(StrEnum):
    """What a lease is to its workspace."""

    target = "target"  # reserved, or being prepared
    owner = "owner"  # the workspace runs on it
    releasing = "releasing"  # given up; its hardware counts as taken until the agent says so


class Workspace(Base):
    """One workspace. Changed only under its ``revision``."""

    __tablename__ = "workspaces"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    user: Mapped[str] = mapped_column(String, index=True)
    server: Mapped[str] = mapped_column(String)
    object: Mapped[str] = mapped_column(String(63), unique=True)
    state: Mapped[str] = mapped_column(String(20))
    wish: Mapped[str] = mapped_column(String(20))
    flavor: Mapped[str | None] = mapped_column(String(63))
    lease_id: Mapped[str | None] = mapped_column(String(40))
    home_host: Mapped[str | None] = mapped_column(String)
    epoch: Mapped[int] = mapped_column(Integer, default=0)
    #: ``core.records.Launch``. Holds a hub token: in no view, in no log.
    launch: Mapped[dict[str, Any] | None]
    #: While deflated: ``{"id": ..., "host": ..., "kernels": [KernelPlan, ...]}``.
    capture: Mapped[dict[str, Any] | None]
    #: ``core.records.Route`` as last decided, in effect or about to be.
    route: Mapped[dict[str, Any] | None]
    route_revision: Mapped[int] = mapped_column(Integer, default=0)
    #: The revision that the Net Switch is known to have taken.
    route_applied: Mapped[int] = mapped_column(Integer, default=0)
    reason: Mapped[str] = mapped_column(String, default="")
    #: When this, its move or its leases changed last; rises with each change.
    since: Mapped[float]
    revision: Mapped[int] = mapped_column(Integer)

    __mapper_args__ = {"version_id_col": revision}  # noqa: RUF012


class Lease(Base):
    """One placement of a workspace on a host. Hardware in use is derived from these alone."""

    __tablename__ = "leases"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    workspace: Mapped[str] = mapped_column(ForeignKey("workspaces.id"), index=True)
    host: Mapped[str] = mapped_column(String, index=True)
    flavor: Mapped[dict[str, Any]]
    gpus: Mapped[list[dict[str, Any]]]
    role: Mapped[str] = mapped_column(String(20))
    epoch: Mapped[int] = mapped_column(Integer)
    #: Where the Net Switch reaches the server, once the agent has said it.
    url: Mapped[str | None] = mapped_column(String)
    #: In how many reports in a row its host did not know it.
    missing: Mapped[int] = mapped_column(Integer, default=0)


class Move(Base):
    """One way of a workspace from one resting state to another, asked for or under way."""

    __tablename__ = "moves"
    __table_args__ = (Index("moves_by_workspace", "workspace", "number"),)

    #: The order of request.
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    #: What clients know it by; also the id of the capture that it makes.
    id: Mapped[str] = mapped_column(String(40), unique=True)
    workspace: Mapped[str] = mapped_column(ForeignKey("workspaces.id"))
    kind: Mapped[str] = mapped_column(String(20))
    flavor: Mapped[str | None] = mapped_column(String(63))
    #: on_busy, on_loss; accepted losses; hosts to avoid; rounds of check.
    options: Mapped[dict[str, Any]]
    #: queued, running, asking, done, failed, cancelled
    status: Mapped[str] = mapped_column(String(20), index=True)
    step: Mapped[str | None] = mapped_column(String(20))
    step_done: Mapped[bool] = mapped_column(Boolean, default=False)
    committed: Mapped[bool] = mapped_column(Boolean, default=False)
    #: Leases; no foreign keys, since a lease's row ends before its move's.
    source: Mapped[str | None] = mapped_column(String(40))
    target: Mapped[str | None] = mapped_column(String(40))
    steps: Mapped[list[dict[str, Any]]]
    question: Mapped[dict[str, Any] | None]
    asked: Mapped[float | None]
    answer: Mapped[str | None] = mapped_column(String(20))
    plan: Mapped[dict[str, Any] | None]
    #: ``core.records.CaptureReport``
    capture: Mapped[dict[str, Any] | None]
    #: Set when it shall end before commit: the status it will end with.
    undo: Mapped[str | None] = mapped_column(String(20))
    reason: Mapped[str] = mapped_column(String, default="")
    created: Mapped[float]
    ended: Mapped[float | None]
    pause_s: Mapped[float | None]
    requested_by: Mapped[str] = mapped_column(String)


class Event(Base):
    """One change of state: the story of a workspace."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    time: Mapped[float]
    workspace: Mapped[str] = mapped_column(String, index=True)
    was: Mapped[str] = mapped_column(String(20))
    now: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str] = mapped_column(String)
    cause: Mapped[str] = mapped_column(String)


class Host(Base):
    """A host, as its agent last told."""

    __tablename__ = "hosts"

    name: Mapped[str] = mapped_column(String, primary_key=True)
    url: Mapped[str] = mapped_column(String)
    boot: Mapped[str] = mapped_column(String)
    sequence: Mapped[int] = mapped_column(Integer)
    report: Mapped[dict[str, Any]]
    last_seen: Mapped[float]


class Garbage(Base):
    """A capture that nobody needs any more, until its host has deleted it."""

    __tablename__ = "garbage"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    workspace: Mapped[str] = mapped_column(String, index=True)
    host: Mapped[str] = mapped_column(String)
    capture: Mapped[str] = mapped_column(String(40))
