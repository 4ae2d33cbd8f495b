"""Adds what a delivery of a webhook said, so that another content with its id is not taken for it.

Processes of the previous version can use this schema: the new columns may be NULL, or have a default.
"""

from alembic import op

revision = "0046"
down_revision = "0034"


def upgrade() -> None:
    # The SHA-256 of the canonical JSON; NULL: it came before this migration, or its id is part of it.
    op.execute("ALTER TABLE trigger_fires ADD COLUMN body_hash text")
    op.execute("ALTER TABLE triggers ADD COLUMN reused_ids bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE trigger_fires DROP COLUMN body_hash")
    op.execute("ALTER TABLE triggers DROP COLUMN reused_ids")
