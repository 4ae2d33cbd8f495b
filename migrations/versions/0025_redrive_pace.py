"""Adds how a redrive proceeds: how many it retries, how fast, which come first as a trial, and when it stops.

Every new column may be NULL, so processes of the previous version can use this schema. A beat of that version
retries everything at once, whatever a redrive says.
"""

from alembic import op

revision = "0025"
down_revision = "0024"

# The new constraint allows all that the old one does, so no row has to be looked at.
UP = """
ALTER TABLE redrives
    ADD COLUMN most integer CHECK (most >= 1),                   -- retried at most; NULL: all
    ADD COLUMN canary integer CHECK (canary >= 1),               -- so many first, and their ends are awaited
    ADD COLUMN canary_ended_at timestamptz,                      -- since then the others follow
    ADD COLUMN per_second double precision CHECK (per_second > 0),   -- NULL: as fast as it goes
    ADD COLUMN stop_percent double precision CHECK (stop_percent BETWEEN 0 AND 100),
    ADD COLUMN stopped_because text CHECK (length(stopped_because) <= 1000),
    ADD COLUMN next_at timestamptz,                              -- no further retries before
    DROP CONSTRAINT redrives_status_check,
    ADD CONSTRAINT redrives_status_check
        CHECK (status IN ('running', 'completed', 'cancelled', 'stopped')) NOT VALID;

-- Which redrive retried a dead letter: what became of its retry decides whether the redrive goes on.
ALTER TABLE dead_letters ADD COLUMN redrive_id uuid;
CREATE INDEX dead_letters_of_redrive ON dead_letters (redrive_id, id) WHERE redrive_id IS NOT NULL;
"""

DOWN = """
DROP INDEX dead_letters_of_redrive;
ALTER TABLE dead_letters DROP COLUMN redrive_id;
UPDATE redrives SET status = 'cancelled' WHERE status = 'stopped';
ALTER TABLE redrives
    DROP CONSTRAINT redrives_status_check,
    ADD CONSTRAINT redrives_status_check CHECK (status IN ('running', 'completed', 'cancelled')),
    DROP COLUMN most, DROP COLUMN canary, DROP COLUMN canary_ended_at, DROP COLUMN per_second,
    DROP COLUMN stop_percent, DROP COLUMN stopped_because, DROP COLUMN next_at;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
