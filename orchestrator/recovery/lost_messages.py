"""Sends messages again that a crash or a wiped broker lost.

A task run is queued, but no message names it any more: its row is older than the oldest message of its queue.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.messaging.publisher import Publisher, level
from pipeweave.orchestrator.queueing import widths
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

# One tick sends at most this many messages again; the next tick goes on.
BATCH = 1_000
# A message is looked for only when it is this late: most messages are consumed within milliseconds.
LATE = timedelta(seconds=5)
# A message may leave this long after its row was written: a younger row is not missed.
LEEWAY = timedelta(seconds=2)

# The queues and priorities whose oldest row was queued before `:late`. It takes a few looks into the index,
# however long the queues are. What waits in a parking queue has no message.
OLDEST = f"""
WITH RECURSIVE oldest AS (
    (SELECT t.queue, t.priority, t.queued_at FROM task_runs AS t WHERE t.status = 'queued'
     ORDER BY t.queue, t.priority, t.queued_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.priority, n.queued_at FROM oldest AS o CROSS JOIN LATERAL (
        SELECT t.queue, t.priority, t.queued_at FROM task_runs AS t
        WHERE t.status = 'queued' AND (t.queue, t.priority) > (o.queue, o.priority)
        ORDER BY t.queue, t.priority, t.queued_at LIMIT 1) AS n
)
SELECT o.queue, o.priority FROM oldest AS o
WHERE o.queued_at < :late AND NOT {queue_names.is_parking_sql("o.queue")}
"""

# SQL: whether there is anything for this chore.
IS_DUE = f"EXISTS ({OLDEST})"

# `queued_at` is set anew, so that the next tick gives the message its time to arrive. Tenants take turns:
# many lost messages of one tenant do not keep another tenant's waiting.
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
RETURNING t.run_id, t.id, t.attempt, t.tenant_id, t.task_id, t.priority, t.queue
"""


def run_once(deployment: Deployment) -> int:
    """Send lost messages again. Returns their number.

    After a promotion of PostgreSQL that lost claims, rows are queued that a worker still executes. It learns
    that within a second or two: until then nobody else is told of them.
    """
    if not deployment.has_broker or deployment.database.timeline.was_promoted_within(LATE.total_seconds()):
        return 0
    with deployment.database.transaction() as tx:
        return republish(tx, deployment.publisher, LATE)


def republish(tx: Transaction, publisher: Publisher, late: timedelta) -> int:
    """Send the messages of task runs again that are queued for `late` and older than the oldest message.

    A queue that is merely long is left alone, else each tick would make it longer (docs/celery.md). While
    the broker is away or stores nothing, no row is touched: as soon as it is back, all of them are late.
    Returns the number of messages.
    """
    try:
        befores = _lost_before(tx, publisher, late)
        for queue, _ in list(befores)[:1]:
            publisher.check_writable(queue)
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
    rows: list[Any] = list(tx.execute(_REPUBLISH, parameters))
    widths.send(tx, sorted(rows, key=lambda row: (row.priority, row.id)))
    return len(rows)


def _lost_before(tx: Transaction, publisher: Publisher, late: timedelta) -> dict[tuple[str, int], datetime]:
    """For each queue and priority with late rows: a row that was queued before this time lost its message."""
    places: list[Any] = list(tx.execute(OLDEST, {"late": tx.now - late}))
    oldest = {queue: publisher.oldest(queue) for queue in dict.fromkeys(place.queue for place in places)}
    return {
        (place.queue, place.priority): lost_before(tx.now - late, oldest[place.queue][level(place.priority)])
        for place in places
    }


def lost_before(late: datetime, oldest: float | None) -> datetime:
    """The time before which a row was queued whose message is not in the queue any more.

    Args:
        late: a row that was queued later is not missed yet.
        oldest: when the oldest message of the queue was sent (Unix time, s); None for an empty queue.
    """
    return late if oldest is None else min(late, datetime.fromtimestamp(oldest, UTC) - LEEWAY)
