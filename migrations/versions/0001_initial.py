"""Creates the first schema.

Its tables:
  access        tenants, access_tokens
  registered    services, tasks, task_code_history, pipelines, pipeline_versions, schedules
  history       runs, task_runs, attempts, events: partitioned by range of the run id, a UUIDv7, so ordered by
                time; orchestrator/retention/partitions.py creates partitions, retention drops them
  expiring      dead_letters, run_tokens, idempotency_claims: not partitioned
  processes     workers, orchestrator_state

CHECK constraints refuse impossible rows: a final status needs `finished_at`, a running one `started_at`.
"""

from alembic import op

revision = "0001"
down_revision = None

NAME = r"~ '^[A-Za-z0-9._~:@-]{1,200}$'"

WHO = f"""
CREATE TABLE tenants (
    id          text PRIMARY KEY CHECK (id {NAME}),
    created_at  timestamptz NOT NULL
);

-- Only the SHA-256 of a token is stored; the token itself is shown once, when it is made.
CREATE TABLE access_tokens (
    id          uuid PRIMARY KEY,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    token_hash  text NOT NULL UNIQUE CHECK (token_hash ~ '^[0-9a-f]{{64}}$'),
    tenants     text[] NOT NULL CHECK (cardinality(tenants) > 0),
    scopes      text[] NOT NULL CHECK (cardinality(scopes) > 0),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz
);
"""

WHAT = f"""
CREATE TABLE services (
    tenant_id       text NOT NULL REFERENCES tenants,
    id              text NOT NULL CHECK (id {NAME}),
    kind            text NOT NULL CHECK (kind IN ('python', 'http')),
    version         text NOT NULL,
    base_url        text,
    queue           text NOT NULL,
    status          text NOT NULL CHECK (status IN ('active', 'inactive', 'disconnected')),
    registered_at   timestamptz NOT NULL,
    last_heartbeat  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CHECK (kind = 'python' OR base_url IS NOT NULL)
);

CREATE TABLE tasks (
    tenant_id                text NOT NULL REFERENCES tenants,
    id                       text NOT NULL CHECK (id {NAME}),
    service_id               text NOT NULL,
    code_hash                text NOT NULL CHECK (code_hash ~ '^[0-9a-f]{{16,64}}$'),
    code_version             integer NOT NULL CHECK (code_version >= 1),
    allowed_next             text[] NOT NULL,
    timeout_seconds          double precision NOT NULL CHECK (timeout_seconds > 0),
    max_attempts             integer NOT NULL CHECK (max_attempts >= 1),
    retry_backoff            text NOT NULL CHECK (retry_backoff IN ('fixed', 'linear', 'exponential')),
    retry_delay_ms           bigint NOT NULL CHECK (retry_delay_ms >= 0),
    max_retry_delay_ms       bigint NOT NULL CHECK (max_retry_delay_ms >= 0),
    heartbeat_interval_ms    bigint NOT NULL CHECK (heartbeat_interval_ms > 0),
    concurrency              integer NOT NULL CHECK (concurrency >= 0),
    priority                 integer NOT NULL,
    idempotency_ttl_seconds  bigint NOT NULL CHECK (idempotency_ttl_seconds > 0),
    description              text,
    input_schema             jsonb,
    orphaned_at              timestamptz,
    registered_at            timestamptz NOT NULL,
    updated_at               timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, service_id) REFERENCES services
);
CREATE INDEX tasks_by_service ON tasks (tenant_id, service_id);

CREATE TABLE task_code_history (
    tenant_id        text NOT NULL,
    task_id          text NOT NULL,
    code_version     integer NOT NULL CHECK (code_version >= 1),
    code_hash        text NOT NULL,
    service_version  text NOT NULL,
    recorded_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, task_id, code_version),
    FOREIGN KEY (tenant_id, task_id) REFERENCES tasks
);

CREATE TABLE pipelines (
    tenant_id       text NOT NULL REFERENCES tenants,
    id              text NOT NULL CHECK (id {NAME}),
    description     text,
    latest_version  integer NOT NULL CHECK (latest_version >= 1),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE pipeline_versions (
    tenant_id    text NOT NULL,
    pipeline_id  text NOT NULL,
    version      integer NOT NULL CHECK (version >= 1),
    spec         jsonb NOT NULL,
    spec_hash    text NOT NULL CHECK (spec_hash ~ '^[0-9a-f]{{64}}$'),
    source       text NOT NULL CHECK (source IN ('decorator', 'document', 'derived', 'api')),
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, pipeline_id, version),
    FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines DEFERRABLE INITIALLY DEFERRED
);

-- A run keeps the version it started with, so a stored version never changes.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of % are immutable', TG_TABLE_NAME; END $$;
CREATE TRIGGER pipeline_versions_are_immutable BEFORE UPDATE ON pipeline_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE schedules (
    tenant_id     text NOT NULL REFERENCES tenants,
    id            text NOT NULL CHECK (id {NAME}),
    pipeline_id   text NOT NULL,
    cron          text,
    time_zone     text NOT NULL DEFAULT 'UTC',
    input         jsonb,
    enabled       boolean NOT NULL DEFAULT true,
    next_fire_at  timestamptz,
    last_fire_at  timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines
);
CREATE INDEX schedules_due ON schedules (next_fire_at) WHERE enabled;
"""

# Single values are refused by domains: those cost where a value is assigned, a CHECK of the table costs with
# every statement that changes a row, whatever it changes. What ties columns together is one CHECK per table.
DOMAINS = """
CREATE DOMAIN run_status AS text CHECK (VALUE IN ('pending', 'running', 'paused', 'error_handling',
                                                  'completed', 'partial', 'failed', 'cancelled'));
CREATE DOMAIN task_run_status AS text CHECK (VALUE IN ('pending', 'ready', 'queued', 'running', 'waiting',
                                                       'completed', 'failed', 'timeout', 'cancelled',
                                                       'skipped'));
CREATE DOMAIN task_run_kind AS text CHECK (VALUE IN ('task', 'map', 'item'));
CREATE DOMAIN failure_mode AS text CHECK (VALUE IN ('fail-fast', 'continue', 'partial-merge'));
CREATE DOMAIN sha256_hex AS text CHECK (VALUE ~ '^[0-9a-f]{64}$');
CREATE DOMAIN quantity AS integer CHECK (VALUE >= 0);
CREATE DOMAIN ordinal_count AS integer CHECK (VALUE BETWEEN 0 AND 16777215);
CREATE DOMAIN attempt_number AS integer CHECK (VALUE >= 1);
CREATE DOMAIN percent AS real CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN run_token AS text CHECK (length(VALUE) BETWEEN 1 AND 200);
"""

RUNS = """
CREATE TABLE runs (
    id                uuid NOT NULL,
    tenant_id         text NOT NULL,
    pipeline_id       text,              -- NULL: a standalone task, a run of one step without a pipeline
    pipeline_version  integer,
    status            run_status NOT NULL,
    failure_mode      failure_mode NOT NULL,
    priority          integer,           -- NULL: every task's own
    input             jsonb,
    input_path        text,
    input_size        quantity NOT NULL,
    inputs_hash       sha256_hex NOT NULL,
    run_token         run_token,
    metadata          jsonb,
    task_run_count    ordinal_count NOT NULL,
    error             jsonb,
    error_code        text,
    created_at        timestamptz NOT NULL,
    started_at        timestamptz,
    finished_at       timestamptz,
    PRIMARY KEY (id),
    CONSTRAINT runs_are_sane CHECK (
        (pipeline_id IS NULL) = (pipeline_version IS NULL) AND (input IS NULL OR input_path IS NULL)
        AND CASE WHEN status IN ('completed', 'partial')
                     THEN finished_at IS NOT NULL AND started_at IS NOT NULL
                 WHEN status = 'failed' THEN finished_at IS NOT NULL AND error_code IS NOT NULL
                 WHEN status = 'cancelled' THEN finished_at IS NOT NULL
                 WHEN status = 'pending' THEN finished_at IS NULL
                 ELSE finished_at IS NULL AND started_at IS NOT NULL END)
) PARTITION BY RANGE (id);
CREATE INDEX runs_newest ON runs (tenant_id, id) WHERE pipeline_id IS NOT NULL;
CREATE INDEX runs_of_pipeline ON runs (tenant_id, pipeline_id, id) WHERE pipeline_id IS NOT NULL;
CREATE INDEX runs_by_status ON runs (tenant_id, status, id);
CREATE INDEX runs_active ON runs (id) WHERE status IN ('pending', 'running', 'error_handling');

CREATE TABLE task_runs (
    run_id            uuid NOT NULL,
    id                uuid NOT NULL,     -- run_id with the task run's ordinal in its last 24 bits
    tenant_id         text NOT NULL,
    step_id           text NOT NULL,
    task_id           text NOT NULL,
    kind              task_run_kind NOT NULL,
    map_index         quantity,
    map_parent        integer,           -- ordinal of the map an item belongs to
    map_first         integer,           -- ordinal of a map's first item
    map_count         quantity,
    status            task_run_status NOT NULL,
    attempt           attempt_number NOT NULL DEFAULT 1,
    max_attempts      attempt_number NOT NULL,
    priority          integer NOT NULL,
    queue             text NOT NULL,
    is_limited        boolean NOT NULL,  -- its task has a concurrency limit
    code_version      integer NOT NULL,
    code_hash         text NOT NULL,
    item              jsonb,
    output            jsonb,
    output_path       text,
    output_size       quantity,
    output_hash       text,
    selected_next     text[],
    error             jsonb,
    error_code        text,
    progress          percent,
    progress_message  text,
    idempotency_key   text,
    worker            text,
    created_at        timestamptz NOT NULL,
    due_at            timestamptz,
    queued_at         timestamptz,
    started_at        timestamptz,
    heartbeat_at      timestamptz,
    finished_at       timestamptz,
    PRIMARY KEY (run_id, id),
    CONSTRAINT task_runs_are_sane CHECK (
        CASE WHEN status = 'running'
                 THEN finished_at IS NULL AND started_at IS NOT NULL AND worker IS NOT NULL
             WHEN status = 'completed' THEN finished_at IS NOT NULL
             WHEN status = 'queued' THEN finished_at IS NULL AND queued_at IS NOT NULL
             WHEN status IN ('failed', 'timeout') THEN finished_at IS NOT NULL AND error_code IS NOT NULL
             ELSE (status IN ('cancelled', 'skipped')) = (finished_at IS NOT NULL) END
        AND (kind = 'item') = (map_index IS NOT NULL) AND (map_index IS NULL) = (map_parent IS NULL)
        AND (output IS NULL OR output_path IS NULL))
) PARTITION BY RANGE (run_id);
-- The status of a row changes two or three times, so room is left for the new versions on the same page.
-- Messages that may be lost, oldest first; what runs, by worker.
CREATE INDEX task_runs_queued ON task_runs (queued_at) WHERE status = 'queued';
CREATE INDEX task_runs_running ON task_runs (worker) WHERE status = 'running';
CREATE INDEX task_runs_due ON task_runs (due_at) WHERE status = 'pending' AND due_at IS NOT NULL;
-- Only tasks with a concurrency limit pay for these two.
CREATE INDEX task_runs_live ON task_runs (tenant_id, task_id)
    WHERE is_limited AND kind <> 'map' AND status IN ('queued', 'running', 'waiting');
CREATE INDEX task_runs_ready ON task_runs (tenant_id, task_id, priority, id) WHERE status = 'ready';
-- What waits for the world outside; a map that waits for its items is not among it.
CREATE INDEX task_runs_waiting ON task_runs (tenant_id, task_id) WHERE status = 'waiting' AND kind <> 'map';

-- Attempts that ended and were followed by another, or ended the task run badly: append only.
CREATE TABLE attempts (
    run_id        uuid NOT NULL,
    task_run_id   uuid NOT NULL,
    number        integer NOT NULL CHECK (number >= 1),
    status        text NOT NULL CHECK (status IN ('failed', 'timeout', 'cancelled', 'lost')),
    worker        text,
    code_version  integer NOT NULL,
    error         jsonb,
    error_code    text,
    started_at    timestamptz,
    finished_at   timestamptz NOT NULL,
    PRIMARY KEY (run_id, task_run_id, number)
) PARTITION BY RANGE (run_id);

CREATE SEQUENCE event_seq CACHE 1;
CREATE TABLE events (
    run_id       uuid NOT NULL,
    seq          bigint NOT NULL DEFAULT nextval('event_seq'),
    at           timestamptz NOT NULL,
    type         text NOT NULL,
    task_run_id  uuid,
    attempt      integer,
    data         jsonb,
    PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);
"""

KEPT = """
CREATE TABLE dead_letters (
    id                 uuid PRIMARY KEY,
    tenant_id          text NOT NULL REFERENCES tenants,
    run_id             uuid NOT NULL,
    task_run_id        uuid NOT NULL,
    pipeline_id        text,
    step_id            text NOT NULL,
    task_id            text NOT NULL,
    code_version       integer NOT NULL,
    code_hash          text NOT NULL,
    attempts           integer NOT NULL CHECK (attempts >= 1),
    input              jsonb,
    input_path         text,
    error              jsonb NOT NULL,
    error_code         text NOT NULL,
    fingerprint        text NOT NULL,
    failed_at          timestamptz NOT NULL,
    retried_at         timestamptz,
    retry_task_run_id  uuid,
    discarded_at       timestamptz,
    discard_reason     text,
    CHECK (retried_at IS NULL OR discarded_at IS NULL)
);
CREATE UNIQUE INDEX dead_letters_one_open ON dead_letters (task_run_id)
    WHERE retried_at IS NULL AND discarded_at IS NULL;
CREATE INDEX dead_letters_newest ON dead_letters (tenant_id, id);

-- Run creation is idempotent on these three (token, pipeline, inputs hash).
CREATE TABLE run_tokens (
    tenant_id    text NOT NULL REFERENCES tenants,
    run_token    text NOT NULL,
    pipeline_id  text NOT NULL,
    inputs_hash  text NOT NULL,
    run_id       uuid NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_token, pipeline_id, inputs_hash)
);

CREATE TABLE idempotency_claims (
    tenant_id    text NOT NULL REFERENCES tenants,
    task_id      text NOT NULL,
    key          text NOT NULL,
    task_run_id  uuid NOT NULL,
    output       jsonb,
    output_path  text,
    claimed_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    expires_at   timestamptz,
    PRIMARY KEY (tenant_id, task_id, key)
);
CREATE INDEX idempotency_claims_expired ON idempotency_claims (expires_at) WHERE expires_at IS NOT NULL;
"""

MACHINE = """
CREATE TABLE workers (
    id            text PRIMARY KEY,      -- node name, pid and start: unique for every process that ever ran
    tenant_id     text NOT NULL REFERENCES tenants,
    service_id    text NOT NULL,
    name          text NOT NULL,
    hostname      text NOT NULL,
    pid           integer NOT NULL,
    concurrency   integer NOT NULL CHECK (concurrency >= 1),
    task_count    integer NOT NULL CHECK (task_count >= 0),
    started_at    timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    stopped_at    timestamptz
);
CREATE INDEX workers_alive ON workers (heartbeat_at) WHERE stopped_at IS NULL;

CREATE TABLE orchestrator_state (
    singleton        boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    mode             text NOT NULL CHECK (mode IN ('running', 'waiting_for_maintenance', 'maintenance')),
    mode_changed_at  timestamptz NOT NULL,
    last_tick_at     timestamptz
);
INSERT INTO orchestrator_state (mode, mode_changed_at) VALUES ('running', now());
INSERT INTO tenants (id, created_at) VALUES ('default', now());
"""

DOWN = """
DROP TABLE orchestrator_state; DROP TABLE workers;
DROP TABLE idempotency_claims; DROP TABLE run_tokens; DROP TABLE dead_letters;
DROP TABLE events; DROP TABLE attempts; DROP TABLE task_runs; DROP TABLE runs;
DROP SEQUENCE event_seq;
DROP TABLE schedules; DROP TABLE pipeline_versions; DROP TABLE pipelines;
DROP TABLE task_code_history; DROP TABLE tasks; DROP TABLE services;
DROP TABLE access_tokens; DROP TABLE tenants;
DROP FUNCTION refuse_change();
DROP DOMAIN run_status, task_run_status, task_run_kind, failure_mode, sha256_hex, quantity, ordinal_count,
    attempt_number, percent, run_token;
"""


def upgrade() -> None:
    for part in (WHO, WHAT, DOMAINS, RUNS, KEPT, MACHINE):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
