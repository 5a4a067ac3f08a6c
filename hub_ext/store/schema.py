"""Bringing the database to the tables of this release."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

_MIGRATIONS = Path(__file__).parent / "migrations"


def config() -> Config:
    """Return Alembic's configuration; the migrations ship in the package."""
    settings = Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    return settings


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the migrations that the database lacks, in one transaction."""
    settings = config()
    with engine.begin() as connection:
        if revision == "head" and _present(connection) == newest():
            return
        settings.attributes["connection"] = connection
        command.upgrade(settings, revision)


def _present(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


@cache
def newest() -> str:
    """Return the revision that this release needs."""
    return ScriptDirectory.from_config(config()).get_current_head() or ""
