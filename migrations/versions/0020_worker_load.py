"""Adds what worker processes say of their load with each heartbeat, and drains of workers and instances.

Every new column may be NULL, so processes of the previous version can use this schema. A worker of that
version says nothing of its load, and a drain does not reach it.
"""

from alembic import op

revision = "0020"
down_revision = "0019"

UP = """
ALTER TABLE workers
    ADD COLUMN version text CHECK (length(version) <= 200),  -- of the code that it has loaded
    ADD COLUMN drain_requested_at timestamptz,               -- an operator lets it take nothing more
    ADD COLUMN drain_reason text CHECK (length(drain_reason) <= 1000),
    ADD COLUMN lost_at timestamptz,                          -- it fell silent and did not sign off
    ADD COLUMN busy integer,                                 -- children with a message under way
    ADD COLUMN last_fetch_at timestamptz,                    -- when a child last got a message
    ADD COLUMN rss_bytes bigint,                             -- of its processes together
    ADD COLUMN cpu_percent real,                             -- of one processor
    ADD COLUMN starts_last_hour integer;                     -- calls that its children began

-- Unlike one that is set aside, an instance that drains stays so until an operator resumes it.
ALTER TABLE service_instances
    ADD COLUMN drain_requested_at timestamptz,
    ADD COLUMN drain_reason text CHECK (length(drain_reason) <= 1000);
"""

DOWN = """
ALTER TABLE service_instances DROP COLUMN drain_requested_at, DROP COLUMN drain_reason;
ALTER TABLE workers DROP COLUMN version, DROP COLUMN drain_requested_at, DROP COLUMN drain_reason,
    DROP COLUMN lost_at, DROP COLUMN busy, DROP COLUMN last_fetch_at, DROP COLUMN rss_bytes,
    DROP COLUMN cpu_percent, DROP COLUMN starts_last_hour;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
