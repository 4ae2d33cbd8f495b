"""Gives child runs of whole pipelines an index, so that what a pipeline shows reads past no runs of bodies.

A run without a parent, and one of a body, are in as many indexes as before. Processes of the version before
can use this schema.
"""

from alembic import op

revision = "0063"
down_revision = "0062"

UP = """
CREATE INDEX runs_inside_whole ON runs (tenant_id, pipeline_id, id)
    WHERE parent_run_id IS NOT NULL AND body IS NULL;
"""

DOWN = "DROP INDEX runs_inside_whole;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
