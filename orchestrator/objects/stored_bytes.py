"""The chore of the tick that sums up what the tenants with a quota of stored bytes have in storage.

A sum goes over the runs of a tenant in the order of their ids, a page per tick, and is noted when it has come
to the last one; the next one begins SUM_EVERY later. So a quota is kept within some minutes, not at once. A
value that several runs name counts for each of them.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.queueing.quotas import SUM_EVERY
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# Runs that one statement sums up, and tenants of which one tick sums up a page.
PAGE = 500
TENANTS_PER_TICK = 20

_DUE = f"""FROM tenants AS n JOIN tenant_use AS u ON u.tenant_id = n.id
WHERE n.stored_bytes IS NOT NULL AND (u.summed_to IS NOT NULL OR u.stored_at IS NULL
    OR u.stored_at <= now() - interval '{SUM_EVERY.total_seconds():.0f} seconds')"""
# SQL: whether there is a sum to make or to go on with.
IS_DUE = f"EXISTS (SELECT 1 {_DUE})"
_NEXT = f"SELECT n.id, u.summed_to {_DUE} ORDER BY u.stored_at NULLS FIRST, n.id LIMIT :most"


def run_once(database: Database) -> int:
    """Go on with the sums that are due, a page of each.

    Returns:
        How many runs were summed up.

    Raises:
        PartlyFailed: those of some tenants were not; those of the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        due: list[Any] = list(tx.execute(_NEXT, {"most": TENANTS_PER_TICK}))
    isolation = Isolation(database)
    return isolation.finish(
        sum(
            isolation.run(
                lambda each=each: database.run(lambda tx: _page(tx, each.id, each.summed_to)),  # type: ignore[misc]
                tenant=each.id,
            )
            for each in due
        )
    )


def _runs(which: str) -> str:
    return f"""(SELECT r.id, r.input_path, r.input_size FROM runs AS r
        WHERE r.tenant_id = :tenant AND {which} AND r.id > :after ORDER BY r.id LIMIT :page)"""


# Each kind of runs has an index in the order of its ids; no index has all of a tenant's.
_KINDS = (
    "r.pipeline_id IS NOT NULL AND r.parent_run_id IS NULL",
    "r.pipeline_id IS NULL AND r.parent_run_id IS NULL",
    "r.parent_run_id IS NOT NULL",
)
_SUM = f"""
WITH page AS MATERIALIZED (
    SELECT p.id, p.input_path, p.input_size FROM ({" UNION ALL ".join(map(_runs, _KINDS))}) AS p
    ORDER BY p.id LIMIT :page
), steps AS (
    SELECT coalesce(sum(CASE WHEN t.output_path IS NULL THEN 0 ELSE t.output_size END), 0)
        + coalesce(sum((SELECT sum(CAST(f.value ->> 'size' AS bigint)) FROM jsonb_each(t.assets) AS f)), 0)
        AS bytes
    FROM page AS p JOIN task_runs AS t ON t.run_id = p.id
)
SELECT count(*) AS runs, (SELECT q.id FROM page AS q ORDER BY q.id DESC LIMIT 1) AS last,
    CAST(coalesce(sum(CASE WHEN p.input_path IS NULL THEN 0 ELSE p.input_size END), 0)
        + (SELECT s.bytes FROM steps AS s) AS bigint) AS bytes
FROM page AS p
"""
_UPLOADS = """
SELECT CAST(coalesce(sum(u.size_bytes), 0) AS bigint) FROM temp_uploads AS u
WHERE u.tenant_id = :tenant AND u.deleted_at IS NULL
"""
# Another process may have gone on meanwhile: of two, one changes the row.
_GO_ON = """
UPDATE tenant_use SET summed_to = :last, summed_bytes = summed_bytes + :bytes
WHERE tenant_id = :tenant AND summed_to IS NOT DISTINCT FROM CAST(:after AS uuid)
"""
_END = """
UPDATE tenant_use SET stored_bytes = summed_bytes + :bytes, stored_at = :now, summed_to = NULL,
    summed_bytes = 0
WHERE tenant_id = :tenant AND summed_to IS NOT DISTINCT FROM CAST(:after AS uuid)
"""
_FIRST = UUID(int=0)


def _page(tx: Transaction, tenant: str, after: UUID | None) -> int:
    key = {"tenant": tenant, "after": after}
    page: Any = tx.execute(_SUM, {"tenant": tenant, "after": after or _FIRST, "page": PAGE}).one()
    if page.runs == PAGE:
        tx.execute(_GO_ON, key | {"last": page.last, "bytes": page.bytes})
    else:
        uploads = int(tx.execute(_UPLOADS, {"tenant": tenant}).scalar_one())
        tx.execute(_END, key | {"bytes": page.bytes + uploads, "now": tx.now})
    return int(page.runs)
