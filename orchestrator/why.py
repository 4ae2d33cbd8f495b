"""Why a task run does not run yet: what has to happen first, with numbers.

It asks what dispatch asks: the same plan, the same standing of limits, the same places of runs, the same test
for a lost message. Nothing is locked, so the answer is that of a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound, Unavailable
from pipeweave.orchestrator import (
    admission,
    healing,
    limits,
    maintenance,
    pauses,
    rate_limits,
    run_header,
    workers,
)
from pipeweave.orchestrator.canvas import level
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.limits import Standing
from pipeweave.orchestrator.paging import Document
from pipeweave.orchestrator.queries_shape import iso, run_id, task_run_id
from pipeweave.orchestrator.states import FINAL_TASK, RunStatus, TaskStatus
from pipeweave.orchestrator.tick import LATE

T = TaskStatus

# Of the predecessors that are open; of those before one, counting ends here.
MOST_SHOWN = 20
MOST_COUNTED = 10_000

# When the message was sent that a worker takes next, by level of a queue (`Canvas.oldest`).
Oldest = Callable[[str], Mapping[int, float | None]]


@dataclass(frozen=True, slots=True)
class Reason:
    """Something that has to happen, or happened: `code` is stable, `numbers` are what `text` says."""

    code: str
    text: str
    numbers: Mapping[str, Any]

    def to_json(self) -> Document:
        return {"code": self.code, "text": self.text, **self.numbers}


def _reason(code: str, text: str, **numbers: Any) -> Reason:
    return Reason(code, text, numbers)


_ROW = """
SELECT t.id, t.run_id, t.tenant_id, t.task_id, t.step_id, t.kind, t.status, t.attempt, t.max_attempts,
       t.priority, t.queue, t.is_limited, t.due_at, t.awaits, t.queued_at, t.started_at, t.claimed_at,
       t.heartbeat_at, t.finished_at, t.worker, t.progress, t.error_code, t.map_first, t.map_count,
       r.status AS run_status, r.pipeline_id, now() AS now
FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
WHERE t.run_id = :run_id AND t.id = :id AND t.tenant_id = :tenant
"""


def why(tx: Transaction, tenant: str, id: UUID, oldest: Oldest) -> Document:
    """{taskRunId, runId, status, reasons}: the reasons in the order in which they must go away.

    Raises:
        NotFound: the tenant has no such task run.
    """
    row: Any = tx.execute(_ROW, {"run_id": ids.run_id_of(id), "id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise NotFound(f"there is no task run {task_run_id(id)}", taskRunId=task_run_id(id))
    return {
        "taskRunId": task_run_id(row.id),
        "runId": None if row.pipeline_id is None else run_id(row.run_id),
        "status": row.status,
        "reasons": [each.to_json() for each in _reasons(tx, row, oldest)],
    }


def _reasons(tx: Transaction, row: Any, oldest: Oldest) -> Iterator[Reason]:
    status = TaskStatus(row.status)
    if status in FINAL_TASK:
        yield _finished(row)
        return
    if maintenance.mode(tx) == maintenance.MAINTENANCE:
        yield _reason("maintenance", "maintenance is on: nothing moves until `pipeweave maintenance exit`")
    match status:
        case T.RUNNING:
            yield _running(row)
        case T.WAITING:
            yield _waiting(tx, row)
        case T.PENDING:
            yield from _before_it(tx, row)
            yield from _held(tx, row)
        case T.READY:
            held = list(_held(tx, row))
            yield from held or [
                _reason("goes_now", "its limits have room: the tick lets it go within a second")
            ]
        case T.QUEUED:
            yield from _paused(tx, row)
            yield from _queued(tx, row, oldest)


# --- over, or under way -----------------------------------------------------------------------------------


def _finished(row: Any) -> Reason:
    because = f" ({row.error_code})" if row.error_code else ""
    numbers = {"finishedAt": iso(row.finished_at), "errorCode": row.error_code}
    return _reason("finished", f"it is {row.status}{because} and does not run any more", **numbers)


def _running(row: Any) -> Reason:
    for_s, silent_s = _seconds(row.now, row.claimed_at), _seconds(row.now, row.heartbeat_at)
    text = f"attempt {row.attempt} of {row.max_attempts} runs on {row.worker} for {for_s:g} s"
    numbers = {
        "worker": row.worker,
        "startedAt": iso(row.started_at),
        "forS": for_s,
        "heartbeatS": silent_s,
        "progress": row.progress,
    }
    return _reason("running", text, **numbers, attempt=row.attempt, maxAttempts=row.max_attempts)


_OPEN_ITEMS = """
SELECT count(*) FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL
"""


def _waiting(tx: Transaction, row: Any) -> Reason:
    if row.kind != "map":
        return _reason("waiting", "it waits for something outside, and holds no worker")
    span = {
        "run_id": row.run_id,
        "first": ids.task_run_id(row.run_id, row.map_first),
        "last": ids.task_run_id(row.run_id, row.map_first + row.map_count - 1),
    }
    number = int(tx.execute(_OPEN_ITEMS, span).scalar_one())
    text = f"{number:,} of its {row.map_count:,} items are not final"
    return _reason("items_open", text, open=number, items=row.map_count)


# --- what comes before it ---------------------------------------------------------------------------------


def _before_it(tx: Transaction, row: Any) -> Iterator[Reason]:
    if row.run_status == RunStatus.PENDING:
        yield _not_its_turn(tx, row)
    if row.run_status == RunStatus.PAUSED:
        yield _reason("run_paused", "its run is paused")
    if row.due_at is None:
        yield from _predecessors(tx, row)
    elif row.awaits is not None:
        holder = task_run_id(row.awaits)
        text = f"task run {holder} executes under the same idempotency key: it waits for that one's result"
        yield _reason("key_held", text, holder=holder)
    else:
        yield _not_due(tx, row)


def _not_its_turn(tx: Transaction, row: Any) -> Reason:
    found = admission.standing(tx, row.tenant_id)
    position = admission.position(tx, row.tenant_id, row.run_id)
    most = "no limit any more" if found.most is None else f"{found.active:,} of {found.most:,} are active"
    text = f"its run waits for its turn: number {position:,} of {found.waiting:,} in line, {most}"
    numbers = {"position": position, "waiting": found.waiting, "active": found.active}
    return _reason("run_waits", text, **numbers, maxActiveRuns=found.most)


_PREDECESSORS = """
SELECT t.id, t.step_id, t.status FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) AND t.finished_at IS NULL ORDER BY t.id
"""


def _predecessors(tx: Transaction, row: Any) -> Iterator[Reason]:
    run = run_header.load(tx, row.run_id)
    ordinal = ids.ordinal_of(row.id)
    if run is None or ordinal > len(run.plan.steps):
        return
    before = run.plan.predecessors(ordinal)
    if not before:
        return  # of a run that waits for its turn
    which = [ids.task_run_id(row.run_id, each) for each in before]
    opened = tx.execute(_PREDECESSORS, {"run_id": row.run_id, "ids": which}).all()
    if not opened:
        text = "all it waits for is final: it goes as soon as a worker, or the tick, has looked at it"
        yield _reason("join_closed", text, predecessors=len(before))
        return
    named = ", ".join(f"{each.step_id} ({each.status})" for each in opened[:3])
    more = f" and {len(opened) - 3:,} more" if len(opened) > 3 else ""
    shown = [
        {"stepId": each.step_id, "taskRunId": task_run_id(each.id), "status": each.status}
        for each in opened[:MOST_SHOWN]
    ]
    yield _reason(
        "predecessors_open",
        f"it waits for {named}{more}",
        open=len(opened),
        predecessors=len(before),
        steps=shown,
    )


_LAST_ERROR = """
SELECT a.error ->> 'message' AS message, a.error_code FROM attempts AS a
WHERE a.run_id = :run_id AND a.task_run_id = :id ORDER BY a.number DESC LIMIT 1
"""


def _not_due(tx: Transaction, row: Any) -> Reason:
    last: Any = tx.execute(_LAST_ERROR, {"run_id": row.run_id, "id": row.id}).one_or_none()
    in_s = max(0.0, _seconds(row.due_at, row.now))
    error = "" if last is None else f"; the last one: {last.message} ({last.error_code})"
    text = f"attempt {row.attempt} of {row.max_attempts} is due in {in_s:g} s{error}"
    numbers = {
        "dueAt": iso(row.due_at),
        "inS": in_s,
        "attempt": row.attempt,
        "maxAttempts": row.max_attempts,
        "error": last and last.message,
        "errorCode": last and last.error_code,
    }
    return _reason("retry_due", text, **numbers)


# --- what holds it back -----------------------------------------------------------------------------------


def _paused(tx: Transaction, row: Any) -> Iterator[Reason]:
    for each in pauses.find(tx, row.tenant_id):
        if each.task_id not in (None, row.task_id):
            continue
        code, what = ("tenant_paused", "the tenant") if each.task_id is None else ("task_paused", "its task")
        because = f": {each.reason}" if each.reason else ""
        text = f"{what} is paused since {iso(each.paused_at)}{because}"
        yield _reason(code, text, since=iso(each.paused_at), reason=each.reason)


def _held(tx: Transaction, row: Any) -> Iterator[Reason]:
    """Pauses and, of a limited task, the limits that have no room."""
    yield from _paused(tx, row)
    if not row.is_limited or row.kind == "map":
        return
    found = limits.standing(tx, row.tenant_id, row.task_id)
    position = limits.position(tx, row.tenant_id, row.task_id, row.priority, row.id, MOST_COUNTED)
    if found.rate_room is not None and position > found.rate_room:
        yield _rate_limited(found, position, row.now)
    if found.free is not None and position > found.free:
        text = (
            f"{found.live:,} of the {found.concurrency:,} that its task allows at once are live; "
            f"it is {_nth(position)} in line"
        )
        numbers = {"live": found.live, "concurrency": found.concurrency, "position": position}
        yield _reason("concurrency_limit", text, **numbers)


def _rate_limited(found: Standing, position: int, now: datetime) -> Reason:
    assert found.rate is not None
    starts = rate_limits.when(found.rate, found.on_time, position)
    in_s = max(0.0, _seconds(starts, now))
    text = (
        f"its task may start {found.rate} over all workers: it is {_nth(position)} in line, "
        f"its turn comes in {in_s:g} s"
    )
    numbers = {"rateLimit": str(found.rate), "startsAt": iso(starts), "inS": in_s, "position": position}
    return _reason("rate_limit", text, **numbers)


# --- in the queue -----------------------------------------------------------------------------------------

_AHEAD = """
SELECT count(*) FROM (
    SELECT 1 FROM task_runs AS t WHERE t.status = 'queued' AND t.queue = :queue
        AND (t.priority, t.queued_at) < (:priority, CAST(:queued_at AS timestamptz)) LIMIT :most) AS a
"""


def _queued(tx: Transaction, row: Any, oldest: Oldest) -> Iterator[Reason]:
    alive, places = workers.alive_of_queue(tx, row.queue)
    if not alive:
        text = f"no worker is alive that serves {row.queue}"
        yield _reason("no_worker", text, queue=row.queue, workers=0)
    place = {"queue": row.queue, "priority": row.priority, "queued_at": row.queued_at}
    ahead = int(tx.execute(_AHEAD, place | {"most": MOST_COUNTED}).scalar_one())
    text = f"it is queued, {_up_to(ahead)} before it; workers alive: {alive:,}, with room for {places:,}"
    numbers = {"ahead": ahead, "priority": row.priority, "queue": row.queue}
    yield _reason("queued", text, **numbers, workers=alive, places=places)
    yield from _late(row, oldest)


def _late(row: Any, oldest: Oldest) -> Iterator[Reason]:
    try:
        waiting = oldest(row.queue)
    except Unavailable as error:
        yield _reason("broker_away", f"{error.detail}: the tick sends its message when it is back")
        return
    before = healing.lost_before(row.now - healing.LEEWAY, waiting[level(row.priority)])
    if row.queued_at < before:
        in_s = max(0.0, LATE.total_seconds() - _seconds(row.now, row.queued_at))
        text = f"its message is not in the queue any more: it is sent again in {in_s:g} s"
        yield _reason("message_late", text, inS=in_s, queuedAt=iso(row.queued_at))


# --- words ------------------------------------------------------------------------------------------------


def _seconds(later: datetime, earlier: datetime | None) -> float:
    return 0.0 if earlier is None else round((later - earlier).total_seconds(), 1)


def _nth(position: int) -> str:
    return f"number {_up_to(position)}"


def _up_to(number: int) -> str:
    return f"{number:,}" if number < MOST_COUNTED else f"{MOST_COUNTED:,} or more"
