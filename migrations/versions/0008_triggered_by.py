"""Adds what began a run, and the link from a rerun to its run.

Every new column may be NULL, so processes of the previous version can use this schema; what began their runs
is not known.
"""

from alembic import op

revision = "0008"
down_revision = "0007"

# No CHECK: it would read every row of the history while nobody can use the table.
RUNS = """
ALTER TABLE runs
    ADD COLUMN triggered_kind text,      -- see orchestrator/domain/triggered_by.py; NULL: not known
    ADD COLUMN triggered_id text,
    ADD COLUMN triggered_actor text,
    ADD COLUMN rerun_of uuid,            -- the run that this one repeats
    ADD COLUMN rerun_from text;          -- the step it began at; NULL: the beginning

-- Most runs are begun by requests: they have no entry, and pay nothing.
CREATE INDEX runs_triggered ON runs (tenant_id, triggered_kind, id)
    WHERE triggered_kind <> 'api' AND pipeline_id IS NOT NULL;
CREATE INDEX runs_reruns ON runs (rerun_of, id) WHERE rerun_of IS NOT NULL;
"""

REDRIVES = "ALTER TABLE redrives ADD COLUMN created_by text CHECK (length(created_by) <= 200)"

DOWN = """
ALTER TABLE redrives DROP COLUMN created_by;
DROP INDEX runs_triggered, runs_reruns;
ALTER TABLE runs DROP COLUMN triggered_kind, DROP COLUMN triggered_id, DROP COLUMN triggered_actor,
    DROP COLUMN rerun_of, DROP COLUMN rerun_from;
"""


def upgrade() -> None:
    for part in (RUNS, REDRIVES):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
