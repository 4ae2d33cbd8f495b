"""Counts what waits for a time, a signal or people, and the signals that nothing has taken."""

from __future__ import annotations

from pipeweave.orchestrator.metrics.catalogue import SIGNALS_UNTAKEN, WAITS, WAITS_OVERDUE
from pipeweave.orchestrator.metrics.open_work import MOST_OF_ALL, note_cap
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.store.database import Transaction

_WAITS = """
SELECT o.tenant_id, o.kind, count(*) AS number, sum(count(*)) OVER () >= :most AS is_capped
FROM (SELECT w.tenant_id, w.kind FROM waits AS w LIMIT :most) AS o GROUP BY o.tenant_id, o.kind
"""
# A look is due for some milliseconds; what is longer is late.
_OVERDUE = """
SELECT o.tenant_id, count(*) AS number FROM (
    SELECT w.tenant_id FROM waits AS w WHERE w.due_at < now() - interval '1 second' LIMIT :most) AS o
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
        note_cap(made, "waits", row.is_capped)
    for row in tx.execute(_OVERDUE, bound):
        made.add(WAITS_OVERDUE, row.number, row.tenant_id)
    for row in tx.execute(_UNTAKEN, bound):
        made.add(SIGNALS_UNTAKEN, row.number, row.tenant_id)
        note_cap(made, "signals", row.is_capped)
    return made
