"""Adds what each worker process has loaded, the queues that it serves, and a queue for each task.

Every new column has a default or may be NULL, so processes of the previous version can use this schema. A
worker of that version stores no tasks and no queues: it counts as one that has every task of its service and
serves the service's queue.
"""

from alembic import op

revision = "0004"
down_revision = "0003"

WORKERS = """
ALTER TABLE workers
    ADD COLUMN queues text[] NOT NULL DEFAULT '{}',   -- that it consumes
    ADD COLUMN own_queue text,                        -- one of them, for workers of this code alone
    ADD COLUMN stopping_at timestamptz;               -- it was asked to stop, and takes nothing more

-- What a worker process has loaded, in which code: written once, when it starts.
CREATE TABLE worker_tasks (
    worker_id  text NOT NULL REFERENCES workers ON DELETE CASCADE,
    tenant_id  text NOT NULL,
    task_id    text NOT NULL,
    code_hash  text NOT NULL,
    is_served  boolean NOT NULL,                      -- the worker consumes the task's queue
    PRIMARY KEY (worker_id, task_id)
);
CREATE INDEX worker_tasks_of_task ON worker_tasks (tenant_id, task_id);
"""

TASKS = """
ALTER TABLE tasks ADD COLUMN queue text CHECK (queue ~ '^[A-Za-z0-9._-]{1,100}$');   -- NULL: its service's
"""

DOWN = """
ALTER TABLE tasks DROP COLUMN queue;
DROP TABLE worker_tasks;
ALTER TABLE workers DROP COLUMN queues, DROP COLUMN own_queue, DROP COLUMN stopping_at;
"""


def upgrade() -> None:
    for part in (WORKERS, TASKS):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
