"""Adds what schedules need: intervals and single times, policies, jitter, bounds, and a list of their fires.

Every new column has a default or may be NULL, so processes of the previous version can use this schema; they
fire nothing.
"""

from alembic import op

revision = "0009"
down_revision = "0008"

SCHEDULES = """
ALTER TABLE schedules
    ADD COLUMN every_ms bigint CHECK (every_ms BETWEEN 1000 AND 31622400000),
    ADD COLUMN at timestamptz,
    ADD COLUMN missed_policy text NOT NULL DEFAULT 'one' CHECK (missed_policy IN ('skip', 'one', 'all')),
    ADD COLUMN overlap_policy text NOT NULL DEFAULT 'allow'
        CHECK (overlap_policy IN ('allow', 'skip', 'queue', 'cancel-old')),
    ADD COLUMN jitter_ms bigint NOT NULL DEFAULT 0 CHECK (jitter_ms BETWEEN 0 AND 86400000),
    ADD COLUMN start_at timestamptz,
    ADD COLUMN end_at timestamptz,
    ADD COLUMN source text NOT NULL DEFAULT 'api' CHECK (source IN ('api', 'code', 'document')),
    -- The next due time of the timetable; `next_fire_at` is the same with the jitter.
    ADD COLUMN next_scheduled_at timestamptz,
    ADD COLUMN last_error_code text CHECK (length(last_error_code) <= 100),   -- of the last fire
    ADD COLUMN last_error text CHECK (length(last_error) <= 1000);
CREATE INDEX schedules_failed ON schedules (tenant_id, id) WHERE last_error_code IS NOT NULL;

-- Each time at which a schedule was due, or was started by hand, and what became of it.
CREATE TABLE schedule_fires (
    tenant_id     text NOT NULL,
    schedule_id   text NOT NULL,
    scheduled_at  timestamptz NOT NULL,
    fired_at      timestamptz NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('due', 'manual', 'backfill')),
    outcome       text NOT NULL CHECK (outcome IN ('fired', 'skipped', 'waiting', 'failed')),
    reason        text CHECK (length(reason) <= 100),        -- why it was skipped or waits
    error_code    text CHECK (length(error_code) <= 100),
    error         text CHECK (length(error) <= 1000),
    run_id        uuid,
    is_open       boolean NOT NULL DEFAULT false,            -- its run has not been seen to end
    is_superseded boolean NOT NULL DEFAULT false,            -- its run is to be cancelled for a newer one
    PRIMARY KEY (tenant_id, schedule_id, scheduled_at),
    FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules ON DELETE CASCADE,
    CHECK ((outcome = 'fired') = (run_id IS NOT NULL)),
    CHECK (NOT is_open OR run_id IS NOT NULL)
);
CREATE INDEX schedule_fires_open ON schedule_fires (tenant_id, schedule_id) WHERE is_open;
CREATE INDEX schedule_fires_waiting ON schedule_fires (tenant_id, schedule_id) WHERE outcome = 'waiting';
CREATE INDEX schedule_fires_superseded ON schedule_fires (tenant_id, schedule_id)
    WHERE is_open AND is_superseded;
CREATE INDEX schedule_fires_expired ON schedule_fires (fired_at);
"""

DOWN = """
DROP TABLE schedule_fires;
-- The schema before knows only cron; the others would never fire.
DELETE FROM schedules WHERE cron IS NULL;
ALTER TABLE schedules DROP COLUMN every_ms, DROP COLUMN at, DROP COLUMN missed_policy,
    DROP COLUMN overlap_policy,
    DROP COLUMN jitter_ms, DROP COLUMN start_at, DROP COLUMN end_at, DROP COLUMN source,
    DROP COLUMN next_scheduled_at, DROP COLUMN last_error_code, DROP COLUMN last_error;
"""


def upgrade() -> None:
    op.execute(SCHEDULES)


def downgrade() -> None:
    op.execute(DOWN)
