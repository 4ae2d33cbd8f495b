"""Gives child runs indexes of their own, so that a list of runs does not read past them.

A run is in the same number of indexes as before. Processes of the version before can use this schema; their
lists of runs, which look for both kinds at once, are slower.
"""

from alembic import op

revision = "0060"
down_revision = "0059"

UP = """
CREATE INDEX runs_of_step ON runs (parent_task_run_id, id) WHERE parent_task_run_id IS NOT NULL;
CREATE INDEX runs_top ON runs (tenant_id, id) WHERE pipeline_id IS NOT NULL AND parent_run_id IS NULL;
CREATE INDEX runs_top_of_pipeline ON runs (tenant_id, pipeline_id, id)
    WHERE pipeline_id IS NOT NULL AND parent_run_id IS NULL;
CREATE INDEX runs_inside ON runs (tenant_id, id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_inside_of_pipeline ON runs (tenant_id, pipeline_id, id) WHERE parent_run_id IS NOT NULL;
DROP INDEX runs_newest, runs_of_pipeline;
"""

DOWN = """
CREATE INDEX runs_newest ON runs (tenant_id, id) WHERE pipeline_id IS NOT NULL;
CREATE INDEX runs_of_pipeline ON runs (tenant_id, pipeline_id, id) WHERE pipeline_id IS NOT NULL;
DROP INDEX runs_inside_of_pipeline, runs_inside, runs_top_of_pipeline, runs_top, runs_of_step;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
