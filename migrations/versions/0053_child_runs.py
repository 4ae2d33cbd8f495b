"""Adds the columns of runs that belong to a step of another run.

Processes of the version before can use this schema: the columns may be NULL, and are for every run without a
parent. When they end a child, nobody tells its parent, which looks at its children by itself in a while.
"""

from alembic import op

revision = "0053"
down_revision = "0052"

UP = """
ALTER TABLE runs
    ADD COLUMN parent_run_id uuid,          -- NULL: it belongs to no other run
    ADD COLUMN parent_task_run_id uuid,     -- whose wait ends with the run
    ADD COLUMN root_run_id uuid,            -- the run that people know; NULL: itself
    ADD COLUMN depth smallint CHECK (depth BETWEEN 1 AND 10);
CREATE INDEX runs_children ON runs (parent_run_id, id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_open_children ON runs (id) WHERE parent_run_id IS NOT NULL AND finished_at IS NULL;
"""

DOWN = """
DROP INDEX runs_open_children;
DROP INDEX runs_children;
ALTER TABLE runs DROP COLUMN depth, DROP COLUMN root_run_id, DROP COLUMN parent_task_run_id,
    DROP COLUMN parent_run_id;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
