"""Adds named views: filters of a screen that a tenant shares.

The table is new, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0028"
down_revision = "0027"

UP = """
-- Filters of a screen of the dashboard, under a name, for all who may enter the tenant.
CREATE TABLE views (
    id          uuid PRIMARY KEY,
    tenant_id   text NOT NULL,
    screen      text NOT NULL CHECK (length(screen) <= 40),
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    query       text NOT NULL CHECK (length(query) BETWEEN 1 AND 2000),  -- of the screen's address
    saved_by    text NOT NULL,
    saved_at    timestamptz NOT NULL,
    UNIQUE (tenant_id, screen, name)
);
"""

DOWN = "DROP TABLE views;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
