"""Adds the time limit of a step's own to its task runs.

Processes of the version before leave it NULL: the time limit of the task counts.
"""

from alembic import op

revision = "0052"
down_revision = "0051"

UP = """
-- The limit of one attempt (ms), if the step has one of its own; else that of its task counts.
ALTER TABLE task_runs ADD COLUMN timeout_ms bigint;
"""

DOWN = """
ALTER TABLE task_runs DROP COLUMN timeout_ms;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
