"""Counts what waits for a time, a signal or people, and the signals that nothing has taken."""

from __future__ import annotations

from pipeweave.orchestrator.domain.waits import APPROVAL
from pipeweave.orchestrator.metrics.catalogue import (
    APPROVALS_EXPIRING,
    SIGNALS_UNTAKEN,
    WAITS,
    WAITS_OVERDUE,
    WAITS_OVERDUE_OLDEST,
)
from pipeweave.orchestrator.metrics.open_work import MOST_OF_ALL, note_cap
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.store.database import Transaction

# An approval that waits for longer than this part of its time may end by it.
EXPIRING = 0.8
_WAITS = f"""
SELECT o.tenant_id, o.kind, count(*) AS number,
    count(*) FILTER (WHERE now() - o.created_at >= {EXPIRING} * (o.timeout_at - o.created_at)) AS expiring,
    sum(count(*)) OVER () >= :most AS is_capped
FROM (SELECT w.tenant_id, w.kind, w.created_at, w.timeout_at FROM waits AS w LIMIT :most) AS o
GROUP BY o.tenant_id, o.kind
"""
# A look is due for some milliseconds; what is longer is late.
_OVERDUE = """
SELECT o.tenant_id, count(*) AS number, extract(epoch FROM now() - min(o.due_at)) AS oldest_s FROM (
    SELECT w.tenant_id, w.due_at FROM waits AS w WHERE w.due_at < now() - interval '1 second'
    ORDER BY w.due_at LIMIT :most) AS o
GROUP BY o.tenant_id
"""
_UNTAKEN = """
SELECT o.tenant_id, count(*) AS number, sum(count(*)) OVER () >= :most AS is_capped
FROM (SELECT s.tenant_id FROM signals AS s WHERE s.taken_at IS NULL LIMIT :most) AS o GROUP BY o.tenant_id
"""


def read(tx: Transaction) -> Samples:
    """The open waits, those that are overdue, and the signals that nothing has taken."""
    made, bound = Samples(), {"most": MOST_OF_ALL}
    for row in tx.execute(_WAITS, bound):
        made.add(WAITS, row.number, row.tenant_id, row.kind)
        if row.kind == APPROVAL:
            made.add(APPROVALS_EXPIRING, row.expiring, row.tenant_id)
        note_cap(made, "waits", row.is_capped)
    for row in tx.execute(_OVERDUE, bound):
        made.add(WAITS_OVERDUE, row.number, row.tenant_id)
        made.add(WAITS_OVERDUE_OLDEST, float(row.oldest_s), row.tenant_id)
    for row in tx.execute(_UNTAKEN, bound):
        made.add(SIGNALS_UNTAKEN, row.number, row.tenant_id)
        note_cap(made, "signals", row.is_capped)
    return made
