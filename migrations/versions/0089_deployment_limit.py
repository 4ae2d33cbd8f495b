"""Gives the deployment a limit of the task runs that are at work.

Processes of the version before can use this schema: they start task runs without looking at the limit.
"""

from alembic import op

revision = "0089"
down_revision = "0088"

UP = """
ALTER TABLE orchestrator_state
    ADD COLUMN max_running_task_runs integer        -- of all tenants; NULL: any number
    CHECK (max_running_task_runs BETWEEN 1 AND 1000000);
"""

DOWN = """
ALTER TABLE orchestrator_state DROP COLUMN max_running_task_runs;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
