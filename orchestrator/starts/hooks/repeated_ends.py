"""Lets a run that a redrive repairs end once for hooks and triggers, not once for each of its batches.

A redrive retries the dead letters of a run in several batches, the first of which may be a canary, and the
run ends after each. What such an end fires waits while the redrive has more to retry in the run, and is
skipped when the run went on; the last end fires. The end before the redrive is not concerned.
"""

from __future__ import annotations

from pipeweave.orchestrator.deadletters.filters import OPEN
from pipeweave.orchestrator.operations.progress import RUNNING
from pipeweave.orchestrator.starts.fires import Table
from pipeweave.orchestrator.starts.triggers.row import PIPELINE_COMPLETED
from pipeweave.orchestrator.store.database import Transaction

# The reason of a fire that was skipped.
CONTINUED = "continued"

_REOPENED = "e.run_id = f.run_id AND e.type = 'task_run.reopened' AND e.data ? 'redrive'"
_SETTLE = f"""
WITH judged AS (
    SELECT f.id,
        EXISTS (SELECT 1 FROM events AS e WHERE {_REOPENED} AND e.seq > f.seq) AS goes_on,
        EXISTS (SELECT 1 FROM dead_letters AS l
            JOIN redrives AS v ON v.id = l.redrive_id AND v.status = '{RUNNING}'
            JOIN dead_letters AS d ON d.run_id = l.run_id AND d.id < v.id
                AND d.id > coalesce(v.last_id, l.id) AND {OPEN}
            WHERE l.run_id = f.run_id) AS is_repaired
    FROM {{table}} AS f JOIN runs AS r ON r.id = f.run_id AND r.reopened_at IS NOT NULL
    WHERE f.due_at <= :now AND f.event ->> 'type' = '{PIPELINE_COMPLETED}'
        AND EXISTS (SELECT 1 FROM events AS e WHERE {_REOPENED} AND e.seq < f.seq)
)
UPDATE {{table}} AS f SET outcome = CASE WHEN j.goes_on THEN 'skipped' ELSE f.outcome END,
    reason = CASE WHEN j.goes_on THEN '{CONTINUED}' END,
    due_at = CASE WHEN j.goes_on THEN NULL ELSE CAST(:now AS timestamptz) + interval '1 second' END,
    fired_at = CASE WHEN j.goes_on THEN CAST(:now AS timestamptz) END
FROM judged AS j WHERE f.id = j.id AND f.due_at <= :now AND (j.goes_on OR j.is_repaired)
"""
_SETTLE_IN = {each: _SETTLE.format(table=each) for each in ("hook_fires", "event_fires")}


def settle(tx: Transaction, table: Table) -> None:
    """Skip or postpone the due fires of ends that are not the last ones of a redrive."""
    tx.execute(_SETTLE_IN[table], {"now": tx.now})
