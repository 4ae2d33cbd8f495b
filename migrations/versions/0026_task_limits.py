"""Adds the limits that operators give tasks, beside those that their code declares.

Every new column may be NULL, so processes of the previous version can use this schema. A worker of that
version that registers a task gives it the declared limits; the next one of this version restores the
operator's.
"""

from alembic import op

revision = "0026"
down_revision = "0025"

# `concurrency`, `rate_limit` and `rate_seconds` stay what holds, so that nothing else has to look at these.
UP = """
ALTER TABLE tasks
    ADD COLUMN declared_concurrency integer,             -- as the code has it; NULL: as it holds
    ADD COLUMN declared_rate text,                       -- '100/m', or '' for none
    ADD COLUMN concurrency_override integer CHECK (concurrency_override >= 0),   -- 0: no limit
    ADD COLUMN rate_override text CHECK (length(rate_override) <= 20),           -- '': no limit
    ADD COLUMN limits_set_at timestamptz,
    ADD COLUMN limits_set_by text CHECK (length(limits_set_by) <= 200),
    ADD COLUMN limits_reason text CHECK (length(limits_reason) <= 1000),
    ADD CONSTRAINT tasks_overrides_are_set CHECK ((limits_set_at IS NULL)
        = (concurrency_override IS NULL AND rate_override IS NULL)) NOT VALID;
"""

# What the code declares holds again.
DOWN = """
UPDATE tasks SET concurrency = coalesce(declared_concurrency, concurrency)
    WHERE concurrency_override IS NOT NULL;
ALTER TABLE tasks DROP CONSTRAINT tasks_overrides_are_set, DROP COLUMN declared_concurrency,
    DROP COLUMN declared_rate, DROP COLUMN concurrency_override, DROP COLUMN rate_override,
    DROP COLUMN limits_set_at, DROP COLUMN limits_set_by, DROP COLUMN limits_reason;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
