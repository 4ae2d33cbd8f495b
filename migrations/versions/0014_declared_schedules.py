"""Adds what schedules that code declares need: when it stopped to declare one, and a source more.

The new column may be NULL, and a schedule that was withdrawn has no next time, so processes of the previous
version, which do not know the column, start nothing of it either.
"""

from alembic import op

revision = "0014"
down_revision = "0013"

UP = """
ALTER TABLE schedules ADD COLUMN withdrawn_at timestamptz;   -- its code or document declares it no more
ALTER TABLE schedules DROP CONSTRAINT schedules_source_check;
ALTER TABLE schedules ADD CONSTRAINT schedules_source_check
    CHECK (source IN ('api', 'code', 'document', 'celery'));
"""

DOWN = """
UPDATE schedules SET source = 'api' WHERE source = 'celery';
ALTER TABLE schedules DROP CONSTRAINT schedules_source_check;
ALTER TABLE schedules ADD CONSTRAINT schedules_source_check CHECK (source IN ('api', 'code', 'document'));
ALTER TABLE schedules DROP COLUMN withdrawn_at;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
