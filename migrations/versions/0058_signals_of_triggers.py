"""Lets webhook triggers send a signal to a run, instead of starting one or besides.

Processes of the version before can use this schema: they start a run for each delivery.
"""

from alembic import op

revision = "0058"
down_revision = "0057"

UP = """
-- {name, runToken, payload, orStart}; NULL: it starts runs.
ALTER TABLE triggers ADD COLUMN signal jsonb;
-- That a delivery sent to its run.
ALTER TABLE trigger_fires ADD COLUMN signal_id uuid;
"""

DOWN = """
ALTER TABLE trigger_fires DROP COLUMN signal_id;
ALTER TABLE triggers DROP COLUMN signal;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
