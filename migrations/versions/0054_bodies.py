"""Adds the columns of runs that run the body of a step.

Processes of the version before can use this schema: the columns are NULL for the run of a pipeline. They
refuse a version with a body, so they never take a task of one.
"""

from alembic import op

revision = "0054"
down_revision = "0053"

UP = """
ALTER TABLE runs
    ADD COLUMN body text,           -- the place of the body in the version; NULL: it runs a pipeline
    ADD COLUMN scope jsonb,         -- what the body sees of the steps around it
    ADD CONSTRAINT runs_body_check CHECK ((body IS NULL) = (scope IS NULL)) NOT VALID;
"""

DOWN = "ALTER TABLE runs DROP COLUMN scope, DROP COLUMN body;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
