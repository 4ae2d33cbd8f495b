"""Adds the column of tasks that says that a run is paused, not failed, when a step has no attempt left.

Processes of the version before can use this schema: they leave the column as it is, and let such a step fail.
"""

from alembic import op

revision = "0062"
down_revision = "0061"

UP = """
ALTER TABLE tasks
    ADD COLUMN on_exhausted text CHECK (on_exhausted = 'pause');     -- NULL: the step fails
"""

DOWN = "ALTER TABLE tasks DROP COLUMN on_exhausted;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
