"""Gives tenants quotas, a weight and an end of their requests, and a row of what they use.

A tenant without quotas has no row in `tenant_use`. Processes of the version before can use this schema: they
know no quota, and let a disabled tenant go on.
"""

from alembic import op

revision = "0076"
down_revision = "0074"

UP = """
ALTER TABLE tenants
    ADD COLUMN runs_per_day    integer CHECK (runs_per_day >= 0),        -- NULL: any number, as of the others
    ADD COLUMN open_task_runs  integer CHECK (open_task_runs >= 0),
    ADD COLUMN stored_bytes    bigint CHECK (stored_bytes >= 0),
    ADD COLUMN schedules       integer CHECK (schedules >= 0),
    ADD COLUMN request_rate    text CHECK (request_rate ~ '^[1-9][0-9]{0,6}/[smhd]$'),
    ADD COLUMN weight          smallint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    ADD COLUMN disabled_at     timestamptz,
    ADD COLUMN disabled_by     text CHECK (length(disabled_by) <= 200),
    ADD COLUMN disabled_reason text CHECK (length(disabled_reason) <= 500),
    ADD CONSTRAINT only_the_disabled_say_why CHECK (
        disabled_at IS NOT NULL OR (disabled_by IS NULL AND disabled_reason IS NULL));

-- The few tenants whose requests are not simply served: asked with each look at a token.
CREATE INDEX tenants_gated ON tenants (id) WHERE disabled_at IS NOT NULL OR request_rate IS NOT NULL;
CREATE INDEX tenants_weighted ON tenants (id) WHERE weight <> 1;

CREATE TABLE tenant_use (
    tenant_id       text PRIMARY KEY REFERENCES tenants,
    day             date NOT NULL,                -- of UTC
    runs            integer NOT NULL DEFAULT 0 CHECK (runs >= 0),            -- begun on that day
    open_task_runs  integer NOT NULL DEFAULT 0 CHECK (open_task_runs >= 0),
    counted_at      timestamptz,                  -- the open task runs, from their rows
    stored_bytes    bigint NOT NULL DEFAULT 0 CHECK (stored_bytes >= 0),
    stored_at       timestamptz,                  -- the end of the last count of the stored bytes
    summed_to       uuid,                         -- the last run of the count that is under way
    summed_bytes    bigint NOT NULL DEFAULT 0 CHECK (summed_bytes >= 0),
    request_at      timestamptz                   -- when the next request is on time
);
"""

DOWN = """
DROP TABLE tenant_use;
DROP INDEX tenants_weighted;
DROP INDEX tenants_gated;
ALTER TABLE tenants
    DROP CONSTRAINT only_the_disabled_say_why,
    DROP COLUMN runs_per_day, DROP COLUMN open_task_runs, DROP COLUMN stored_bytes, DROP COLUMN schedules,
    DROP COLUMN request_rate, DROP COLUMN weight,
    DROP COLUMN disabled_at, DROP COLUMN disabled_by, DROP COLUMN disabled_reason;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
