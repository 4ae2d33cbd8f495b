"""Finding what a crash or a wiped broker left behind: messages that never arrived, joins whose chord
never fired.
"""

from __future__ import annotations

from datetime import timedelta

from pipeweave import ids
from pipeweave.orchestrator import run_header
from pipeweave.orchestrator.canvas import Canvas
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.outbox import JoinCheck, Released
from pipeweave.orchestrator.plan import END
from pipeweave.orchestrator.registry import queue_name

# One tick sends at most this much again; the next one goes on.
BATCH = 1_000

_QUEUES = "SELECT DISTINCT t.queue FROM task_runs AS t WHERE t.status = 'queued' AND t.queued_at < :late"

# Marked as sent again, so that the next tick does not send it a third time before it had a chance.
_REPUBLISH = """
UPDATE task_runs AS t SET queued_at = :now
WHERE (t.run_id, t.id) IN (
    SELECT s.run_id, s.id FROM task_runs AS s
    WHERE s.status = 'queued' AND s.queued_at < :late AND s.queue = :queue
    ORDER BY s.queued_at LIMIT :batch FOR UPDATE SKIP LOCKED)
RETURNING t.run_id, t.id, t.attempt, t.task_id, t.priority
"""


def republish(tx: Transaction, canvas: Canvas, late: timedelta) -> int:
    """Send again what has been queued for long while its queue is empty: its message is lost.

    A queue that is merely long is left alone, else each tick would make it longer (docs/celery.md).
    """
    count = 0
    for queue in tx.execute(_QUEUES, {"late": tx.now - late}).scalars().all():
        if canvas.depth(queue) > 0:
            continue
        parameters = {"now": tx.now, "late": tx.now - late, "queue": queue, "batch": BATCH}
        for row in sorted(tx.execute(_REPUBLISH, parameters).all(), key=lambda each: each.id):
            tx.send(
                Released(row.run_id, ids.ordinal_of(row.id), row.attempt, row.task_id, queue, row.priority)
            )
            count += 1
    return count


# Runs that nothing moves: whatever is open only waits. Bounded by the number of active runs, not by history.
_STALLED = """
SELECT r.id, r.tenant_id FROM runs AS r
WHERE r.status IN ('running', 'error_handling') AND r.created_at < :late
  AND NOT EXISTS (SELECT 1 FROM task_runs AS t
                  WHERE t.run_id = r.id AND t.status IN ('ready', 'queued', 'running'))
ORDER BY r.id LIMIT :batch
"""

_WAITING = """
SELECT t.id, t.queue FROM task_runs AS t
WHERE t.run_id = :run_id AND t.status IN ('pending', 'waiting') AND t.kind <> 'item' ORDER BY t.id
"""


def check_stalled(tx: Transaction, late: timedelta) -> int:
    """Ask for every join of a run in which nothing moves: a chord that never fired is released by its
    check.
    """
    count = 0
    for row in tx.execute(_STALLED, {"late": tx.now - late, "batch": BATCH}).all():
        run = run_header.load(tx, row.id)
        if run is None:
            continue
        waiting = tx.execute(_WAITING, {"run_id": row.id}).all()
        queue = waiting[0].queue if waiting else queue_name(row.tenant_id, "python")
        checks = [JoinCheck(row.id, ids.ordinal_of(each.id), each.queue) for each in waiting]
        tx.send(*checks, JoinCheck(row.id, END, queue))
        count += len(checks) + 1
    return count
