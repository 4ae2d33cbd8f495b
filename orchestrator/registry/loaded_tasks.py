"""Keeps what each worker process has loaded: its tasks, in which code, and whether it serves their queues.

A task is there as long as a live worker has it; no registration takes it away from another worker. So workers
with different code, of a rolling deploy or of two teams, can share a service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A task that a worker process has loaded.

    Args:
        code_hash: of the code that it would call.
        is_served: whether the process consumes the task's queue.
        concurrent: how many calls of it one child of the process runs at once.
    """

    id: str
    code_hash: str
    is_served: bool = True
    concurrent: int = 1


_STORE = """
INSERT INTO worker_tasks (worker_id, tenant_id, task_id, code_hash, is_served, concurrent)
SELECT :worker, :tenant, l.id, l.code_hash, l.is_served, l.concurrent
FROM unnest(CAST(:ids AS text[]), CAST(:hashes AS text[]), CAST(:served AS boolean[]),
            CAST(:concurrent AS integer[]))
    AS l(id, code_hash, is_served, concurrent) ORDER BY l.id
ON CONFLICT (worker_id, task_id) DO NOTHING
"""


def store(tx: Transaction, tenant: str, worker_id: str, loaded: Sequence[LoadedTask]) -> None:
    """Write what a worker process has loaded, once in its life: none of it changes while it lives."""
    if loaded:
        parameters = {
            "worker": worker_id,
            "tenant": tenant,
            "ids": [each.id for each in loaded],
            "hashes": [each.code_hash for each in loaded],
            "served": [each.is_served for each in loaded],
            "concurrent": [each.concurrent for each in loaded],
        }
        tx.execute(_STORE, parameters)


# SQL: the worker `w` is alive, and has not been asked to stop.
_TAKES_WORK = "w.stopped_at IS NULL AND w.stopping_at IS NULL"


def _serves_sql(chosen: str, requires: str) -> str:
    """SQL: whether the worker `w` with the task `h` consumes the queue of a task run: that of the task, or
    the one that a step or a trigger has chosen; and whether it has the labels that are required.
    """
    own = "(SELECT s.queue FROM services AS s WHERE s.tenant_id = w.tenant_id AND s.id = w.service_id)"
    of_task = "(SELECT k.requires FROM tasks AS k WHERE k.tenant_id = h.tenant_id AND k.id = h.task_id)"
    required = queue_names.required_sql(of_task, requires)
    return f"""CASE WHEN {chosen} IS NULL THEN h.is_served
            ELSE {queue_names.name_sql(own, chosen)} = ANY(w.queues) END
          AND w.labels @> coalesce({required}, '{{}}')"""


def taker_sql(tenant: str, task: str, code_hash: str, chosen: str, requires: str, column: str) -> str:
    """SQL: a column of some live worker process that would take a task run of this task now; NULL without
    one.

    Args:
        tenant, task: SQL of the task.
        code_hash: SQL of the only code that may be called; of NULL, if any may.
        chosen: SQL of the name of the queue that was chosen in place of the task's; of NULL, if none was.
        requires: SQL of the labels that are required beside those of the task; of NULL, if none are.
        column: of `workers AS w`.
    """
    return f"""(SELECT {column} FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
        WHERE {_TAKES_WORK} AND h.tenant_id = {tenant} AND h.task_id = {task}
          AND {_serves_sql(chosen, requires)}
          AND ({code_hash} IS NULL OR h.code_hash = {code_hash})
        ORDER BY random() LIMIT 1)"""


def is_leaving_sql(tenant: str, task: str, code_hash: str, chosen: str, requires: str) -> str:
    """SQL: whether a live worker process would take a task run of this task if it did not drain or stop. The
    arguments are those of `taker_sql`.
    """
    return f"""EXISTS (SELECT 1 FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
        WHERE w.stopped_at IS NULL AND w.stopping_at IS NOT NULL AND w.own_queue IS NOT NULL
          AND h.tenant_id = {tenant} AND h.task_id = {task} AND {_serves_sql(chosen, requires)}
          AND ({code_hash} IS NULL OR h.code_hash = {code_hash}))"""


def is_loaded_sql(tenant: str, service: str, task: str) -> str:
    """SQL: whether a live worker has this task.

    A worker of an older version, which names neither tasks nor queues, may have every task of its service.
    """
    return f"""(EXISTS (SELECT 1 FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
        WHERE w.stopped_at IS NULL AND h.tenant_id = {tenant} AND h.task_id = {task})
    OR EXISTS (SELECT 1 FROM workers AS w WHERE w.stopped_at IS NULL AND w.tenant_id = {tenant}
        AND w.service_id = {service} AND w.queues = '{{}}'))"""


def last_seen_sql(tenant: str, task: str) -> str:
    """SQL: when the last worker that had this task was alive; NULL when no row of such a worker is left."""
    return f"""(SELECT max(coalesce(w.stopped_at, w.heartbeat_at))
        FROM worker_tasks AS h JOIN workers AS w ON w.id = h.worker_id
        WHERE h.tenant_id = {tenant} AND h.task_id = {task})"""
