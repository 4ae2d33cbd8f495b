"""Read model of deploys: which live worker processes of a tenant have which tasks, in which code versions."""

from __future__ import annotations

from pipeweave.orchestrator.documents.tasks import Deploy
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

# Worker processes named with each task and code.
MOST_WORKERS = 20

# The version of a code is the newest with its hash: code that comes back gets another number.
_DEPLOYS = """
WITH loaded AS (
    SELECT h.task_id, h.code_hash, w.service_id, count(*) AS worker_count,
        count(*) FILTER (WHERE w.stopping_at IS NOT NULL) AS stopping,
        count(*) FILTER (WHERE NOT h.is_served) AS idle, min(w.started_at) AS since,
        array_agg(w.id ORDER BY w.started_at, w.id) AS workers
    FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
    WHERE w.tenant_id = :tenant AND w.stopped_at IS NULL
      AND (CAST(:task AS text) IS NULL OR (h.task_id, h.code_hash, w.service_id) > (:task, :hash, :service))
    GROUP BY h.task_id, h.code_hash, w.service_id
    ORDER BY h.task_id, h.code_hash, w.service_id LIMIT :limit
)
SELECT l.task_id, l.code_hash, l.service_id, l.worker_count, l.stopping, l.idle, l.since,
    l.workers[1:CAST(:most AS integer)] AS workers, coalesce(t.code_hash = l.code_hash, false) AS is_newest,
    (SELECT max(h.code_version) FROM task_code_history AS h
     WHERE h.tenant_id = :tenant AND h.task_id = l.task_id AND h.code_hash = l.code_hash) AS code_version
FROM loaded AS l LEFT JOIN tasks AS t ON t.tenant_id = :tenant AND t.id = l.task_id
ORDER BY l.task_id, l.code_hash, l.service_id
"""


def deploys(tx: Transaction, tenant: str, page: PageRequest) -> Document:
    """Each task and code that live worker processes of the tenant have, by task: {items, nextCursor}.

    `workers` names the oldest 20 processes; `stopping` of all were asked to stop, and `idle` do not serve the
    task's queue. Workers that do not say what they have loaded are left out.
    """
    task, code_hash, service = page.after("deploys", str, str, str) or (None, None, None)
    parameters = {
        "tenant": tenant,
        "task": task,
        "hash": code_hash,
        "service": service,
        "most": MOST_WORKERS,
        "limit": page.limit + 1,
    }
    rows = tx.execute(_DEPLOYS, parameters).all()
    return page.cut(rows, "deploys", lambda row: (row.task_id, row.code_hash, row.service_id), Deploy.of)
