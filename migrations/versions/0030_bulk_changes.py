"""Adds changes of many runs that beat works off: what was asked, how far each is, what became of each run.

New tables and indexes only, so processes of the previous version can use this schema. A beat of that version
leaves these changes alone.
"""

from alembic import op

revision = "0030"
down_revision = "0029"

UP = """
CREATE TABLE bulk_changes (
    id              uuid PRIMARY KEY,
    tenant_id       text NOT NULL REFERENCES tenants,
    action          text NOT NULL CHECK (length(action) <= 20),
    filter          jsonb NOT NULL,
    options         jsonb NOT NULL,              -- what the action takes: a reason, a step, a version
    token           text CHECK (length(token) <= 200),
    status          text NOT NULL CHECK (status IN ('running', 'completed', 'cancelled')),
    total           integer NOT NULL CHECK (total >= 0),     -- runs that matched at first
    total_is_capped boolean NOT NULL,            -- there were more, or they were not all counted
    changed         integer NOT NULL DEFAULT 0 CHECK (changed >= 0),
    skipped         integer NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    most            integer NOT NULL CHECK (most >= 1),      -- changed at most
    per_second      double precision CHECK (per_second > 0), -- NULL: as fast as it goes
    next_at         timestamptz,                 -- no further runs before
    last_id         uuid,                        -- the last run that was looked at
    created_at      timestamptz NOT NULL,
    created_by      text CHECK (length(created_by) <= 200),
    finished_at     timestamptz,
    CHECK ((status = 'running') = (finished_at IS NULL))
);
CREATE INDEX bulk_changes_newest ON bulk_changes (tenant_id, id);
CREATE INDEX bulk_changes_by_age ON bulk_changes (finished_at);
CREATE INDEX bulk_changes_running ON bulk_changes (created_at) WHERE status = 'running';
CREATE UNIQUE INDEX bulk_changes_token ON bulk_changes (tenant_id, token) WHERE token IS NOT NULL;

-- One row for each run of a bulk change, written with the change of the run: it makes sure that each is
-- changed and counted once. No foreign key: rows are deleted by their age, in batches, as their change is.
CREATE TABLE bulk_change_runs (
    bulk_id    uuid NOT NULL,
    run_id     uuid NOT NULL,
    is_changed boolean NOT NULL,
    new_run_id uuid,                             -- what a rerun began
    error_code text CHECK (length(error_code) <= 200),       -- why it was skipped
    error      text CHECK (length(error) <= 1000),
    at         timestamptz NOT NULL,
    PRIMARY KEY (bulk_id, run_id),
    CHECK (is_changed = (error_code IS NULL))
);
CREATE INDEX bulk_change_runs_skipped ON bulk_change_runs (bulk_id, run_id) WHERE NOT is_changed;
CREATE INDEX bulk_change_runs_by_age ON bulk_change_runs (at);

-- For lists of one tenant: what was refused, and what had its token taken. No row of either is written by an
-- enqueue, or where a run starts.
CREATE INDEX enqueued_runs_refused ON enqueued_runs (tenant_id, id)
    WHERE settled_at IS NOT NULL AND first_run_id IS NULL;
CREATE INDEX enqueued_runs_repeated ON enqueued_runs (tenant_id, id)
    WHERE settled_at IS NOT NULL AND first_run_id IS NOT NULL;
"""

DOWN = """
DROP INDEX enqueued_runs_repeated, enqueued_runs_refused;
DROP TABLE bulk_change_runs;
DROP TABLE bulk_changes;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
