"""Adds the claims of files that lie by their content: which attempt has which object among its assets.

Processes of the version before can use this schema: their files lie below `runs/<attempt>/assets/`, as
before, and need no claim. But their sweep knows no claims, so it takes files of newer processes for nobody's
when they are older than STORAGE_GRACE_HOURS: update all processes within that time.
"""

from alembic import op

revision = "0084"
down_revision = "0082"

UP = """
CREATE TABLE asset_claims (
    path         text NOT NULL CHECK (path ~ '^.+//artifacts/sha256/([0-9a-f]{2})/\\1[0-9a-f]{62}$'),
    run_id       uuid NOT NULL,
    task_run_id  uuid NOT NULL,
    attempt      integer NOT NULL CHECK (attempt >= 1),
    tenant_id    text NOT NULL CHECK (length(tenant_id) BETWEEN 1 AND 200),
    PRIMARY KEY (path, tenant_id, task_run_id, attempt)
);
CREATE INDEX asset_claims_of_run ON asset_claims (run_id);
"""

DOWN = "DROP TABLE asset_claims;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
