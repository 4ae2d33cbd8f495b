"""Adds columns and tables for retries, dead letters, redrives, rate limits, pauses and idempotency keys.

Every new column has a default or may be NULL, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

TASKS = """
ALTER TABLE tasks
    ADD COLUMN retry_multiplier double precision NOT NULL DEFAULT 2 CHECK (retry_multiplier >= 1),
    -- The share of a delay that is random.
    ADD COLUMN retry_jitter double precision NOT NULL DEFAULT 0 CHECK (retry_jitter BETWEEN 0 AND 1),
    ADD COLUMN retry_on text[],              -- error codes that are retried; NULL: every retryable error
    ADD COLUMN rate_limit integer CHECK (rate_limit > 0),      -- starts in any rate_seconds; NULL: no limit
    ADD COLUMN rate_seconds double precision CHECK (rate_seconds > 0),
    -- When the next start would be exactly on time (generic cell rate algorithm): a limit without a log.
    ADD COLUMN rate_at timestamptz,
    ADD COLUMN usual_seconds double precision CHECK (usual_seconds >= 0),   -- as observed, for chunk sizes
    -- After a change of the task: when to update its open task runs next, and until when.
    ADD COLUMN follow_at timestamptz,
    ADD COLUMN follow_until timestamptz,
    ADD CHECK ((rate_limit IS NULL) = (rate_seconds IS NULL)),
    ADD CHECK (follow_at IS NULL OR follow_until IS NOT NULL);
CREATE INDEX tasks_to_follow ON tasks (follow_at) WHERE follow_at IS NOT NULL;
"""

RUNS = """
ALTER TABLE runs
    ADD COLUMN deadline_at timestamptz,
    ADD COLUMN idle_timeout_ms bigint CHECK (idle_timeout_ms > 0),
    -- When a dead letter was retried: from then on the end of the run has to read all of its task runs.
    ADD COLUMN reopened_at timestamptz;
CREATE INDEX runs_with_deadline ON runs (deadline_at) WHERE finished_at IS NULL AND deadline_at IS NOT NULL;
CREATE INDEX runs_with_idle_timeout ON runs (id) WHERE finished_at IS NULL AND idle_timeout_ms IS NOT NULL;
CREATE INDEX runs_waiting ON runs (tenant_id, id) WHERE status = 'pending';

ALTER TABLE task_runs
    -- The database's clock when a worker claimed it: time limits use this one clock.
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN suspected_at timestamptz,     -- a check found it silent for too long; a second check decides
    ADD COLUMN awaits uuid,                  -- the task run that executes under the same idempotency key
    ADD COLUMN cached_from uuid;             -- the task run whose result it took under that key
CREATE INDEX task_runs_awaiting ON task_runs (tenant_id, task_id, idempotency_key, priority, id)
    WHERE status = 'pending' AND awaits IS NOT NULL AND due_at IS NOT NULL;

-- By queue, best priority first: finds lost messages, and task runs with a better priority.
DROP INDEX task_runs_queued;
CREATE INDEX task_runs_queued ON task_runs (queue, priority, queued_at) WHERE status = 'queued';

ALTER TABLE attempts DROP CONSTRAINT attempts_status_check;
ALTER TABLE attempts ADD CONSTRAINT attempts_status_check
    CHECK (status IN ('failed', 'timeout', 'cancelled', 'lost', 'interrupted'));
"""

KEPT = """
ALTER TABLE dead_letters
    ADD COLUMN kind text NOT NULL DEFAULT 'task',
    ADD COLUMN map_index integer,
    ADD COLUMN item jsonb,
    ADD COLUMN status text NOT NULL DEFAULT 'failed' CHECK (status IN ('failed', 'timeout')),
    ADD COLUMN history jsonb NOT NULL DEFAULT '[]', -- all attempts: it outlives its run's partition
    ADD COLUMN retry_run_id uuid;
CREATE INDEX dead_letters_of_run ON dead_letters (run_id);
CREATE INDEX dead_letters_by_age ON dead_letters (failed_at);
CREATE INDEX dead_letters_open ON dead_letters (tenant_id, id)
    WHERE retried_at IS NULL AND discarded_at IS NULL;
CREATE INDEX dead_letters_alike ON dead_letters (tenant_id, fingerprint, id)
    WHERE retried_at IS NULL AND discarded_at IS NULL;

-- The columns of a stored result; it may outlive the history of the run that produced it.
ALTER TABLE idempotency_claims
    ADD COLUMN output_size integer CHECK (output_size >= 0),
    ADD COLUMN output_hash text,
    ADD COLUMN selected_next text[],
    ADD CHECK (length(key) BETWEEN 1 AND 500),
    ADD CHECK ((finished_at IS NULL) = (output_hash IS NULL));

-- Run tokens are dropped with the month of their runs.
CREATE INDEX run_tokens_of_run ON run_tokens (run_id);

-- Redrives retry many dead letters: one row per request; the tick retries in batches.
CREATE TABLE redrives (
    id           uuid PRIMARY KEY,
    tenant_id    text NOT NULL REFERENCES tenants,
    filter       jsonb NOT NULL,
    status       text NOT NULL CHECK (status IN ('running', 'completed', 'cancelled')),
    total        integer NOT NULL CHECK (total >= 0),
    retried      integer NOT NULL DEFAULT 0 CHECK (retried >= 0),
    skipped      integer NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    last_id      uuid,                       -- the last dead letter that was retried or skipped
    created_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    CHECK ((status = 'running') = (finished_at IS NULL))
);
CREATE INDEX redrives_newest ON redrives (tenant_id, id);
CREATE INDEX redrives_by_age ON redrives (finished_at);
CREATE INDEX redrives_running ON redrives (created_at) WHERE status = 'running';

-- A pause of one task; with an empty task id, of all tasks of the tenant.
CREATE TABLE pauses (
    tenant_id  text NOT NULL REFERENCES tenants,
    task_id    text NOT NULL,
    reason     text,
    paused_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);
"""

MACHINE = """
ALTER TABLE tenants ADD COLUMN max_active_runs integer CHECK (max_active_runs > 0);
ALTER TABLE workers ADD COLUMN suspected_at timestamptz;
-- The reason for maintenance; a refused request shows it.
ALTER TABLE orchestrator_state ADD COLUMN reason text CHECK (length(reason) <= 1000);
"""

DOWN = """
ALTER TABLE orchestrator_state DROP COLUMN reason;
ALTER TABLE workers DROP COLUMN suspected_at;
ALTER TABLE tenants DROP COLUMN max_active_runs;
DROP TABLE pauses;
DROP TABLE redrives;
DROP INDEX run_tokens_of_run;
-- A claim that is finished has an output; the name is PostgreSQL's.
ALTER TABLE idempotency_claims DROP CONSTRAINT idempotency_claims_key_check, DROP COLUMN output_size,
    DROP COLUMN output_hash, DROP COLUMN selected_next;
DROP INDEX dead_letters_of_run, dead_letters_by_age, dead_letters_open, dead_letters_alike;
ALTER TABLE dead_letters DROP COLUMN kind, DROP COLUMN map_index, DROP COLUMN item, DROP COLUMN status,
    DROP COLUMN history, DROP COLUMN retry_run_id;
UPDATE attempts SET status = 'lost' WHERE status = 'interrupted';
ALTER TABLE attempts DROP CONSTRAINT attempts_status_check,
    ADD CONSTRAINT attempts_status_check CHECK (status IN ('failed', 'timeout', 'cancelled', 'lost'));
DROP INDEX task_runs_queued;
CREATE INDEX task_runs_queued ON task_runs (queued_at) WHERE status = 'queued';
DROP INDEX task_runs_awaiting;
ALTER TABLE task_runs DROP COLUMN claimed_at, DROP COLUMN suspected_at, DROP COLUMN awaits,
    DROP COLUMN cached_from;
DROP INDEX runs_with_deadline, runs_with_idle_timeout, runs_waiting;
ALTER TABLE runs DROP COLUMN deadline_at, DROP COLUMN idle_timeout_ms, DROP COLUMN reopened_at;
DROP INDEX tasks_to_follow;
ALTER TABLE tasks DROP COLUMN retry_multiplier, DROP COLUMN retry_jitter, DROP COLUMN retry_on,
    DROP COLUMN rate_limit, DROP COLUMN rate_seconds, DROP COLUMN rate_at, DROP COLUMN usual_seconds,
    DROP COLUMN follow_at, DROP COLUMN follow_until;
"""


def upgrade() -> None:
    for part in (TASKS, RUNS, KEPT, MACHINE):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
