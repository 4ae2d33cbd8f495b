"""Reads the attempts that were lost with a worker, and who has taken them over."""

from __future__ import annotations

from pipeweave.orchestrator.documents.workers import LostAttempt
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# An index of its own holds the lost attempts, by worker: the cost grows only with what this worker lost.
_LOST = """
SELECT a.run_id, a.task_run_id AS id, a.number AS attempt, a.started_at, a.finished_at AS lost_at,
    r.pipeline_id, t.task_id, t.step_id, t.map_index, t.status, t.worker, t.attempt AS now_at
FROM attempts AS a
JOIN runs AS r ON r.id = a.run_id AND r.tenant_id = :tenant
JOIN task_runs AS t ON t.run_id = a.run_id AND t.id = a.task_run_id
WHERE a.status = 'lost' AND {where}
ORDER BY a.finished_at DESC, a.task_run_id LIMIT :most
"""
# The children of a worker claim as `worker#pid`, and `$` is the character after `#`; a dispatch names the
# service and the URL of the instance.
_OF_CHILDREN = _LOST.format(
    where="""a.worker COLLATE "C" >= :name || '#' AND a.worker COLLATE "C" < :name || '$'"""
)
_OF_INSTANCE = _LOST.format(where="""a.worker COLLATE "C" = :name""")


def lost_attempts(tx: Transaction, tenant: str, name: str, *, is_celery: bool, most: int) -> list[Document]:
    """The attempts that were lost with a worker, the last first.

    `status` and `worker` are those of the task run now: how it goes on, and who took it over; `worker` is
    null until somebody has.

    Args:
        name: the worker's id, or the service and the URL of an instance.
        is_celery: the worker claims under the names of its children.
        most: how many at most.
    """
    statement = _OF_CHILDREN if is_celery else _OF_INSTANCE
    return [
        LostAttempt.of(
            row,
            run_id=None if row.pipeline_id is None else row.run_id,
            worker=row.worker if row.now_at > row.attempt else None,
        )
        for row in tx.execute(statement, {"tenant": tenant, "name": name, "most": most})
    ]
