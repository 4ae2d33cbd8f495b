"""Keeps how many children of a worker were replaced because of their memory.

Processes of the version before can use this schema: the column has a default.
"""

from alembic import op

revision = "0074"
down_revision = "0073"

UP = """
ALTER TABLE workers
    ADD COLUMN memory_replacements integer NOT NULL DEFAULT 0 CHECK (memory_replacements >= 0);
"""

DOWN = "ALTER TABLE workers DROP COLUMN memory_replacements;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
