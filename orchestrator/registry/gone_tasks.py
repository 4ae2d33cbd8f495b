"""Finds tasks that no live worker has: since when, and whether work waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeweave.orchestrator.registry import loaded_tasks
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class GoneTask:
    """A task of a Python service that no live worker has.

    Args:
        last_seen: when its last worker was alive; for one that is forgotten, when the task was last changed.
        has_workers: whether another worker of its service lives.
    """

    tenant: str
    id: str
    service_id: str
    last_seen: datetime
    has_workers: bool


# Most tasks are loaded, so the workers that live are read, and not those that ever lived.
_GONE = f"""
SELECT g.* FROM (
    SELECT t.tenant_id, t.id, t.service_id,
        coalesce({loaded_tasks.last_seen_sql("t.tenant_id", "t.id")}, t.updated_at) AS last_seen,
        EXISTS (SELECT 1 FROM workers AS w WHERE w.stopped_at IS NULL
            AND w.tenant_id = t.tenant_id AND w.service_id = t.service_id) AS has_workers
    FROM tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id
    WHERE s.kind = 'python' AND t.orphaned_at IS NULL
      AND NOT {loaded_tasks.is_loaded_sql("t.tenant_id", "t.service_id", "t.id")}) AS g
WHERE g.last_seen < now() - CAST(:after AS interval) ORDER BY g.last_seen, g.tenant_id, g.id LIMIT :most
"""


def find(tx: Transaction, *, after: timedelta, most: int) -> list[GoneTask]:
    """Tasks of all tenants that no worker had for this long, the longest first.

    Args:
        after: how long no worker has had them.
        most: how many are found at most.
    """
    rows: list[Any] = list(tx.execute(_GONE, {"after": after, "most": most}))
    return [GoneTask(row.tenant_id, row.id, row.service_id, row.last_seen, row.has_workers) for row in rows]
