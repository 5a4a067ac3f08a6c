"""Alembic's entry: runs the migrations on the connection that the store gives it."""

from alembic import context
from devcluster.hub_ext.store.models import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
