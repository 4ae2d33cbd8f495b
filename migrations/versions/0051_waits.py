"""Adds waits and signals: what runs wait for that no worker does, and what comes to them from outside.

Processes of the version before can use this schema: the new columns may be NULL, or have a default. They take
quiet runs for active ones, and keep `runs_active` for that until the next release. A month that they drop
leaves its partition of `signals` behind; the next pass of this version drops it.
"""

from alembic import op

revision = "0051"
down_revision = "0050"

UP = """
-- Open waits only: a row is deleted when its wait ends, and the history is in events.
CREATE TABLE waits (
    run_id         uuid NOT NULL,
    task_run_id    uuid NOT NULL,           -- as run_id: the end of the run itself waits
    tenant_id      text NOT NULL,
    root_run_id    uuid NOT NULL,           -- the run that people know, and signals name
    attempt        attempt_number NOT NULL,
    kind           text NOT NULL
        CHECK (kind IN ('timer', 'signal', 'approval', 'callback', 'poll', 'child')),
    names          text[],                  -- of the signals that end it; NULL: it ends by time, or by a run
    due_at         timestamptz NOT NULL,    -- when to look next
    timeout_at     timestamptz NOT NULL,    -- no wait without an end
    data           jsonb NOT NULL,
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (run_id, task_run_id)
);
CREATE INDEX waits_due ON waits (due_at);
CREATE INDEX waits_open ON waits (tenant_id, kind, created_at, task_run_id);
CREATE INDEX waits_of_root ON waits (root_run_id);

CREATE TABLE signals (
    run_id         uuid NOT NULL,           -- the root run
    id             uuid NOT NULL,
    tenant_id      text NOT NULL,
    name           text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    payload        jsonb,
    payload_path   text,                    -- where a large payload is in storage
    size           quantity NOT NULL,       -- of the payload (bytes)
    sent_by        text,                    -- the name of the token; NULL: not known
    sent_at        timestamptz NOT NULL,
    once           text NOT NULL CHECK (length(once) BETWEEN 1 AND 200),
    taken_by       uuid,                    -- the task run whose wait took it
    taken_at       timestamptz,
    PRIMARY KEY (run_id, id),
    UNIQUE (run_id, name, once),
    CHECK (payload IS NULL OR payload_path IS NULL),
    CHECK ((taken_by IS NULL) = (taken_at IS NULL))
) PARTITION BY RANGE (run_id);
CREATE INDEX signals_untaken ON signals (run_id, name, id) WHERE taken_at IS NULL;
CREATE INDEX signals_untaken_lately ON signals (sent_at) WHERE taken_at IS NULL;

-- The months that there are: a run of any of them may get a signal.
DO $$
DECLARE
    month record;
BEGIN
    FOR month IN
        SELECT 'signals' || substr(c.relname, 5) AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds
        FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = CAST('runs' AS regclass)
    LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF signals %s', month.name, month.bounds);
    END LOOP;
END $$;

-- Since when every open task run of the run waits; NULL: something of it works, or may start.
ALTER TABLE runs ADD COLUMN quiet_since timestamptz;
CREATE INDEX runs_quiet ON runs (id) WHERE finished_at IS NULL AND quiet_since IS NOT NULL;
CREATE INDEX runs_lively ON runs (id) WHERE finished_at IS NULL AND quiet_since IS NULL;
ALTER TABLE access_tokens ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
"""

DOWN = """
ALTER TABLE access_tokens DROP COLUMN groups;
DROP INDEX runs_lively;
DROP INDEX runs_quiet;
ALTER TABLE runs DROP COLUMN quiet_since;
DROP TABLE signals;
DROP TABLE waits;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
