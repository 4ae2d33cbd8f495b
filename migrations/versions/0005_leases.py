"""Adds leases, and what the chores of the tick skipped because another transaction held it.

Every new column has a default or may be NULL, so processes of the previous version can use this schema. Those
processes hold an advisory lock while they tick; a tick beside theirs does no harm.
"""

from alembic import op

revision = "0005"
down_revision = "0004"

LEASES = """
CREATE TABLE leases (
    name     text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
    number   bigint NOT NULL CHECK (number >= 1),   -- how often it was taken
    holder   text NOT NULL CHECK (length(holder) <= 1000),
    ends_at  timestamptz NOT NULL
);
"""

CHORES = """
ALTER TABLE tick_chores
    ADD COLUMN skipped        bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),   -- items, by the last tick
    ADD COLUMN skipped_since  timestamptz;   -- every tick since then skipped some
"""

DOWN = """
ALTER TABLE tick_chores DROP COLUMN skipped, DROP COLUMN skipped_since;
DROP TABLE leases;
"""


def upgrade() -> None:
    for part in (LEASES, CHORES):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
