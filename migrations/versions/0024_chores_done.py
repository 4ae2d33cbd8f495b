"""Adds how much each chore of the tick has ever done, for metrics.

The column has a default, so processes of the previous version can use this schema; what they do is not added.
"""

from alembic import op

revision = "0024"
down_revision = "0023"

UP = "ALTER TABLE tick_chores ADD COLUMN done bigint NOT NULL DEFAULT 0 CHECK (done >= 0)"
DOWN = "ALTER TABLE tick_chores DROP COLUMN done"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
