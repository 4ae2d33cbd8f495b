"""Adds the table that callers put runs into, in transactions of their own.

Processes of the previous version can use this schema; they do not look at the table, so a run waits there
until a beat of this version starts it.
"""

from alembic import op

revision = "0017"
down_revision = "0016"

# A UUIDv7 of PostgreSQL's time whose last 24 bits are zero, as the ids of runs are: 48 bits of ms, the
# fraction of the ms in 12 bits, 38 random bits. orchestrator/domain/enqueue_sql.py makes those of batches.
ID = """CAST(
    lpad(to_hex(CAST(extract(epoch FROM clock_timestamp()) * 4096000 AS bigint) >> 12), 12, '0') || '7'
    || lpad(to_hex(CAST(extract(epoch FROM clock_timestamp()) * 4096000 AS bigint) & 4095), 3, '0')
    || substr(CAST(gen_random_uuid() AS text), 20, 11) || '000000' AS uuid)"""

NAME = r"~ '^[A-Za-z0-9._~:@-]{1,200}$'"

UP = f"""
-- Whoever may INSERT here starts runs: with the commit of the caller's own transaction, or not at all. A row
-- is deleted by the transaction that writes its run; one that stays was refused, or its token is of a run
-- before. No reference to other tables: an INSERT must not fail because of what the caller cannot know.
CREATE TABLE enqueued_runs (
    id            uuid PRIMARY KEY DEFAULT {ID}      -- the id of the run
        CHECK (substr(CAST(id AS text), 15, 1) = '7' AND right(CAST(id AS text), 6) = '000000'),
    tenant_id     text NOT NULL DEFAULT 'default' CHECK (tenant_id {NAME}),
    pipeline_id   text NOT NULL CHECK (pipeline_id {NAME}),
    -- As `json`, the text stays what the caller wrote.
    input         json CHECK (octet_length(CAST(input AS text)) <= 10000000),
    run_token     text CHECK (length(run_token) BETWEEN 1 AND 200),
    failure_mode  text CHECK (length(failure_mode) <= 100),
    priority      integer,
    metadata      json
        CHECK (json_typeof(metadata) = 'object' AND octet_length(CAST(metadata AS text)) <= 32768),
    traceparent   text CHECK (length(traceparent) <= 200),            -- W3C Trace Context
    -- These are the server's own: a role that may not write these columns cannot forge them.
    enqueued_by   text NOT NULL DEFAULT session_user,
    enqueued_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at        timestamptz NOT NULL DEFAULT clock_timestamp(),     -- when to start it, or to try again
    tries         integer NOT NULL DEFAULT 0,
    error_code    text CHECK (length(error_code) <= 100),             -- of the last try
    error         text CHECK (length(error) <= 1000),
    settled_at    timestamptz,           -- it was refused, or its token is of a run before
    first_run_id  uuid,                  -- that run
    CHECK (settled_at IS NOT NULL OR first_run_id IS NULL),
    CHECK (settled_at IS NULL OR error_code IS NOT NULL OR first_run_id IS NOT NULL)
);
CREATE INDEX enqueued_runs_due ON enqueued_runs (due_at) WHERE settled_at IS NULL;
CREATE INDEX enqueued_runs_settled ON enqueued_runs (settled_at) WHERE settled_at IS NOT NULL;
"""

DOWN = "DROP TABLE enqueued_runs"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
