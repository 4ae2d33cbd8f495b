"""The list of a tenant's task runs, over all runs, newest run first.

No index leads from a task to its task runs, because every insert would pay for it. The runs of the tenant are
gone through instead, newest first, for a bounded time (scanning.py): standalone tasks have an index of their
runs, and open task runs are looked for in open runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.run_kinds_sql import by_kind
from pipeweave.orchestrator.domain.states import FINAL_TASK, OPEN_RUN
from pipeweave.orchestrator.kept.run_filter import first_id
from pipeweave.orchestrator.reading.scanning import SLICE, scan
from pipeweave.orchestrator.reading.task_runs import COLUMNS, task_run_of_any
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_NAME = "all-task-runs"
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class TaskRunFilter:
    """Which task runs of a tenant; all that is given must hold.

    Args:
        worker: that this worker process ran, or one of its children, or the processes with this name
            (`name@host`).
        created_after: of runs that were created at this time or later.
        created_before: of runs that were created earlier than this time.
        is_standalone: only standalone tasks.
    """

    task_id: str | None = None
    status: str | None = None
    worker: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    is_standalone: bool = False


_EVERY = TaskRunFilter()


def task_run_list(
    tx: Transaction, tenant: str, page: PageRequest, chosen: TaskRunFilter = _EVERY
) -> Document:
    """The task runs, newest run first: {items, nextCursor, scanned, scannedTo}, as in the list of runs."""
    scanned = scan(
        page.after_id(_NAME),
        page.limit + 1,
        lambda behind: _next_ids(tx, tenant, chosen, behind),
        lambda looked_at, most: _matching(tx, tenant, chosen, looked_at, most),
    )
    return scanned.answer(page.cut(scanned.rows, _NAME, lambda row: (row.id,), task_run_of_any), _NAME)


# --- a slice of them --------------------------------------------------------------------------------------

# As many runs as have a slice of task runs together; a wide run is read from where the slice before ended.
_IDS = """
SELECT t.id FROM (
    SELECT f.id, sum(f.task_run_count) OVER (ORDER BY f.id DESC) - f.task_run_count AS before
    FROM ({runs}) AS f) AS r
CROSS JOIN LATERAL (
    SELECT t.id FROM task_runs AS t WHERE t.run_id = r.id AND t.id < :after
    ORDER BY t.run_id DESC, t.id DESC LIMIT :slice) AS t
WHERE r.before < :slice
ORDER BY t.id DESC LIMIT :slice
"""
_BOUNDS = "r.tenant_id = :tenant AND r.id <= :newest AND r.id >= :oldest"
_RUNS = (
    f"(SELECT r.id, r.task_run_count FROM runs AS r WHERE {_BOUNDS} AND {{}} ORDER BY r.id DESC LIMIT :slice)"
)
_ALONE, _OF_PIPELINES = "r.pipeline_id IS NULL", by_kind("r.pipeline_id IS NOT NULL")


def _newest_of(*conditions: str) -> str:
    """The statement for the runs that hold one of these, each of which leads to an index of its own."""
    parts = " UNION ALL ".join(_RUNS.format(each) for each in conditions)
    return _IDS.format(runs=f"SELECT u.* FROM ({parts}) AS u ORDER BY u.id DESC LIMIT :slice")


_OPEN = [f"r.status = '{status}'" for status in sorted(OPEN_RUN)]
_ALL_IDS = _newest_of(*_OF_PIPELINES, _ALONE)
_STANDALONE_IDS = _newest_of(_ALONE)
_OPEN_IDS = _newest_of(*_OPEN)
_OPEN_STANDALONE_IDS = _newest_of(*(f"{each} AND {_ALONE}" for each in _OPEN))


def _next_ids(tx: Transaction, tenant: str, chosen: TaskRunFilter, behind: UUID | None) -> Sequence[UUID]:
    after = behind or _LAST_ID
    newest = _LAST_ID if behind is None else _run_of_next(behind)
    if chosen.created_before is not None:
        newest = min(newest, UUID(int=max(0, first_id(chosen.created_before).int - 1)))
    parameters = {
        "tenant": tenant,
        "newest": newest,
        "oldest": _FIRST_ID if chosen.created_after is None else first_id(chosen.created_after),
        "after": after,
        "slice": SLICE,
    }
    if chosen.status is not None and chosen.status not in FINAL_TASK:
        statement = _OPEN_STANDALONE_IDS if chosen.is_standalone else _OPEN_IDS
    else:
        statement = _STANDALONE_IDS if chosen.is_standalone else _ALL_IDS
    return tx.execute(statement, parameters).scalars()


def _run_of_next(behind: UUID) -> UUID:
    """The highest id that the run of the next task run can have. Behind its first step, a run has no more."""
    run = ids.run_id_of(behind)
    return UUID(int=max(0, run.int - 1)) if ids.ordinal_of(behind) <= 1 else run


_MATCHING = f"""
SELECT r.pipeline_id, {COLUMNS}, t.error - 'traceback' AS error
FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
WHERE t.run_id = ANY(CAST(:runs AS uuid[])) AND t.id = ANY(CAST(:ids AS uuid[]))
  AND t.run_id >= :oldest AND t.run_id <= :newest AND t.tenant_id = :tenant
  AND (CAST(:task AS text) IS NULL OR t.task_id = :task)
  AND (CAST(:status AS text) IS NULL OR t.status = :status)
  AND (CAST(:worker AS text) IS NULL OR t.worker = :worker OR starts_with(t.worker, :name)
    OR starts_with(t.worker, :children))
ORDER BY t.id DESC LIMIT :limit
"""


def _matching(
    tx: Transaction, tenant: str, chosen: TaskRunFilter, looked_at: Sequence[UUID], most: int
) -> Sequence[Any]:
    runs = list(dict.fromkeys(ids.run_id_of(each) for each in looked_at))
    parameters = {
        "runs": runs,
        "ids": list(looked_at),
        "oldest": runs[-1],
        "newest": runs[0],
        "tenant": tenant,
        "task": chosen.task_id,
        "status": chosen.status,
        "worker": chosen.worker,
        "name": f"{chosen.worker}:",
        "children": f"{chosen.worker}#",
        "limit": most,
    }
    return tx.execute(_MATCHING, parameters).all()
