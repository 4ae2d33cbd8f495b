"""Adds to each dropped month the last transaction that wrote an event of it: who had read that has missed
nothing.

The new column may be NULL, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    # NULL: dropped by a process of an earlier version. 0: no event was in it.
    op.execute("ALTER TABLE dropped_months ADD COLUMN last_txid xid8")


def downgrade() -> None:
    op.execute("ALTER TABLE dropped_months DROP COLUMN last_txid")
