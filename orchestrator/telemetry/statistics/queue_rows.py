"""What left queues over time: the attempts that ended of the tasks that belong to each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pipeweave.orchestrator.documents.statistics import QueueRow
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.telemetry.statistics.series import MOST_IDS
from pipeweave.orchestrator.telemetry.statistics.windows import StatsWindow

# Tasks whose attempts are summed, by id; those of further ones are left out.
MOST_TASKS = 1_000

# A look-up by key for each task, so that the rows of other times are not read.
_ENDED = f"""
SELECT q.queue, x.at, sum(x.completed + x.failed + x.timed_out + x.lost) AS number
FROM (
    SELECT k.id, {queue_names.queue_sql(None)} AS queue
    FROM tasks AS k JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
    WHERE k.tenant_id = :tenant
        AND {queue_names.queue_sql(None)} = ANY(CAST(:queues AS text[]))
    ORDER BY k.id LIMIT {MOST_TASKS}) AS q
CROSS JOIN LATERAL (
    SELECT s.at, s.completed, s.failed, s.timed_out, s.lost FROM task_stats AS s
    WHERE s.tenant_id = :tenant AND s.scope = 'task' AND s.id = q.id AND s.grain = :grain
        AND s.at >= :begin AND s.at < :end) AS x
GROUP BY q.queue, x.at
"""


def queue_rows(
    tx: Transaction, tenant: str, queues: Collection[str], chosen: StatsWindow
) -> Mapping[str, Document]:
    """By queue, at most MOST_IDS: how many attempts of its tasks ended in the window, and in each step of it.

    Interrupted and cancelled ones do not count, nor do they where rates are shown; what ran in a queue for
    one code counts for the queue that its task names.
    """
    names = sorted(set(queues))[:MOST_IDS]
    parameters = {"tenant": tenant, "queues": names, "grain": chosen.grain.value}
    ends = {name: dict.fromkeys(chosen.starts(), 0) for name in names}
    for row in tx.execute(_ENDED, {**parameters, "begin": chosen.begin, "end": chosen.end}):
        ends[row.queue][chosen.start_of(row.at)] += int(row.number)
    return {
        name: QueueRow.of(queue=name, attempts=sum(counts.values()), ends=list(counts.values()))
        for name, counts in ends.items()
    }
