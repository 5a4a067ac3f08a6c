"""Opening the database: durability, and one way for both kinds of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from devcluster.core.errors import BadRequest
from sqlalchemy import Engine, create_engine, event, make_url

#: Seconds to wait for a manager that is just ending to let the file go.
_BUSY_S = 15


def open_engine(url: str) -> Engine:
    """Return an engine whose transactions are serialisable and durable.

    A SQLite file is created for its owner alone: it holds hub tokens.

    Raises
    ------
    BadRequest
        If it is no database URL, or one of another kind.
    """
    try:
        parsed = make_url(url)
    except Exception as error:
        raise BadRequest(
            f"{url!r} is no database URL. Write sqlite:///FILE or postgresql+psycopg://HOST/NAME."
        ) from error
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed.database, url)
    if parsed.get_backend_name() != "postgresql":
        raise BadRequest(
            f"The database {parsed.get_backend_name()!r} is not supported; "
            "allowed are sqlite and postgresql."
        )
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return create_engine(parsed, isolation_level="SERIALIZABLE", pool_pre_ping=True)


def _open_sqlite(database: str | None, url: str) -> Engine:
    if not database or database == ":memory:":
        raise BadRequest("The manager's state must outlive it: give sqlite:/// a file.")
    path = Path(database)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
    engine = create_engine(url, connect_args={"timeout": _BUSY_S})

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        # The write lock from the start: what was read is still true when we write.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
