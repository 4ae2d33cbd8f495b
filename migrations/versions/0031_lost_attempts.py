"""Adds an index of the attempts that were lost, by the worker that lost them.

Only lost attempts are in it, so nothing that ends as it should writes to it. Processes of the previous
version can use this schema.
"""

from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.execute(
        """CREATE INDEX attempts_lost ON attempts (worker COLLATE "C", finished_at) WHERE status = 'lost'"""
    )


def downgrade() -> None:
    op.execute("DROP INDEX attempts_lost")
