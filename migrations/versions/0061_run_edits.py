"""Adds the column of runs that says what was edited for one run alone.

Processes of the version before can use this schema: the column may be NULL, and is for every run but a rerun
with other params or another input than its reused steps have read. They would call a step of such a rerun
with the params of its version.
"""

from alembic import op

revision = "0061"
down_revision = "0060"

UP = """
ALTER TABLE runs
    ADD COLUMN edits jsonb;                 -- {params: {step: params}, seen: {step: hash of an input}}
"""

DOWN = "ALTER TABLE runs DROP COLUMN edits;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
