"""Adds the audit: who changed what, when, with which token or session.

The table is new, so processes of the previous version can use this schema; what they change is not in it.
"""

from alembic import op

revision = "0027"
down_revision = "0026"

UP = """
-- One row for each request or command that changes something, written in the transaction of the change.
CREATE TABLE audit (
    id          uuid PRIMARY KEY,
    tenant_id   text,                    -- NULL: it concerns the whole deployment
    at          timestamptz NOT NULL,
    source      text NOT NULL CHECK (source IN ('token', 'session', 'command')),
    actor       text NOT NULL CHECK (length(actor) BETWEEN 1 AND 300),
    token_id    uuid,
    session_id  uuid,
    verb        text NOT NULL CHECK (length(verb) <= 100),
    kind        text NOT NULL CHECK (length(kind) <= 100),
    object      text NOT NULL CHECK (length(object) <= 500),   -- '': all of that kind, or what `given` says
    given       jsonb,                   -- what was asked for, without secrets
    before      jsonb,                   -- the members that the change changed
    after       jsonb,
    reason      text CHECK (length(reason) <= 1000),
    request_id  text CHECK (length(request_id) <= 200)
);
CREATE INDEX audit_of_tenant ON audit (tenant_id, id);
CREATE INDEX audit_by_actor ON audit (actor, id);
CREATE INDEX audit_by_verb ON audit (verb, id);
CREATE INDEX audit_by_object ON audit (object, id);
CREATE INDEX audit_by_age ON audit (at);
"""

DOWN = "DROP TABLE audit;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
