"""Adds what tokens are bound to, and the sessions of people whom an OIDC provider vouches for.

The columns are new, may be NULL or have a default, and those that must not be NULL any more may be so: so
processes of the version before can use this schema. They pass over the sessions of people.
"""

from alembic import op

revision = "0073"
down_revision = "0071"

UP = """
ALTER TABLE access_tokens
    -- '{}': from everywhere.
    ADD COLUMN networks cidr[] NOT NULL DEFAULT '{}',
    -- The only service for which it may register.
    ADD COLUMN service_id text,
    -- SHA-256 of the certificate that its sender must have, as hex (RFC 8705, x5t#S256).
    ADD COLUMN certificate text,
    -- The person who made it in the dashboard, as the provider calls them.
    ADD COLUMN made_by_subject text,
    ADD CONSTRAINT access_tokens_networks CHECK (
        array_position(networks, NULL) IS NULL AND cardinality(networks) <= 50),
    ADD CONSTRAINT access_tokens_service CHECK (
        service_id IS NULL
        OR (service_id ~ '^[A-Za-z0-9._~:@-]{1,200}$' AND scopes = '{orchestrator:worker}')),
    ADD CONSTRAINT access_tokens_certificate CHECK (certificate ~ '^[0-9a-f]{64}$'),
    ADD CONSTRAINT access_tokens_one_maker CHECK (made_by IS NULL OR made_by_subject IS NULL),
    ADD CONSTRAINT access_tokens_subject CHECK (length(made_by_subject) BETWEEN 1 AND 255);
CREATE INDEX access_tokens_made_by_subject ON access_tokens (made_by_subject)
    WHERE made_by_subject IS NOT NULL;

ALTER TABLE ui_sessions
    ALTER COLUMN token_id DROP NOT NULL,
    -- A person, as the provider calls them: for the issuer, and for people.
    ADD COLUMN issuer text,
    ADD COLUMN subject text,
    ADD COLUMN person text,
    -- Tenants of all roles, and the roles: [{"tenants": […], "scopes": […]}, …].
    ADD COLUMN tenants text[],
    ADD COLUMN roles jsonb,
    ADD COLUMN groups text[],
    -- Sealed; NULL: the provider gave none, and the session is as short as its rights.
    ADD COLUMN refresh_token text,
    -- When the provider was last asked, and when it last said what the person may do.
    ADD COLUMN asked_at timestamptz,
    ADD COLUMN rights_at timestamptz,
    ADD CONSTRAINT ui_sessions_token_or_person CHECK ((token_id IS NULL) <> (subject IS NULL)),
    ADD CONSTRAINT ui_sessions_person CHECK (
        num_nulls(subject, issuer, person, tenants, roles, groups, asked_at, rights_at) IN (0, 8)),
    ADD CONSTRAINT ui_sessions_of_token CHECK (subject IS NOT NULL OR refresh_token IS NULL),
    ADD CONSTRAINT ui_sessions_rights CHECK (
        cardinality(tenants) > 0 AND jsonb_typeof(roles) = 'array' AND jsonb_array_length(roles) > 0
        AND length(subject) BETWEEN 1 AND 255 AND length(issuer) BETWEEN 1 AND 2000
        AND length(person) BETWEEN 1 AND 255 AND rights_at <= asked_at);
CREATE INDEX ui_sessions_subject ON ui_sessions (subject) WHERE subject IS NOT NULL;
"""

DOWN = """
DELETE FROM ui_sessions WHERE token_id IS NULL;
ALTER TABLE ui_sessions
    DROP COLUMN rights_at, DROP COLUMN asked_at, DROP COLUMN refresh_token, DROP COLUMN groups,
    DROP COLUMN roles, DROP COLUMN tenants, DROP COLUMN person, DROP COLUMN subject, DROP COLUMN issuer,
    ALTER COLUMN token_id SET NOT NULL;
ALTER TABLE access_tokens
    DROP COLUMN made_by_subject, DROP COLUMN certificate, DROP COLUMN service_id, DROP COLUMN networks;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
