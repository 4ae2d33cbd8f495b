"""Adds how long a run was over before it was reopened, which its duration leaves out.

Processes of the previous version can use this schema: they leave the new column at 0.
"""

from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.execute("ALTER TABLE runs ADD COLUMN over_ms bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE runs DROP COLUMN over_ms")
