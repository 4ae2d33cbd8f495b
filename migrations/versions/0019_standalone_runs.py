"""Adds the index of the runs of standalone tasks, for their list.

Runs of pipelines have no entry in it, and pay nothing; runs of standalone tasks have none in the indexes of
the list of runs, so each run is in as many as before.
"""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.execute("CREATE INDEX runs_standalone ON runs (tenant_id, id) WHERE pipeline_id IS NULL")


def downgrade() -> None:
    op.execute("DROP INDEX runs_standalone")
