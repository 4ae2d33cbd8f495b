"""Cancels the runs of a key that newer ones replace.

The newest runs of a key stay, as many as may be under way at once; older ones are cancelled. A newer run
waits for their ends, as what a pipeline does at the end of a cancelled run belongs to that run.
"""

from __future__ import annotations

from pipeweave.orchestrator.queueing import run_keys
from pipeweave.orchestrator.runs.triggering import cancel_open
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

CODE = "RUN_REPLACED"
# Runs that one transaction cancels at most; the tick goes on.
BATCH = 50
# Keys that one tick looks at.
KEYS_PER_TICK = 100


def cancel_old(tx: Transaction, tenant: str, pipeline_id: str, key: str) -> int:
    """Cancel the open runs of a key that newer ones replace. Returns how many."""
    old = run_keys.replaced(tx, tenant, pipeline_id, key, BATCH)
    shown = f" of key {key!r}" if key else ""
    why = f"a newer run{shown} replaced it"
    return sum(cancel_open(tx, tenant, each, why, code=CODE, stops_ending=False) for each in old)


# Only keys with a run too many: those whose newest run just waits must not keep others from their turn.
_WAITING = """
SELECT DISTINCT r.tenant_id, r.pipeline_id, r.concurrency_key FROM runs AS r
WHERE r.status = 'pending' AND r.concurrency_key IS NOT NULL AND r.concurrency_replaces
  AND EXISTS (SELECT 1 FROM (
        SELECT o.status FROM runs AS o WHERE o.tenant_id = r.tenant_id AND o.pipeline_id = r.pipeline_id
          AND o.concurrency_key = r.concurrency_key AND o.finished_at IS NULL
        ORDER BY o.id DESC OFFSET r.concurrency_limit) AS o WHERE o.status <> 'error_handling')
LIMIT :most
"""

# SQL: whether `cancel_all_old` may have anything to do: a newer run waits.
IS_DUE = """EXISTS (SELECT 1 FROM runs AS r
    WHERE r.status = 'pending' AND r.concurrency_key IS NOT NULL AND r.concurrency_replaces)"""


def cancel_all_old(database: Database) -> int:
    """Cancel what a process left that died after it had written a newer run.

    Returns:
        How many runs were cancelled.

    Raises:
        PartlyFailed: for some keys it failed; those of the others were cancelled.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        rows = [tuple(each) for each in tx.execute(_WAITING, {"most": KEYS_PER_TICK})]
    isolation = Isolation(database)
    cancelled = sum(
        isolation.run(
            lambda row=row: database.run(lambda tx: cancel_old(tx, *row)),  # type: ignore[misc]
            tenant=row[0],
            pipeline_id=row[1],
        )
        for row in rows
    )
    return isolation.finish(cancelled)
