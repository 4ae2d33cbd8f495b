"""Adds the transaction that wrote each event, so that a reader finds new events without a gap or a double,
and when months of history were dropped.

The new column has a default, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

# NULL: written before this migration. Setting the default in its own statement rewrites no row.
UP = """
ALTER TABLE events ADD COLUMN txid xid8;
ALTER TABLE events ALTER COLUMN txid SET DEFAULT pg_current_xact_id();
-- Grows at its end only. Readers ask it for all that was written since.
CREATE INDEX events_txid ON events (txid) WHERE txid IS NOT NULL;

-- Whoever has not read the events of a month when it is dropped has missed them.
CREATE TABLE dropped_months (
    month       text PRIMARY KEY CHECK (length(month) <= 20),
    dropped_at  timestamptz NOT NULL
);
"""

DOWN = """
DROP TABLE dropped_months;
ALTER TABLE events DROP COLUMN txid;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
