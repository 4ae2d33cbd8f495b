"""Adds which token made a token, so that what it made can be revoked with it.

The new column may be NULL, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    # NULL: made by a command on the database itself, or before this migration.
    op.execute("ALTER TABLE access_tokens ADD COLUMN made_by uuid")
    op.execute("CREATE INDEX access_tokens_made_by ON access_tokens (made_by) WHERE made_by IS NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE access_tokens DROP COLUMN made_by")
