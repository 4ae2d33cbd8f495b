"""Adds the version of a pipeline that was promoted: triggers take it instead of the newest one.

The new columns may be NULL, so processes of the previous version can use this schema; they trigger the newest
version.
"""

from alembic import op

revision = "0071"
down_revision = "0063"

UP = """
ALTER TABLE pipelines
    ADD COLUMN promoted_version integer,     -- NULL: the newest version is the current one
    ADD COLUMN previous_version integer,     -- was current before; NULL: none was promoted yet
    ADD COLUMN promoted_at timestamptz,      -- when that was last decided
    ADD COLUMN promoted_by text CHECK (length(promoted_by) <= 200),
    ADD CONSTRAINT pipelines_promoted_check CHECK (promoted_version BETWEEN 1 AND latest_version),
    ADD CONSTRAINT pipelines_previous_check CHECK (previous_version BETWEEN 1 AND latest_version);
"""

DOWN = """
ALTER TABLE pipelines DROP COLUMN promoted_version, DROP COLUMN previous_version, DROP COLUMN promoted_at,
    DROP COLUMN promoted_by;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
