"""Explains why a task run does not run yet: what has to happen first, with numbers.

It uses the functions that dispatch uses: the plan, the state of limits, the order of runs, the test for a
lost message. It locks nothing, so the answer may be out of date a moment later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.diagnosis import why_dispatched, why_held, why_inside, why_pending, why_waiting
from pipeweave.orchestrator.diagnosis.why_held import Oldest
from pipeweave.orchestrator.diagnosis.why_reasons import Reason, reason, seconds
from pipeweave.orchestrator.documents.run_questions import WhyAnswer
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.json_shapes import iso, task_run_id
from pipeweave.orchestrator.domain.states import FINAL_TASK, TaskStatus
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.store.remembering import Remembering
from pipeweave.spec import CALLED, WITH_ITEMS

T = TaskStatus
# What keeps its service from taking a dispatch matters in these.
_STARTS_NEXT = frozenset({T.PENDING, T.READY, T.QUEUED})

# To which code a task run is pinned costs a look at its pipeline: only what is queued needs it.
_ROWS = f"""
SELECT t.id, t.run_id, t.tenant_id, t.task_id, t.step_id, t.kind, t.status, t.attempt, t.max_attempts,
       t.priority, t.queue, t.is_limited, t.due_at, t.awaits, t.queued_at, t.started_at, t.claimed_at,
       t.heartbeat_at, t.finished_at, t.worker, t.progress, t.error_code, t.map_first, t.map_count,
       r.status AS run_status, r.pipeline_id, now() AS now, t.code_version,
       CASE WHEN t.status = 'queued' THEN {placement.PINNED_TO} END AS pinned_to, t.queue_name, t.requires,
       (SELECT k.requires FROM tasks AS k
        WHERE k.tenant_id = t.tenant_id AND k.id = t.task_id) AS task_requires,
       coalesce(jsonb_exists(r.edits -> 'params', t.step_id), false) AS is_edited,
       p.paused_at, p.paused_by, p.reason AS pause_reason
FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[])) AS n(run_id, id)
    JOIN task_runs AS t ON t.run_id = n.run_id AND t.id = n.id AND (n.id = n.id) IS TRUE
    JOIN runs AS r ON r.id = n.run_id
    LEFT JOIN run_pauses AS p ON p.run_id = n.run_id
WHERE t.tenant_id = :tenant
"""


def why(tx: Transaction, tenant: str, id: UUID, oldest: Oldest, *, is_serverless: bool = False) -> Document:
    """Why a task run does not run: the reasons in the order in which they must be resolved.

    Args:
        oldest: `Publisher.oldest`, for the messages in Redis.
        is_serverless: the tick dispatches to HTTP services, and no worker has to run for that.

    Raises:
        NotFound: the tenant has no such task run.
    """
    row = _rows(tx, tenant, [id]).get(id)
    if row is None:
        raise NotFound(f"task run {task_run_id(id)} not found", taskRunId=task_run_id(id))
    return WhyAnswer.of(
        row,
        task_run_id=row.id,
        run_id=None if row.pipeline_id is None else row.run_id,
        reasons=[each.to_json() for each in _reasons(tx, row, oldest, is_serverless)],
    )


def first_reasons(
    tx: Transaction, tenant: str, wanted: Sequence[UUID], oldest: Oldest, *, is_serverless: bool = False
) -> dict[UUID, Reason]:
    """Of each of these task runs the reason that has to be resolved first, if it has one and is still there.

    The arguments are those of `why`. Nothing is read for the reasons behind it, and once for all of them what
    they have in common: what holds for their task, their queue or their tenant.
    """
    once = Remembering(tx)
    rows = _rows(tx, tenant, wanted)
    reasons = {id: next(_reasons(once, row, oldest, is_serverless), None) for id, row in rows.items()}
    return {id: each for id, each in reasons.items() if each is not None}


def _rows(tx: Transaction, tenant: str, wanted: Sequence[UUID]) -> dict[UUID, Any]:
    if not wanted:
        return {}
    runs = [ids.run_id_of(each) for each in wanted]
    rows: list[Any] = list(tx.execute(_ROWS, {"runs": runs, "ids": list(wanted), "tenant": tenant}))
    return {row.id: row for row in rows}


def _reasons(tx: Transaction, row: Any, oldest: Oldest, is_serverless: bool) -> Iterator[Reason]:
    status = TaskStatus(row.status)
    if status in FINAL_TASK:
        yield _finished(row)
        return
    if deployment_mode.mode(tx) == deployment_mode.MAINTENANCE:
        yield reason(
            "maintenance", "maintenance mode is on: nothing starts until `pipeweave maintenance exit`"
        )
    if status in _STARTS_NEXT and row.kind in CALLED and queue_names.is_dispatch(row.queue):
        yield from why_dispatched.service_reasons(tx, row)
    match status:
        case T.RUNNING:
            yield _running(row)
        case T.WAITING:
            yield _waiting(tx, row)
            yield from _inside(tx, row, oldest, is_serverless)
        case T.PENDING:
            yield from why_pending.pending_reasons(tx, row)
            yield from why_held.limit_reasons(tx, row)
        case T.READY:
            held = why_held.limit_reasons(tx, row)
            yield next(held, reason("goes_now", "its limits have room: it starts within a second"))
            yield from held
        case T.QUEUED:
            yield from why_held.pause_reasons(tx, row)
            if queue_names.is_dispatch(row.queue):
                yield from why_dispatched.dispatcher_reasons(tx, row, is_serverless=is_serverless)
                yield from why_held.line_reasons(tx, row, None if is_serverless else oldest)
            else:
                yield from why_held.queue_reasons(tx, row, oldest)


def _inside(tx: Transaction, row: Any, oldest: Oldest, is_serverless: bool) -> Iterator[Reason]:
    """What holds up the child run that a step waits for, and the runs inside of that one."""
    task_run = None if row.kind in WITH_ITEMS else why_inside.decisive(tx, row)
    inner = None if task_run is None else _rows(tx, row.tenant_id, [task_run]).get(task_run)
    if inner is None:
        return
    for each in _reasons(tx, inner, oldest, is_serverless):
        # What was found further inside says where that is.
        yield each if "insideRunId" in each.numbers else why_inside.told_of(inner, each)


# --- finished, running or waiting -------------------------------------------------------------------------


def _finished(row: Any) -> Reason:
    because = f" ({row.error_code})" if row.error_code else ""
    numbers = {"finishedAt": iso(row.finished_at), "errorCode": row.error_code}
    return reason("finished", f"it is {row.status}{because} and does not run again", **numbers)


def _running(row: Any) -> Reason:
    for_s, silent_s = seconds(row.now, row.claimed_at), seconds(row.now, row.heartbeat_at)
    text = f"attempt {row.attempt} of {row.max_attempts} runs on {row.worker} for {for_s:g} s"
    numbers = {
        "worker": row.worker,
        "startedAt": iso(row.started_at),
        "forS": for_s,
        "heartbeatS": silent_s,
        "progress": row.progress,
    }
    return reason("running", text, **numbers, attempt=row.attempt, maxAttempts=row.max_attempts)


_OPEN_ITEMS = """
SELECT count(*) FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL
"""


def _waiting(tx: Transaction, row: Any) -> Reason:
    if row.kind not in WITH_ITEMS or row.error_code is not None:
        return why_waiting.waiting_reason(tx, row)
    span = {
        "run_id": row.run_id,
        "first": ids.task_run_id(row.run_id, row.map_first),
        "last": ids.task_run_id(row.run_id, row.map_first + row.map_count - 1),
    }
    number = int(tx.execute(_OPEN_ITEMS, span).scalar_one())
    text = f"{number:,} of its {row.map_count:,} items have not ended"
    return reason("items_open", text, open=number, items=row.map_count)
