"""Adds the input schema and the output of each version of a pipeline, and the parameters of each task.

Every new column may be NULL, so processes of the previous version can use this schema: they leave the columns
empty, and read the spec of a version without them.
"""

from alembic import op

revision = "0006"
down_revision = "0005"

VERSIONS = """
ALTER TABLE pipeline_versions
    ADD COLUMN input_schema jsonb,   -- `inputSchema` of the spec; NULL: the input is not checked
    ADD COLUMN output jsonb;         -- `output` of the spec; NULL: that of the end step
"""

TASKS = """
ALTER TABLE tasks ADD COLUMN parameters jsonb;   -- of its function, as an input schema; NULL: not known
"""

DOWN = """
ALTER TABLE tasks DROP COLUMN parameters;
ALTER TABLE pipeline_versions DROP COLUMN input_schema, DROP COLUMN output;
"""


def upgrade() -> None:
    for part in (VERSIONS, TASKS):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
