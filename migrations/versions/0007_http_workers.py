"""Adds the instances of HTTP services, assets and logs of attempts, uploads, and the sweep of the storage.

Every new column has a default or may be NULL, so processes of the previous version can use this schema. They
refuse pipelines with tasks of HTTP services, as before.
"""

from alembic import op

revision = "0007"
down_revision = "0006"

SERVICES = """
ALTER TABLE services
    -- How its dispatches say where values are: in an encrypted token, or in signed URLs of single objects.
    ADD COLUMN storage_access text NOT NULL DEFAULT 'token' CHECK (storage_access IN ('token', 'urls')),
    ADD COLUMN token_format text NOT NULL DEFAULT 'sdk' CHECK (token_format IN ('sdk', 'pbkdf2')),
    -- Replaces the URL that instances register: a URL, or 'peer' for the address that they registered from.
    ADD COLUMN base_url_override text CHECK (length(base_url_override) <= 2000),
    ADD COLUMN disabled_at timestamptz;                  -- an operator switched it off

-- Each process of an HTTP service that registered; a dispatch goes to one that is not set aside.
CREATE TABLE service_instances (
    tenant_id      text NOT NULL,
    service_id     text NOT NULL,
    base_url       text NOT NULL CHECK (length(base_url) <= 2000),   -- where dispatches go
    registered_url text NOT NULL CHECK (length(registered_url) <= 2000),
    version        text NOT NULL,
    tasks          text[] NOT NULL,                      -- that it named when it registered
    digest         text NOT NULL,                        -- of its registration: the same changes nothing
    registered_at  timestamptz NOT NULL,
    last_seen_at   timestamptz NOT NULL,             -- a registration, an accepted dispatch, a good probe
    set_aside_at   timestamptz,                      -- it refused or did not answer; NULL: takes dispatches
    refusals       integer NOT NULL DEFAULT 0 CHECK (refusals >= 0),   -- in a row
    probe_at       timestamptz,                          -- when the tick asks it again
    last_error     text CHECK (length(last_error) <= 1000),
    PRIMARY KEY (tenant_id, service_id, base_url),
    FOREIGN KEY (tenant_id, service_id) REFERENCES services ON DELETE CASCADE,
    CHECK ((set_aside_at IS NULL) = (probe_at IS NULL))
);
CREATE INDEX service_instances_to_probe ON service_instances (probe_at) WHERE probe_at IS NOT NULL;
"""

RUNS = """
ALTER TABLE task_runs
    ADD COLUMN dispatched_at timestamptz,    -- when the service took the dispatch
    ADD COLUMN assets jsonb,                 -- key -> {path, size, type}
    ADD COLUMN logs_path text;
ALTER TABLE attempts
    ADD COLUMN dispatched_at timestamptz,
    ADD COLUMN logs_path text;
ALTER TABLE idempotency_claims ADD COLUMN assets jsonb;

-- Which rows refer to an object in storage. Only values that are too large for their row cost an entry.
CREATE INDEX runs_input_path ON runs (input_path) WHERE input_path IS NOT NULL;
CREATE INDEX task_runs_output_path ON task_runs (output_path) WHERE output_path IS NOT NULL;
CREATE INDEX dead_letters_input_path ON dead_letters (input_path) WHERE input_path IS NOT NULL;
CREATE INDEX idempotency_claims_output_path ON idempotency_claims (output_path)
    WHERE output_path IS NOT NULL;
-- A result that is reused under a key names the files of the attempt that made it.
CREATE INDEX task_runs_reused_assets ON task_runs (cached_from)
    WHERE cached_from IS NOT NULL AND assets IS NOT NULL;
CREATE INDEX idempotency_claims_with_assets ON idempotency_claims (task_run_id) WHERE assets IS NOT NULL;
"""

STORAGE = """
CREATE TABLE temp_uploads (
    id                 uuid PRIMARY KEY,
    tenant_id          text NOT NULL REFERENCES tenants,
    storage_path       text NOT NULL,
    filename           text NOT NULL CHECK (length(filename) BETWEEN 1 AND 255),
    mime_type          text NOT NULL CHECK (length(mime_type) <= 255),
    size_bytes         bigint NOT NULL CHECK (size_bytes >= 0),
    sha256             sha256_hex NOT NULL,
    uploaded_by        text NOT NULL CHECK (length(uploaded_by) <= 200),
    uploaded_at        timestamptz NOT NULL,
    expires_at         timestamptz NOT NULL,
    claimed_by_run_id  uuid,
    deleted_at         timestamptz
);
CREATE INDEX temp_uploads_newest ON temp_uploads (tenant_id, id);
CREATE INDEX temp_uploads_expired ON temp_uploads (expires_at)
    WHERE deleted_at IS NULL AND claimed_by_run_id IS NULL;
CREATE INDEX temp_uploads_deleted ON temp_uploads (deleted_at) WHERE deleted_at IS NOT NULL;

-- Every run whose input names the upload; `claimed_by_run_id` is the first of them.
CREATE TABLE upload_claims (
    run_id     uuid NOT NULL,
    upload_id  uuid NOT NULL REFERENCES temp_uploads ON DELETE CASCADE,
    PRIMARY KEY (run_id, upload_id)
);
CREATE INDEX upload_claims_of_upload ON upload_claims (upload_id);

-- How far the tick has looked for objects that no row refers to, in each storage backend.
CREATE TABLE storage_sweeps (
    backend_id     text PRIMARY KEY CHECK (length(backend_id) BETWEEN 1 AND 200),
    mark           text CHECK (length(mark) <= 100),   -- of this deployment, in the backend
    last_path      text,                     -- the pass goes on behind it; NULL: no pass is under way
    doomed         text[],                   -- objects that are being deleted at this moment,
    doomed_until   timestamptz,              -- and not any more after this time
    began_at       timestamptz,
    finished_at    timestamptz,
    error          text CHECK (length(error) <= 1000),   -- why the last pass could not go on
    seen           bigint NOT NULL DEFAULT 0,
    deleted        bigint NOT NULL DEFAULT 0,
    deleted_bytes  bigint NOT NULL DEFAULT 0
);
"""

DOWN = """
DROP TABLE storage_sweeps;
DROP TABLE upload_claims;
DROP TABLE temp_uploads;
DROP INDEX runs_input_path, task_runs_output_path, dead_letters_input_path, idempotency_claims_output_path,
    task_runs_reused_assets, idempotency_claims_with_assets;
ALTER TABLE idempotency_claims DROP COLUMN assets;
ALTER TABLE attempts DROP COLUMN dispatched_at, DROP COLUMN logs_path;
ALTER TABLE task_runs DROP COLUMN dispatched_at, DROP COLUMN assets, DROP COLUMN logs_path;
DROP TABLE service_instances;
ALTER TABLE services DROP COLUMN storage_access, DROP COLUMN token_format, DROP COLUMN base_url_override,
    DROP COLUMN disabled_at;
"""


def upgrade() -> None:
    for part in (SERVICES, RUNS, STORAGE):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
