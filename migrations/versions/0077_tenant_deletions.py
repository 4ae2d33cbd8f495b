"""Adds the deletions of tenants: who asked for one, and how far it is.

The row outlives its tenant, so it refers to none. Processes of the version before can use this schema; they
delete nothing.
"""

from alembic import op

revision = "0077"
down_revision = "0076"

UP = """
CREATE TABLE tenant_deletions (
    tenant_id     text PRIMARY KEY,
    requested_at  timestamptz NOT NULL,
    requested_by  text CHECK (length(requested_by) <= 200),
    deleted_runs  bigint NOT NULL DEFAULT 0 CHECK (deleted_runs >= 0),
    deleted_rows  bigint NOT NULL DEFAULT 0 CHECK (deleted_rows >= 0),   -- of all tables, runs among them
    finished_at   timestamptz CHECK (finished_at >= requested_at)
);
CREATE INDEX tenant_deletions_open ON tenant_deletions (requested_at) WHERE finished_at IS NULL;
"""

DOWN = "DROP TABLE tenant_deletions;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
