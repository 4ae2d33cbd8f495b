"""Adds triggers, which start runs when something happens outside or in other runs, and what they did.

Both tables are new, so processes of the previous version can use this schema; they fire nothing.
"""

from alembic import op

revision = "0013"
down_revision = "0012"

UP = """
CREATE TABLE triggers (
    tenant_id         text NOT NULL REFERENCES tenants,
    id                text NOT NULL CHECK (id ~ '^[A-Za-z0-9._~:@-]{1,200}$'),
    kind              text NOT NULL CHECK (kind IN ('webhook')),
    pipeline_id       text NOT NULL,
    filter            jsonb NOT NULL,                  -- path -> the values that let it fire
    input             jsonb,                           -- with references; NULL: all that is known
    enabled           boolean NOT NULL DEFAULT true,
    scheme            text CHECK (scheme IN ('pipeweave', 'github', 'stripe')),
    secret            text,                            -- encrypted (orchestrator/security/sealed_texts.py)
    old_secret        text,                            -- valid, too, until the time that follows
    old_secret_until  timestamptz,
    headers           text[] NOT NULL DEFAULT '{}',    -- that the run gets
    max_per_minute    integer CHECK (max_per_minute BETWEEN 1 AND 60000),
    on_time           timestamptz,                     -- of that rate (orchestrator/domain/gcra.py)
    last_fire_at      timestamptz,
    last_error_at     timestamptz,                     -- of the last fire, if it failed
    last_error_code   text CHECK (length(last_error_code) <= 100),
    last_error        text CHECK (length(last_error) <= 1000),
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines,
    CHECK (kind <> 'webhook' OR (secret IS NOT NULL AND scheme IS NOT NULL AND max_per_minute IS NOT NULL)),
    CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
);
CREATE INDEX triggers_failed ON triggers (tenant_id, id) WHERE last_error_code IS NOT NULL;

-- What a trigger fired for: each delivery, or event, once.
CREATE TABLE trigger_fires (
    tenant_id   text NOT NULL,
    trigger_id  text NOT NULL,
    key         text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    signature   text,                                  -- its SHA-256: the same one is another delivery's
    fired_at    timestamptz NOT NULL,
    run_id      uuid NOT NULL,
    PRIMARY KEY (tenant_id, trigger_id, key),
    FOREIGN KEY (tenant_id, trigger_id) REFERENCES triggers ON DELETE CASCADE
);
CREATE UNIQUE INDEX trigger_fires_signature ON trigger_fires (tenant_id, trigger_id, signature);
CREATE INDEX trigger_fires_newest ON trigger_fires (tenant_id, trigger_id, fired_at);
CREATE INDEX trigger_fires_expired ON trigger_fires (fired_at);
"""

DOWN = """
DROP TABLE trigger_fires;
DROP TABLE triggers;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
