"""Tells waits apart whose look needs something of storage, and lets tenants take turns with what is due.

Processes of the version before can use this schema: they look at all waits, and wait for storage meanwhile.
"""

from alembic import op

revision = "0056"
down_revision = "0055"

UP = """
ALTER TABLE waits ADD COLUMN needs_storage boolean NOT NULL DEFAULT false;
-- The first wait of each tenant that is due, without a look at the others of the tenant.
CREATE INDEX waits_of_tenants ON waits (tenant_id, due_at) WHERE kind <> 'poll' AND NOT needs_storage;
CREATE INDEX waits_stored ON waits (tenant_id, due_at) WHERE needs_storage;
"""

DOWN = """
DROP INDEX waits_stored;
DROP INDEX waits_of_tenants;
ALTER TABLE waits DROP COLUMN needs_storage;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
