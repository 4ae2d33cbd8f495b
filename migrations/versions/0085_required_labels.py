"""Gives workers their labels, and tasks, runs and task runs the labels that they require of a worker.

Processes of the version before can use this schema: a worker of theirs has no labels, and consumes no queue
of a required label. Require labels when all processes are of this version: a tick of the version before
forgets them when it places a task run anew.
"""

from alembic import op

revision = "0085"
down_revision = "0084"

_LABEL = '"[A-Za-z0-9._-]{1,32}": "[A-Za-z0-9._-]{1,63}"'


def _are_labels(column: str) -> str:
    """SQL: whether the column is an object of one or more labels, or NULL."""
    # The text of a jsonb value has one form.
    return f"CAST({column} AS text) ~ '^\\{{{_LABEL}(, {_LABEL})*\\}}$'"


UP = f"""
ALTER TABLE workers
    ADD COLUMN labels jsonb NOT NULL DEFAULT '{{}}',    -- of its machine
    ADD CONSTRAINT workers_labels_check CHECK (labels = '{{}}' OR {_are_labels("labels")}) NOT VALID;
ALTER TABLE tasks
    ADD COLUMN requires jsonb,          -- labels of the workers that may call it; NULL: of any
    ADD CONSTRAINT tasks_requires_check CHECK ({_are_labels("requires")}) NOT VALID;
ALTER TABLE runs
    ADD COLUMN requires jsonb,          -- of all its steps, beside what they and their tasks require
    ADD CONSTRAINT runs_requires_check CHECK ({_are_labels("requires")}) NOT VALID;
ALTER TABLE task_runs
    ADD COLUMN requires jsonb,          -- of its step and its run, beside what its task requires
    ADD CONSTRAINT task_runs_requires_check CHECK ({_are_labels("requires")}) NOT VALID;
"""

DOWN = """
ALTER TABLE task_runs DROP COLUMN requires;
ALTER TABLE runs DROP COLUMN requires;
ALTER TABLE tasks DROP COLUMN requires;
ALTER TABLE workers DROP COLUMN labels;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
