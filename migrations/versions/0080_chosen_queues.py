"""Gives runs and task runs a column for the queue that a trigger or a step has chosen in place of the task's.

Processes of the version before can use this schema: they leave the columns NULL, which is the task's own
queue. A task that changes its queue while they tick would take task runs with a chosen queue along.
"""

from alembic import op

revision = "0080"
down_revision = "0079"

IS_NAME = "queue_name ~ '^[A-Za-z0-9._-]{1,100}$'"

UP = f"""
ALTER TABLE runs
    ADD COLUMN queue_name text,         -- of all its steps that name none; NULL: those of their tasks
    ADD CONSTRAINT runs_queue_name_check CHECK ({IS_NAME}) NOT VALID;
ALTER TABLE task_runs
    ADD COLUMN queue_name text,         -- of its step, else of its run; NULL: that of its task
    ADD CONSTRAINT task_runs_queue_name_check CHECK ({IS_NAME}) NOT VALID;
"""

DOWN = """
ALTER TABLE task_runs DROP COLUMN queue_name;
ALTER TABLE runs DROP COLUMN queue_name;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
