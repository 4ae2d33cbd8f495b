"""Adds triggers that fire for events of runs: how far the events were read, and what each one fired.

Both tables are new, and the new columns may be NULL or have defaults, so processes of the previous version
can use this schema; they fire nothing.
"""

from alembic import op

revision = "0016"
down_revision = "0015"

UP = """
ALTER TABLE triggers
    DROP CONSTRAINT triggers_kind_check,
    ADD CONSTRAINT triggers_kind_check CHECK (kind IN ('webhook', 'event')),
    ADD COLUMN event text CHECK (event IN ('pipeline-completed', 'task-completed')),
    ADD COLUMN allows_self boolean NOT NULL DEFAULT false,   -- its own pipeline's runs fire it, too
    ADD COLUMN enabled_at timestamptz,                       -- what happened before does not fire it
    ADD CONSTRAINT triggers_of_events_are_sane
        CHECK (kind <> 'event' OR (event IS NOT NULL AND enabled_at IS NOT NULL));
CREATE INDEX triggers_of_events ON triggers (tenant_id, id) WHERE kind = 'event' AND enabled;

-- How far the event log was read. There is no row while nothing fires for events.
CREATE TABLE event_reader (
    singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    since      xid8 NOT NULL,      -- all transactions before had ended when the first trigger was stored
    place      text,               -- orchestrator/feed/place_text.py; NULL: at `since`
    read_at    timestamptz NOT NULL
);

-- What an event fires: each trigger once. It is written where the event is read, and fires later.
CREATE TABLE event_fires (
    id              uuid PRIMARY KEY,
    tenant_id       text NOT NULL,
    trigger_id      text NOT NULL,
    run_id          uuid NOT NULL,          -- whose event it is
    seq             bigint NOT NULL,        -- the event
    event           jsonb NOT NULL,         -- as the new run gets it
    depth           integer NOT NULL CHECK (depth >= 1),   -- so many fires led to it
    outcome         text NOT NULL CHECK (outcome IN ('waiting', 'fired', 'failed', 'skipped')),
    reason          text CHECK (length(reason) <= 100),    -- why it was skipped
    error_code      text CHECK (length(error_code) <= 100),
    error           text CHECK (length(error) <= 1000),
    started_run_id  uuid,
    created_at      timestamptz NOT NULL,
    due_at          timestamptz,            -- NULL: it is over
    fired_at        timestamptz,
    UNIQUE (run_id, seq, trigger_id),
    CHECK ((outcome = 'waiting') = (due_at IS NOT NULL)),
    CHECK ((outcome = 'waiting') = (fired_at IS NULL))
);
CREATE INDEX event_fires_due ON event_fires (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX event_fires_newest ON event_fires (tenant_id, trigger_id, id);
CREATE INDEX event_fires_started ON event_fires (started_run_id) WHERE started_run_id IS NOT NULL;
CREATE INDEX event_fires_over ON event_fires (fired_at) WHERE fired_at IS NOT NULL;
"""

DOWN = """
DROP TABLE event_fires;
DROP TABLE event_reader;
DELETE FROM triggers WHERE kind = 'event';
DROP INDEX triggers_of_events;
ALTER TABLE triggers
    DROP CONSTRAINT triggers_of_events_are_sane,
    DROP COLUMN event,
    DROP COLUMN allows_self,
    DROP COLUMN enabled_at,
    DROP CONSTRAINT triggers_kind_check,
    ADD CONSTRAINT triggers_kind_check CHECK (kind IN ('webhook'));
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
