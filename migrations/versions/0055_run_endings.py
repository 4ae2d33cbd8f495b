"""Adds what a run still does when all its steps have ended.

Processes of the version before can use this schema: the column is NULL for every run of a pipeline that they
can read.
"""

from alembic import op

revision = "0055"
down_revision = "0054"


def upgrade() -> None:
    op.execute("ALTER TABLE runs ADD COLUMN ending jsonb")


def downgrade() -> None:
    op.execute("ALTER TABLE runs DROP COLUMN ending")
