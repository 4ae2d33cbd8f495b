"""Adds the sessions of browsers, the links that begin one, and when a token was last used.

The tables are new and the column may be NULL, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0022"
down_revision = "0021"

UP = """
-- Noted once in some minutes, not with each request.
ALTER TABLE access_tokens ADD COLUMN used_at timestamptz;

-- A browser that logged in with a token. Its cookie is stored as a hash only, and it ends with the token.
CREATE TABLE ui_sessions (
    id          uuid PRIMARY KEY,
    hash        text NOT NULL UNIQUE CHECK (hash ~ '^[0-9a-f]{64}$'),
    token_id    uuid NOT NULL REFERENCES access_tokens ON DELETE CASCADE,
    agent       text CHECK (length(agent) <= 200),     -- what the browser calls itself
    created_at  timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,                  -- the earlier end: of idling, or of the longest life
    CHECK (seen_at >= created_at AND expires_at > seen_at)
);
CREATE INDEX ui_sessions_token ON ui_sessions (token_id);
CREATE INDEX ui_sessions_expires ON ui_sessions (expires_at);

-- A link that logs a browser in, once.
CREATE TABLE ui_links (
    hash        text PRIMARY KEY CHECK (hash ~ '^[0-9a-f]{64}$'),
    token_id    uuid NOT NULL REFERENCES access_tokens ON DELETE CASCADE,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX ui_links_token ON ui_links (token_id);
CREATE INDEX ui_links_expires ON ui_links (expires_at);
"""

DOWN = """
DROP TABLE ui_links;
DROP TABLE ui_sessions;
ALTER TABLE access_tokens DROP COLUMN used_at;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
