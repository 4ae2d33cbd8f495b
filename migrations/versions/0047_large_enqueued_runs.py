"""Tells enqueued runs apart whose inputs go to storage: they are started beside the others.

Processes of the previous version can use this schema; they start both kinds together.
"""

from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    # Of the text, because the row must be judged without reading it: what is a little smaller as canonical
    # JSON counts as large, too. The number is size_limits.INLINE_BYTES.
    op.execute(
        "ALTER TABLE enqueued_runs ADD COLUMN is_large boolean NOT NULL"
        " GENERATED ALWAYS AS (coalesce(octet_length(CAST(input AS text)) > 32768, false)) STORED"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE enqueued_runs DROP COLUMN is_large")
