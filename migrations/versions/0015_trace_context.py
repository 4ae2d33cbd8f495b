"""Adds the trace context with which a run was triggered.

The new column may be NULL, so processes of the previous version can use this schema. Most runs have none: the
id of such a run is its trace id.
"""

from alembic import op

revision = "0015"
down_revision = "0014"

# No CHECK: it would read every row of the history while nobody can use the table.
RUNS = """
ALTER TABLE runs ADD COLUMN traceparent text;    -- as the trigger gave it; see orchestrator/domain/tracing.py
"""


def upgrade() -> None:
    op.execute(RUNS)


def downgrade() -> None:
    op.execute("ALTER TABLE runs DROP COLUMN traceparent")
