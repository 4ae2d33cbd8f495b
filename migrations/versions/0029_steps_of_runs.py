"""Adds to the statistics of runs how many task runs those had that ended.

Both columns have defaults, so processes of the previous version can use this schema; what they count has
none.
"""

from alembic import op

revision = "0029"
down_revision = "0028"

# `steps` is {bucket: runs}, see orchestrator/telemetry/statistics/sizes.py.
UP = """
ALTER TABLE run_stats ADD COLUMN steps jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN steps_sum bigint NOT NULL DEFAULT 0;
"""

DOWN = "ALTER TABLE run_stats DROP COLUMN steps, DROP COLUMN steps_sum;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
