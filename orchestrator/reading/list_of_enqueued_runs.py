"""Lists the enqueued runs of a tenant: those that have not started yet, and those that never will."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.documents.enqueued import EnqueuedRun
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

# Rows of all tenants that wait and that are looked at, those first that are due first. Refused ones are
# counted so far, too.
MOST_LOOKED_AT = 10_000

_COLUMNS = """e.id, e.pipeline_id, e.run_token, e.priority, e.enqueued_by, e.enqueued_at, e.due_at, e.tries,
    e.error_code, e.error, e.settled_at, e.first_run_id"""
# There is an index of what waits, by when it is due, for all tenants together.
_WAITING_ROWS = """(SELECT * FROM enqueued_runs AS o WHERE o.settled_at IS NULL
    ORDER BY o.due_at LIMIT :looked_at)"""
_WAITING = f"""
SELECT {_COLUMNS} FROM {_WAITING_ROWS} AS e
WHERE e.tenant_id = :tenant
  AND (CAST(:after AS uuid) IS NULL OR e.id > CAST(:after AS uuid))
ORDER BY e.id LIMIT :limit
"""
_REFUSED = f"""
SELECT {_COLUMNS} FROM enqueued_runs AS e
WHERE e.tenant_id = :tenant AND e.settled_at IS NOT NULL AND e.first_run_id IS NULL
  AND (CAST(:after AS uuid) IS NULL OR e.id < CAST(:after AS uuid))
ORDER BY e.id DESC LIMIT :limit
"""
_REPEATED = f"""
SELECT {_COLUMNS} FROM enqueued_runs AS e
WHERE e.tenant_id = :tenant AND e.settled_at IS NOT NULL AND e.first_run_id IS NOT NULL
  AND (CAST(:after AS uuid) IS NULL OR e.id < CAST(:after AS uuid))
ORDER BY e.id DESC LIMIT :limit
"""
_COUNTS = f"""
SELECT w.number AS waiting, w.all_tenants, w.oldest, f.number AS refused FROM
    (SELECT count(*) FILTER (WHERE e.tenant_id = :tenant) AS number, count(*) AS all_tenants,
         min(e.enqueued_at) FILTER (WHERE e.tenant_id = :tenant) AS oldest FROM {_WAITING_ROWS} AS e) AS w,
    (SELECT count(*) AS number FROM (SELECT 1 FROM enqueued_runs AS e
         WHERE e.tenant_id = :tenant AND e.settled_at IS NOT NULL AND e.first_run_id IS NULL
         LIMIT :looked_at) AS n) AS f
"""


def enqueued_list(tx: Transaction, tenant: str, page: PageRequest, status: str = "waiting") -> Document:
    """Enqueued runs with this status: {items, nextCursor}, and how many wait and were refused.

    Args:
        status: `waiting`, in the order in which they were enqueued; `refused` or `repeated` (the token is
            that of a run before), newest first.
    """
    parameters = {"tenant": tenant, "limit": page.limit + 1, "looked_at": MOST_LOOKED_AT}
    if status == "waiting":
        rows = tx.execute(_WAITING, {**parameters, "after": page.after_id("enqueued")}).all()
        listing = page.cut(rows, "enqueued", lambda row: (row.id,), EnqueuedRun.of)
    elif status == "refused":
        rows = tx.execute(_REFUSED, {**parameters, "after": page.after_id("refused")}).all()
        listing = page.cut(rows, "refused", lambda row: (row.id,), EnqueuedRun.of)
    else:
        rows = tx.execute(_REPEATED, {**parameters, "after": page.after_id("repeated")}).all()
        listing = page.cut(rows, "repeated", lambda row: (row.id,), EnqueuedRun.of)
    return {**listing, **_counts(tx, parameters)}


def _counts(tx: Transaction, parameters: dict[str, Any]) -> Document:
    row: Any = tx.execute(_COUNTS, parameters).one()
    return {
        "waiting": row.waiting,
        "waitingIsCapped": row.all_tenants == MOST_LOOKED_AT,
        "oldest": iso(row.oldest),
        "refused": row.refused,
        "refusedIsCapped": row.refused == MOST_LOOKED_AT,
    }
