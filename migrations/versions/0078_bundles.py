"""Adds the keys that tenants trust, the bundles that are installed, and which bundle brought a pipeline.

Processes of the version before can use this schema: they know no bundles, and take unsigned pipelines of
tenants that refuse them.
"""

from alembic import op

revision = "0078"
down_revision = "0077"

UP = r"""
ALTER TABLE tenants
    ADD COLUMN takes_only_signed boolean NOT NULL DEFAULT false;     -- pipelines of signed bundles only

-- A key is revoked for good. Its row stays, so that it is not taken for an unknown one.
CREATE TABLE bundle_keys (
    tenant_id      text NOT NULL REFERENCES tenants (id),
    id             text NOT NULL CHECK (id ~ '^[0-9a-f]{32}$'),      -- of the SHA-256 of the public key
    name           text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    public_key     bytea NOT NULL CHECK (octet_length(public_key) = 32),
    added_at       timestamptz NOT NULL,
    added_by       text NOT NULL CHECK (length(added_by) <= 300),
    revoked_at     timestamptz,
    revoke_reason  text CHECK (length(revoke_reason) <= 1000),
    PRIMARY KEY (tenant_id, id),
    CHECK (revoked_at IS NOT NULL OR revoke_reason IS NULL)
);
CREATE UNIQUE INDEX bundle_keys_by_name ON bundle_keys (tenant_id, name) WHERE revoked_at IS NULL;

CREATE TABLE bundles (
    tenant_id      text NOT NULL REFERENCES tenants (id),
    id             text NOT NULL CHECK (length(id) BETWEEN 1 AND 200),
    version        text NOT NULL CHECK (version ~ '^[0-9]+(\.[0-9]+){0,3}$'),
    version_order  integer[] NOT NULL CHECK (cardinality(version_order) = 4),
    state          text NOT NULL CHECK (state IN ('installed', 'superseded', 'revoked')),
    content_hash   text NOT NULL CHECK (content_hash ~ '^[0-9a-f]{64}$'),
    size           integer NOT NULL CHECK (size BETWEEN 1 AND 52428800),
    storage_path   text NOT NULL CHECK (length(storage_path) <= 2000),
    key_ids        text[] NOT NULL CHECK (cardinality(key_ids) BETWEEN 1 AND 8),
    task_ids       text[] NOT NULL,
    pipeline_ids   text[] NOT NULL,
    python         text NOT NULL CHECK (length(python) <= 200),
    files          integer NOT NULL CHECK (files >= 0),
    installed_at   timestamptz NOT NULL,
    installed_by   text NOT NULL CHECK (length(installed_by) <= 300),
    revoked_at     timestamptz,
    revoke_reason  text CHECK (length(revoke_reason) <= 1000),
    PRIMARY KEY (tenant_id, id, version),
    CHECK ((state = 'revoked') = (revoked_at IS NOT NULL)),
    CHECK (revoked_at IS NOT NULL OR revoke_reason IS NULL)
);
-- 1.4 and 1.4.0 are the same version.
CREATE UNIQUE INDEX bundles_by_order ON bundles (tenant_id, id, version_order);
CREATE UNIQUE INDEX bundles_installed ON bundles (tenant_id, id) WHERE state = 'installed';
CREATE INDEX bundles_stored ON bundles (storage_path);

-- Which bundles vouch for a version of a pipeline.
CREATE TABLE bundle_pipelines (
    tenant_id        text NOT NULL,
    pipeline_id      text NOT NULL,
    version          integer NOT NULL,
    bundle_id        text NOT NULL,
    bundle_version   text NOT NULL,
    PRIMARY KEY (tenant_id, pipeline_id, version, bundle_id, bundle_version),
    FOREIGN KEY (tenant_id, pipeline_id, version)
        REFERENCES pipeline_versions (tenant_id, pipeline_id, version),
    FOREIGN KEY (tenant_id, bundle_id, bundle_version) REFERENCES bundles (tenant_id, id, version)
);
"""

DOWN = """
DROP TABLE bundle_pipelines, bundles, bundle_keys;
ALTER TABLE tenants DROP COLUMN takes_only_signed;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
