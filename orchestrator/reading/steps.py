"""Reads the progress of each step of a run: its own task run, or for a map the sum of its items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.json_shapes import duration_ms, iso, run_id, task_run_id
from pipeweave.orchestrator.domain.states import FINAL_TASK, TaskStatus
from pipeweave.orchestrator.reading import runs_of_steps
from pipeweave.orchestrator.reading.run_overs import Over, over_ms, overs_of
from pipeweave.orchestrator.reading.runs_of_steps import NO_RUN, RunOfStep, TaskRunSeen
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import ITEMS, STEPS, WITH_ITEMS

# A run's steps have its lowest ordinals: this bound keeps PostgreSQL from reading its map items. Only the
# ordinal is read of an id: to make 5,000 ids of texts takes longer than all else that is done with the rows.
_STEPS = f"""
SELECT right(CAST(t.id AS text), 6) AS ordinal, t.step_id, t.task_id, t.kind, t.status, t.attempt,
       t.max_attempts, t.progress, t.progress_message, t.map_count, t.code_version, t.error_code, t.due_at,
       t.started_at, t.finished_at
FROM task_runs AS t WHERE t.run_id = :id AND t.id <= :last AND {kind_sql.IS_STEP} ORDER BY t.id
"""

_ITEMS = f"""
SELECT t.map_parent, t.status, count(*) AS number FROM task_runs AS t
WHERE t.run_id = :id AND {kind_sql.IS_ITEM} GROUP BY t.map_parent, t.status
"""

# The task run's own row holds the start of its latest attempt only.
_FIRST_STARTS = """
SELECT a.task_run_id, min(a.started_at) AS started_at FROM attempts AS a
WHERE a.run_id = :id AND a.task_run_id = ANY(:ids) GROUP BY a.task_run_id
"""


def run_steps(tx: Transaction, id: UUID, run: Document) -> list[Document]:
    """The steps of a run by their numbers: {id, status, attempt, done, total, …}; a map counts its items.

    Args:
        run: the run's document from `runs.run`, which has checked that the tenant owns the run.
    """
    if run["taskRunsCursor"] is None:  # it holds them all
        rows = [each for each in run["taskRuns"] if each["kind"] in STEPS]
        items = _count_shown(run["taskRuns"])
    else:
        last = ids.task_run_id(id, MAX_STEPS)
        rows = [_step_row(id, each) for each in tx.execute(_STEPS, {"id": id, "last": last})]
        items = _count(tx, id) if run["taskRunCount"] > len(rows) else {}
    retried = [ids.read(ids.TASK_RUN, each["id"]) for each in rows if each["attempt"] > 1]
    first = {task_run_id(each): iso(at) for each, at in first_starts(tx, id, retried).items()}
    of_steps = runs_of_steps.of_task_runs(tx, id, [_seen(each) for each in rows if _may_have_run(each)])
    inside = {task_run_id(each): run for each, run in of_steps.items()}
    overs = overs_of(tx, id) if run["overMs"] else ()
    return [
        _step(each, items.get(each["id"], {}), first.get(each["id"]), inside.get(each["id"], NO_RUN), overs)
        for each in rows
    ]


def _may_have_run(each: Document) -> bool:
    return runs_of_steps.may_have_run(each["taskId"], each["kind"], each["status"], each["errorCode"])


def _seen(each: Document) -> TaskRunSeen:
    id = ids.read(ids.TASK_RUN, each["id"])
    return TaskRunSeen(id, each["taskId"], each["kind"], each["status"], each["errorCode"])


def _step_row(run: UUID, row: Any) -> Document:
    """The parts of a task run that its step shows, as `task_runs.task_run_row` names them."""
    return {
        "id": ids.show_task_run(run, int(row.ordinal, 16)),
        "stepId": row.step_id,
        "taskId": row.task_id,
        "kind": row.kind,
        "status": row.status,
        "attempt": row.attempt,
        "maxAttempts": row.max_attempts,
        "progress": row.progress,
        "progressMessage": row.progress_message,
        "mapCount": row.map_count,
        "codeVersion": row.code_version,
        "errorCode": row.error_code,
        "dueAt": iso(row.due_at),
        "startedAt": iso(row.started_at),
        "finishedAt": iso(row.finished_at),
        "durationMs": duration_ms(row.started_at, row.finished_at),
    }


# --- the items of maps ------------------------------------------------------------------------------------

# Id of a map's task run -> how many of its items have which status.
Counts = Mapping[str, Mapping[str, int]]


def _count_shown(task_runs: Sequence[Document]) -> Counts:
    """Count the items of a run whose document holds all its task runs: this reads no further row."""
    maps = {each["stepId"]: each["id"] for each in task_runs if each["kind"] in WITH_ITEMS}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in task_runs:
        if each["kind"] in ITEMS:
            counts[maps[each["stepId"]]][each["status"]] += 1
    return counts


def _count(tx: Transaction, id: UUID) -> Counts:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in tx.execute(_ITEMS, {"id": id}):
        counts[task_run_id(ids.task_run_id(id, row.map_parent))][row.status] += row.number
    return counts


# --- one step ---------------------------------------------------------------------------------------------


def first_starts(tx: Transaction, id: UUID, retried: Sequence[UUID]) -> dict[UUID, datetime]:
    """The start of the first attempt of each task run that had several."""
    if not retried:
        return {}
    rows = tx.execute(_FIRST_STARTS, {"id": id, "ids": retried})
    return {row.task_run_id: row.started_at for row in rows if row.started_at is not None}


def _step(
    row: Document,
    items: Mapping[str, int],
    first_start: str | None,
    inside: RunOfStep,
    overs: Sequence[Over],
) -> Document:
    started, finished = first_start or row["startedAt"], row["finishedAt"]
    over, took = over_ms(overs, started, finished), row["durationMs"]
    if first_start is not None:
        took = duration_between(first_start, finished)
    is_map = row["kind"] in WITH_ITEMS
    return {
        "id": row["stepId"],
        "taskRunId": row["id"],
        "taskId": row["taskId"],
        "kind": row["kind"],
        "status": row["status"],
        "attempt": row["attempt"],
        "maxAttempts": row["maxAttempts"],
        "progress": row["progress"],
        "progressMessage": row["progressMessage"],
        "codeVersion": row["codeVersion"],
        "errorCode": row["errorCode"],
        "finishedAt": finished,
        **(_HAS_FAILED if is_map and _has_ended_its_run(row, items) else {}),
        **(_counts(items, row["mapCount"] or 0) if is_map else _COUNTS_OF_ONE[row["status"]]),
        "dueAt": row["dueAt"] if row["status"] == "pending" else None,
        "startedAt": started,
        "durationMs": None if took is None else max(0.0, round(took - over, 1)),
        "overMs": over,
        "childRunId": None if inside.run is None else run_id(inside.run),
        "round": inside.round,
    }


def _counts(counts: Mapping[str, int], total: int) -> Document:
    return {
        "done": sum(number for status, number in counts.items() if status in FINAL_TASK),
        "total": total,
        "completed": counts.get("completed", 0),
        "failed": counts.get("failed", 0) + counts.get("timeout", 0),
        "cancelled": counts.get("cancelled", 0),
        "skipped": counts.get("skipped", 0),
    }


# Of a step that is one task run, by its status.
_COUNTS_OF_ONE = {each.value: _counts({each.value: 1}, 1) for each in TaskStatus}

# An item's failure ends a run that fails fast, and the end of the run cancels the map. Its step has failed:
# that is what its run says, and what a map shows that waited for all its items.
_HAS_FAILED: Document = {"status": "failed", "errorCode": "MAP_ITEMS_FAILED"}


def _has_ended_its_run(row: Document, counts: Mapping[str, int]) -> bool:
    is_cut_off = row["status"] == "cancelled" and row["errorCode"] == "RUN_FAILED"
    return is_cut_off and any(counts.get(status) for status in ("failed", "timeout"))


def duration_between(started: str | None, finished: str | None) -> float | None:
    """Milliseconds between two times as answers write them, None when one is missing."""
    if started is None or finished is None:
        return None
    return duration_ms(datetime.fromisoformat(started), datetime.fromisoformat(finished))
