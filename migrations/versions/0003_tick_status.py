"""Adds each tick chore's last result, the time each event was written, and defaults missing in 0002.

Every new column has a default or may be NULL, so processes of the previous version can use this schema.
"""

from alembic import op

revision = "0003"
down_revision = "0002"

# 0002 was shipped without these defaults: it refused INSERTs of the previous version, which lack the columns.
DEAD_LETTERS = """
ALTER TABLE dead_letters
    ALTER COLUMN kind SET DEFAULT 'task',
    ALTER COLUMN status SET DEFAULT 'failed',
    ALTER COLUMN history SET DEFAULT '[]';
"""

# NULL: written before this migration. Setting the default in its own statement rewrites no row.
EVENTS = """
ALTER TABLE events ADD COLUMN written_at timestamptz;
ALTER TABLE events ALTER COLUMN written_at SET DEFAULT clock_timestamp();
"""

MACHINE = """
CREATE TABLE tick_chores (
    name        text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
    ran_at      timestamptz NOT NULL,
    took_ms     bigint NOT NULL CHECK (took_ms >= 0),
    failures    bigint NOT NULL DEFAULT 0 CHECK (failures >= 0),   -- ticks in a row, up to the last one
    errors      bigint NOT NULL DEFAULT 0 CHECK (errors >= failures),   -- ticks at which it ever failed
    failed_at   timestamptz,
    error_code  text,
    error       text CHECK (length(error) <= 1000),
    CHECK ((errors = 0) = (failed_at IS NULL) AND (failed_at IS NULL) = (error_code IS NULL))
);
"""

DOWN = """
DROP TABLE tick_chores;
ALTER TABLE events DROP COLUMN written_at;
"""


def upgrade() -> None:
    for part in (DEAD_LETTERS, EVENTS, MACHINE):
        op.execute(part)


def downgrade() -> None:
    op.execute(DOWN)
