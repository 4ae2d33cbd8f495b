"""Adds the hooks of pipelines: what follows the end of a run, and what each of them did.

The table is new and the column may be NULL, so processes of the previous version can use this schema; they
fire no hook.
"""

from alembic import op

revision = "0018"
down_revision = "0017"

UP = """
-- {onSuccess, onPartial, onFailure}: pipelines, and URLs with the names of their secrets.
ALTER TABLE pipeline_versions ADD COLUMN hooks jsonb;
CREATE INDEX pipeline_versions_with_hooks ON pipeline_versions (tenant_id, pipeline_id, version)
    WHERE hooks IS NOT NULL;

-- What the end of a run fires: each hook of its version once. A call is tried until it is answered.
CREATE TABLE hook_fires (
    id               uuid PRIMARY KEY,       -- the idempotency key of a call
    tenant_id        text NOT NULL,
    pipeline_id      text NOT NULL,
    run_id           uuid NOT NULL,          -- that ended
    seq              bigint NOT NULL,        -- the event of its end
    hook             text NOT NULL CHECK (hook IN ('onSuccess', 'onPartial', 'onFailure')),
    place            integer NOT NULL CHECK (place >= 0),
    target_pipeline  text,                   -- what is started, or else
    url              text,                   -- what is called
    secret           text,                   -- the name of the secret that signs the call
    event            jsonb NOT NULL,         -- what it gets
    depth            integer NOT NULL CHECK (depth >= 1),
    outcome          text NOT NULL CHECK (outcome IN ('waiting', 'fired', 'failed', 'skipped')),
    attempts         integer NOT NULL DEFAULT 0,
    reason           text CHECK (length(reason) <= 100),
    error_code       text CHECK (length(error_code) <= 100),
    error            text CHECK (length(error) <= 1000),   -- of the last try
    started_run_id   uuid,
    created_at       timestamptz NOT NULL,
    due_at           timestamptz,            -- of the next try; NULL: it is over
    fired_at         timestamptz,
    UNIQUE (run_id, seq, hook, place),
    CHECK ((target_pipeline IS NULL) <> (url IS NULL) AND (url IS NULL) = (secret IS NULL)),
    CHECK ((outcome = 'waiting') = (due_at IS NOT NULL)),
    CHECK ((outcome = 'waiting') = (fired_at IS NULL))
);
CREATE INDEX hook_fires_due ON hook_fires (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX hook_fires_started ON hook_fires (started_run_id) WHERE started_run_id IS NOT NULL;
CREATE INDEX hook_fires_over ON hook_fires (fired_at) WHERE fired_at IS NOT NULL;
CREATE INDEX hook_fires_failed ON hook_fires (fired_at) WHERE outcome = 'failed';
"""

DOWN = """
DROP TABLE hook_fires;
DROP INDEX pipeline_versions_with_hooks;
ALTER TABLE pipeline_versions DROP COLUMN hooks;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
