"""Reads for which share of the last 30 days each service had a worker that was heard.

It is read from the rows of the workers themselves, which say when each began and ended: nobody has to look at
the workers all the time, and a tick that is away misses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.orchestrator.documents.workers import ServiceUptime
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

OVER = timedelta(days=30)

# A worker that is lost was there until its last heartbeat, and so is one that is silent now. Where a service
# has no worker any more, and the last one stopped in order, it was given up: what follows is no failure.
_UPTIME = """
WITH spans AS (
    SELECT w.tenant_id, w.service_id, greatest(w.started_at, now() - CAST(:over AS interval)) AS began,
        CASE WHEN w.lost_at IS NULL AND w.stopped_at IS NOT NULL THEN w.stopped_at
            WHEN w.lost_at IS NULL AND w.heartbeat_at >= now() - CAST(:lost AS interval) THEN now()
            ELSE w.heartbeat_at END AS ended,
        w.lost_at IS NULL AND w.stopped_at IS NOT NULL AS is_in_order
    FROM workers AS w
    WHERE (CAST(:tenant AS text) IS NULL OR w.tenant_id = :tenant)
        AND (w.stopped_at IS NULL OR w.stopped_at > now() - CAST(:over AS interval))
), parts AS (
    SELECT s.*, max(s.ended) OVER (PARTITION BY s.tenant_id, s.service_id ORDER BY s.began, s.ended
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_until
    FROM spans AS s WHERE s.ended > s.began
), sums AS (
    SELECT p.tenant_id, p.service_id, min(p.began) AS since, max(p.ended) AS until,
        sum(greatest(p.ended - greatest(p.began, p.covered_until), interval '0')) AS up,
        (array_agg(p.is_in_order ORDER BY p.ended DESC))[1] AS is_given_up
    FROM parts AS p GROUP BY p.tenant_id, p.service_id
)
SELECT s.tenant_id, s.service_id, s.since, s.up,
    CASE WHEN s.is_given_up THEN s.until ELSE now() END - s.since AS whole
FROM sums AS s ORDER BY s.tenant_id, s.service_id LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class WorkerUptime:
    """How long a service had a worker that was heard.

    Args:
        since: when it was looked at first: 30 days ago, or when its first worker began.
        up: how long it had one since.
        share: of the time since, or until its last worker stopped in order; from 0 to 1.
    """

    tenant: str
    service_id: str
    since: datetime
    up: timedelta
    share: float


def uptimes(tx: Transaction, tenant: str | None, *, most: int = 1_000) -> Sequence[WorkerUptime]:
    """The uptime of each service that had a worker in the last 30 days.

    Args:
        tenant: None for all tenants.
        most: at most so many services.
    """
    parameters = {"tenant": tenant, "over": OVER, "lost": worker_processes.LOST_AFTER, "most": most}
    return [
        WorkerUptime(
            row.tenant_id,
            row.service_id,
            row.since,
            row.up,
            min(1.0, row.up / row.whole) if row.whole else 1.0,
        )
        for row in tx.execute(_UPTIME, parameters)
    ]


def service_uptimes(tx: Transaction, tenant: str) -> list[Document]:
    """The uptimes of a tenant's services, as documents."""
    return [ServiceUptime.of(each, up_ms=each.up / timedelta(milliseconds=1)) for each in uptimes(tx, tenant)]
