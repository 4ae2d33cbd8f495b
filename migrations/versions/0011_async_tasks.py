"""Adds how many calls of each task a worker process runs at once: more than one of an `async def` task.

The new column has a default, so processes of the previous version can use this schema: their workers call one
function at a time.
"""

from alembic import op

revision = "0011"
down_revision = "0010"

WORKERS = """
ALTER TABLE worker_tasks
    -- Calls that one child of the worker runs at once.
    ADD COLUMN concurrent integer NOT NULL DEFAULT 1 CHECK (concurrent BETWEEN 1 AND 1000);
CREATE INDEX worker_tasks_concurrent ON worker_tasks (tenant_id, task_id) WHERE concurrent > 1;
"""

DOWN = """
DROP INDEX worker_tasks_concurrent;
ALTER TABLE worker_tasks DROP COLUMN concurrent;
"""


def upgrade() -> None:
    op.execute(WORKERS)


def downgrade() -> None:
    op.execute(DOWN)
