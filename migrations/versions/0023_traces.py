"""Adds how far the spans of runs and attempts were sent.

The table is new and empty until spans are sent, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0023"
down_revision = "0022"

UP = """
CREATE TABLE trace_place (
    singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    before     xid8 NOT NULL,
    open       xid8[] NOT NULL DEFAULT '{}',
    server     text NOT NULL,        -- whose numbers of transactions they are
    sent_at    timestamptz NOT NULL
)
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute("DROP TABLE trace_place")
