"""Lets a transaction that enqueues runs wake beat up, while beat sleeps.

Beat tells by an advisory lock that it sleeps (orchestrator/store/alarm.py). Only then a statement
that adds rows notifies it: at its commit, a transaction that has notified waits for all others that have. One
expression takes and returns the lock, so that nothing can end the statement in between. Whatever goes wrong
here is not worth the caller's transaction: a look finds the rows, too.

Processes of the version before can use this schema: their beat never sleeps, so nothing is notified.
"""

from alembic import op

revision = "0092"
down_revision = "0091"

UP = """
CREATE FUNCTION wake_beat() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(1701736821, CAST(TG_RELID AS integer))
        THEN pg_catalog.pg_advisory_unlock_shared(1701736821, CAST(TG_RELID AS integer)) ELSE false END)
    THEN
        PERFORM pg_catalog.pg_notify('pipeweave_rows', '');
    END IF;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
CREATE TRIGGER wakes_beat AFTER INSERT ON enqueued_runs FOR EACH STATEMENT EXECUTE FUNCTION wake_beat();
"""

DOWN = """
DROP TRIGGER wakes_beat ON enqueued_runs;
DROP FUNCTION wake_beat();
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
