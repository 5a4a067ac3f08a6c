"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("was", sa.String(length=20), nullable=False),
        sa.Column("now", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_events_workspace"), "events", ["workspace"], unique=False)
    op.create_table(
        "garbage",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("capture", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_garbage_workspace"), "garbage", ["workspace"], unique=False)
    op.create_table(
        "hosts",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("boot", sa.String(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "workspaces",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("object", sa.String(length=63), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("wish", sa.String(length=20), nullable=False),
        sa.Column("flavor", sa.String(length=63), nullable=True),
        sa.Column("lease_id", sa.String(length=40), nullable=True),
        sa.Column("home_host", sa.String(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("launch", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("capture", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("route", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("route_revision", sa.Integer(), nullable=False),
        sa.Column("route_applied", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("object"),
    )
    op.create_index(op.f("ix_workspaces_user"), "workspaces", ["user"], unique=False)
    op.create_table(
        "leases",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("flavor", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("gpus", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace"],
            ["workspaces.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_leases_host"), "leases", ["host"], unique=False)
    op.create_index(op.f("ix_leases_workspace"), "leases", ["workspace"], unique=False)
    op.create_table(
        "moves",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("flavor", sa.String(length=63), nullable=True),
        sa.Column("options", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("step", sa.String(length=20), nullable=True),
        sa.Column("step_done", sa.Boolean(), nullable=False),
        sa.Column("committed", sa.Boolean(), nullable=False),
        sa.Column("source", sa.String(length=40), nullable=True),
        sa.Column("target", sa.String(length=40), nullable=True),
        sa.Column("steps", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("question", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("asked", sa.Double(), nullable=True),
        sa.Column("answer", sa.String(length=20), nullable=True),
        sa.Column("plan", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("capture", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("undo", sa.String(length=20), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("pause_s", sa.Double(), nullable=True),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace"],
            ["workspaces.id"],
        ),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index(op.f("ix_moves_status"), "moves", ["status"], unique=False)
    op.create_index("moves_by_workspace", "moves", ["workspace", "number"], unique=False)


def downgrade() -> None:
    op.drop_index("moves_by_workspace", table_name="moves")
    op.drop_index(op.f("ix_moves_status"), table_name="moves")
    op.drop_table("moves")
    op.drop_index(op.f("ix_leases_workspace"), table_name="leases")
    op.drop_index(op.f("ix_leases_host"), table_name="leases")
    op.drop_table("leases")
    op.drop_index(op.f("ix_workspaces_user"), table_name="workspaces")
    op.drop_table("workspaces")
    op.drop_table("hosts")
    op.drop_index(op.f("ix_garbage_workspace"), table_name="garbage")
    op.drop_table("garbage")
    op.drop_index(op.f("ix_events_workspace"), table_name="events")
    op.drop_table("events")
