"""Adds the pauses of runs, and the time for which a run was paused.

The new column has a default, so processes of the previous version can use this schema. They do not look at
the pauses of runs: only those of this version can pause a run, and while both are in use, a worker of the
previous version may go on with a paused run.
"""

from alembic import op

revision = "0010"
down_revision = "0009"

UP = """
-- One row for each paused run that is open; nearly always there is none. Everything that starts a task run
-- looks here.
CREATE TABLE run_pauses (
    run_id      uuid PRIMARY KEY,
    tenant_id   text NOT NULL REFERENCES tenants,
    paused_at   timestamptz NOT NULL,
    paused_by   text,                        -- the name of the token; NULL: not known
    reason      text CHECK (length(reason) <= 1000),
    settled_at  timestamptz                  -- none of its task runs is queued any more
);
CREATE INDEX run_pauses_unsettled ON run_pauses (paused_at) WHERE settled_at IS NULL;

-- How long the run was paused since it was started or reopened; that time does not count towards its limit.
ALTER TABLE runs ADD COLUMN paused_ms bigint NOT NULL DEFAULT 0 CHECK (paused_ms >= 0);
"""

DOWN = """
ALTER TABLE runs DROP COLUMN paused_ms;
DROP TABLE run_pauses;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
