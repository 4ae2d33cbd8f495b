"""Reads the progress of each step of a run: its own task run, or for a map the sum of its items."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import duration_ms, iso, task_run_id
from pipeweave.orchestrator.domain.states import FAILED_TASK, FINAL_TASK, sql_in
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_STEPS

# A run's steps have its lowest ordinals: this bound keeps PostgreSQL from reading its map items.
_STEPS = """
SELECT t.id, t.step_id, t.task_id, t.kind, t.status, t.map_count, t.error_code, t.started_at, t.finished_at
FROM task_runs AS t WHERE t.run_id = :id AND t.id <= :last AND t.kind <> 'item' ORDER BY t.id
"""

_ITEMS = f"""
SELECT t.map_parent, count(*) FILTER (WHERE t.finished_at IS NOT NULL) AS done,
       count(*) FILTER (WHERE t.status IN {sql_in(FAILED_TASK)}) AS failed
FROM task_runs AS t WHERE t.run_id = :id AND t.kind = 'item' GROUP BY t.map_parent
"""


def run_steps(tx: Transaction, id: UUID, run: Document) -> list[Document]:
    """The steps of a run in document order: {id, status, done, total, failed, …}; a map counts its items.

    Args:
        run: the run's document from `runs.run`, which has checked that the tenant owns the run.
    """
    if run["taskRunsCursor"] is None:
        return _of_shown(run["taskRuns"])
    last = ids.task_run_id(id, MAX_STEPS)
    rows = tx.execute(_STEPS, {"id": id, "last": last}).all()
    items: dict[int, Any] = {}
    if run["taskRunCount"] > len(rows):
        items = {each.map_parent: each for each in tx.execute(_ITEMS, {"id": id})}
    return [_step(row, items.get(ids.ordinal_of(row.id))) for row in rows]


def _of_shown(task_runs: list[Document]) -> list[Document]:
    """The steps of a run whose document holds all its task runs: this reads no further row."""
    items = [each for each in task_runs if each["kind"] == "item"]
    done = Counter(each["stepId"] for each in items if each["finishedAt"] is not None)
    failed = Counter(each["stepId"] for each in items if each["status"] in _FAILED)
    steps = []
    for each in task_runs:
        if each["kind"] == "item":
            continue
        of_map = each["kind"] == "map"
        steps.append(
            {
                "id": each["stepId"],
                "taskRunId": each["id"],
                **{name: each[name] for name in _SHARED},
                "done": done[each["stepId"]] if of_map else int(each["status"] in FINAL_TASK),
                "total": each["mapCount"] or 0 if of_map else 1,
                "failed": failed[each["stepId"]] if of_map else int(each["status"] in _FAILED),
            }
        )
    return steps


_FAILED = frozenset({"failed", "timeout"})
_SHARED = ("taskId", "kind", "status", "errorCode", "startedAt", "finishedAt", "durationMs")


def _step(row: Any, items: Any) -> Document:
    if row.kind == "map":
        total = row.map_count or 0
        done, failed = (items.done, items.failed) if items else (0, 0)
    else:
        total, done = 1, int(row.status in FINAL_TASK)
        failed = int(row.status in ("failed", "timeout"))
    return {
        "id": row.step_id,
        "taskId": row.task_id,
        "taskRunId": task_run_id(row.id),
        "kind": row.kind,
        "status": row.status,
        "done": done,
        "total": total,
        "failed": failed,
        "errorCode": row.error_code,
        "startedAt": iso(row.started_at),
        "finishedAt": iso(row.finished_at),
        "durationMs": duration_ms(row.started_at, row.finished_at),
    }
