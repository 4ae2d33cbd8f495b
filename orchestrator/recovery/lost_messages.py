"""Finding what a crash or a wiped broker left behind: messages that never arrived, joins whose chord
never fired.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.outbox import JoinCheck, Released
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import ADVANCING_RUN, sql_in
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.messaging.publisher import Publisher, level
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

# One tick sends at most this much again; the next one goes on.
BATCH = 1_000

# A message may leave this long after its row was written: what is younger is not missed.
LEEWAY = timedelta(seconds=2)

# The queues and priorities whose oldest row is `:late`, by a few looks into the index, however long they are.
OLDEST = """
WITH RECURSIVE oldest AS (
    (SELECT t.queue, t.priority, t.queued_at FROM task_runs AS t WHERE t.status = 'queued'
     ORDER BY t.queue, t.priority, t.queued_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.priority, n.queued_at FROM oldest AS o CROSS JOIN LATERAL (
        SELECT t.queue, t.priority, t.queued_at FROM task_runs AS t
        WHERE t.status = 'queued' AND (t.queue, t.priority) > (o.queue, o.priority)
        ORDER BY t.queue, t.priority, t.queued_at LIMIT 1) AS n
)
SELECT o.queue, o.priority FROM oldest AS o WHERE o.queued_at < :late
"""

# Marked as sent again, so that the next tick does not send it a third time before it had a chance. Tenants
# take turns: the many lost messages of one do not make those of another wait.
_REPUBLISH = """
WITH lost AS MATERIALIZED (
    SELECT l.run_id, l.id FROM (
        SELECT o.run_id, o.id, row_number() OVER (PARTITION BY o.tenant_id ORDER BY o.priority, o.queued_at)
            AS turn
        FROM unnest(CAST(:queues AS text[]), CAST(:priorities AS integer[]), CAST(:befores AS timestamptz[]))
                AS p(queue, priority, before)
            CROSS JOIN LATERAL (
                SELECT s.run_id, s.id, s.tenant_id, s.priority, s.queued_at FROM task_runs AS s
                WHERE s.status = 'queued' AND s.queue = p.queue AND s.priority = p.priority
                  AND s.queued_at < p.before
                ORDER BY s.queued_at LIMIT :batch FOR UPDATE SKIP LOCKED) AS o) AS l
    ORDER BY l.turn LIMIT :batch
)
UPDATE task_runs AS t SET queued_at = :now FROM lost AS l WHERE t.run_id = l.run_id AND t.id = l.id
RETURNING t.run_id, t.id, t.attempt, t.task_id, t.priority, t.queue
"""


def republish(tx: Transaction, publisher: Publisher, late: timedelta) -> int:
    """Send again what has been queued for long and is older than the oldest message: its message is lost.

    A queue that is merely long is left alone, else each tick would make it longer (docs/celery.md). Nothing
    is sent while the broker is away.
    """
    try:
        befores = _lost_before(tx, publisher, late)
    except Unavailable as error:
        log.info("republish.delayed", extra={"reason": error.detail})
        return 0
    if not befores:
        return 0
    parameters = {
        "queues": [queue for queue, _ in befores],
        "priorities": [priority for _, priority in befores],
        "befores": list(befores.values()),
        "now": tx.now,
        "batch": BATCH,
    }
    found: list[Any] = list(tx.execute(_REPUBLISH, parameters))
    for each in sorted(found, key=lambda each: (each.priority, each.id)):
        ordinal = ids.ordinal_of(each.id)
        tx.send(Released(each.run_id, ordinal, each.attempt, each.task_id, each.queue, each.priority))
    return len(found)


def _lost_before(tx: Transaction, publisher: Publisher, late: timedelta) -> dict[tuple[str, int], datetime]:
    """(queue, priority) -> before when a row was queued whose message is lost."""
    places: list[Any] = list(tx.execute(OLDEST, {"late": tx.now - late}))
    waiting = {queue: publisher.oldest(queue) for queue in dict.fromkeys(each.queue for each in places)}
    return {
        (each.queue, each.priority): lost_before(tx.now - late, waiting[each.queue][level(each.priority)])
        for each in places
    }


def lost_before(late: datetime, oldest: float | None) -> datetime:
    """Before when a row was queued whose message is not in the queue any more."""
    return late if oldest is None else min(late, datetime.fromtimestamp(oldest, UTC) - LEEWAY)


# One tick looks at this many active runs; the next one goes on where it stopped.
RUNS_PER_TICK = 100

_ACTIVE = f"""
SELECT r.id, r.tenant_id FROM runs AS r
WHERE r.status IN {sql_in(ADVANCING_RUN)} AND r.created_at < :late AND r.id > :after
ORDER BY r.id LIMIT :batch
"""

# The steps' own rows come first in a run; those of items, which may be many, are not touched.
_OPEN_STEPS = """
SELECT t.id, t.queue, t.status, t.due_at FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL ORDER BY t.id
"""

# Where its tasks are now: a final row keeps the queue that it had. Best the one that was alive last.
_ANY_QUEUE = """
SELECT coalesce(s.queue, t.queue) FROM task_runs AS t
LEFT JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
LEFT JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last ORDER BY s.last_heartbeat DESC NULLS LAST LIMIT 1
"""

_BEFORE_ALL = UUID(int=0)
_looked_at = _BEFORE_ALL


def check_joins(tx: Transaction, late: timedelta) -> int:
    """Ask for every join that is still closed though all it waits for is final: its chord never fired."""
    global _looked_at
    parameters = {"late": tx.now - late, "after": _looked_at, "batch": RUNS_PER_TICK}
    active = tx.execute(_ACTIVE, parameters).all()
    _looked_at = active[-1].id if len(active) == RUNS_PER_TICK else _BEFORE_ALL
    count = 0
    for row in active:
        run = run_headers.load(tx, row.id)
        checks = [] if run is None else closed_joins(tx, run)
        tx.send(*checks)
        count += len(checks)
    return count


def closed_joins(tx: Transaction, run: RunHeader) -> list[JoinCheck]:
    """The joins, maps and the end of an open run that are closed though all they wait for is final."""
    span = {"first": ids.task_run_id(run.id, 1), "last": ids.task_run_id(run.id, len(run.plan.steps))}
    rows = tx.execute(_OPEN_STEPS, {"run_id": run.id} | span).all()
    if not rows:
        # To whoever ran its steps: a queue that no worker consumes would leave the run open for ever.
        queue = tx.execute(_ANY_QUEUE, {"run_id": run.id} | span).scalar_one()
        return [JoinCheck(run.id, END, queue)]
    steps = {ids.ordinal_of(row.id): row for row in rows}
    due = []
    for ordinal, row in steps.items():
        if row.status == "waiting":
            is_due = run.plan[ordinal].step.map is not None and maps.is_over(tx, run.id, ordinal)
        else:
            is_waiting = row.status == "pending" and row.due_at is None
            is_due = is_waiting and steps.keys().isdisjoint(run.plan[ordinal].predecessors)
        if is_due:
            due.append(JoinCheck(run.id, ordinal, row.queue))
    return due
