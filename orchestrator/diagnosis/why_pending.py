"""Reasons why a task run is pending: its run waits for its turn, open predecessors, a key, a due time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.diagnosis.why_reasons import Reason, reason, seconds
from pipeweave.orchestrator.domain.json_shapes import iso, run_id, task_run_id
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.queueing import run_keys, run_slots
from pipeweave.orchestrator.queueing.run_slots import RunSlots
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.rates import Rate

# Open predecessors shown in a reason.
MOST_SHOWN = 20


def pending_reasons(tx: Transaction, row: Any) -> Iterator[Reason]:
    """Why a pending task run is not ready. `row` is a row of why.py's query."""
    # A paused run is not in line: its pause, which is told with the limits, has to end first.
    if row.run_status == RunStatus.PENDING and row.paused_at is None:
        yield from _not_its_turn(tx, row)
    if row.due_at is None:
        yield from _predecessors(tx, row)
    elif row.awaits is not None:
        holder = task_run_id(row.awaits)
        text = f"it waits for the result of task run {holder}, which has the same idempotency key"
        yield reason("key_held", text, holder=holder)
    else:
        yield _not_due(tx, row)


def _not_its_turn(tx: Transaction, row: Any) -> Iterator[Reason]:
    place = run_keys.place_of(tx, row.run_id)
    if place is not None and place.most is not None and place.active + place.position > place.most:
        yield _key_limited(place)
    if place is not None and place.started_at is not None:
        yield _key_too_often(place, row.now)
    slots = run_slots.slots_of(tx, row.tenant_id)
    if place is None or slots.most is not None:
        yield _without_slot(tx, row, slots)


def _key_limited(place: Any) -> Reason:
    """Which runs of its key it waits for."""
    shown = [run_id(each) for each in place.runs]
    more = f" and {place.active - len(shown):,} more" if place.active > len(shown) else ""
    runs = f": {', '.join(shown)}{more}" if shown else ""
    whose = f"with key {place.key!r}" if place.key else "of its pipeline"
    under_way = "1 is" if place.active == 1 else f"{place.active:,} are"
    text = (
        f"pipeline {place.pipeline_id!r} allows {place.most:,} at once of the runs {whose}, and "
        f"{under_way} under way{runs}; its run is number {place.position:,} of {place.waiting:,}"
    )
    numbers = {"position": place.position, "waiting": place.waiting, "active": place.active}
    return reason("key_limit", text, key=place.key, limit=place.most, runs=shown, **numbers)


def _key_too_often(place: Any, now: datetime) -> Reason:
    """When its key has room in its rate."""
    rate = Rate(place.key_rate, place.key_seconds)
    starts = place.started_at + timedelta(seconds=rate.seconds)
    in_s = max(0.0, seconds(starts, now))
    whose = f"with key {place.key!r}" if place.key else "of its pipeline"
    # Behind so many, others have to start before it is known when.
    at = "in" if place.position <= rate.limit else "not before"
    text = (
        f"pipeline {place.pipeline_id!r} starts {rate} of the runs {whose}: its run is number "
        f"{place.position:,} of {place.waiting:,}, its turn comes {at} {in_s:g} s"
    )
    numbers = {"position": place.position, "waiting": place.waiting, "startsAt": iso(starts), "inS": in_s}
    return reason("key_rate", text, key=place.key, rateLimit=str(rate), **numbers)


def _without_slot(tx: Transaction, row: Any, slots: RunSlots) -> Reason:
    position = run_slots.position(tx, row.tenant_id, row.run_id)
    most = (
        "and the limit was removed"
        if slots.most is None
        else f"{slots.active:,} of {slots.most:,} allowed runs are active"
    )
    text = f"its run is queued: number {position:,} of {slots.waiting:,}, {most}"
    numbers = {"position": position, "waiting": slots.waiting, "active": slots.active}
    return reason("run_waits", text, **numbers, maxActiveRuns=slots.most)


_PREDECESSORS = f"""
SELECT t.id, t.step_id, t.status FROM {NAMED} JOIN task_runs AS t ON {by_key()}
WHERE t.finished_at IS NULL ORDER BY t.id
"""


def _predecessors(tx: Transaction, row: Any) -> Iterator[Reason]:
    run = run_headers.load(tx, row.run_id)
    ordinal = ids.ordinal_of(row.id)
    if run is None or ordinal > len(run.plan.steps):
        return
    before = run.plan.predecessors(ordinal)
    if not before:
        return  # an entry step of a run that waits for its turn
    predecessor_ids = [ids.task_run_id(row.run_id, each) for each in before]
    opened = tx.execute(_PREDECESSORS, {"run_id": row.run_id, "ids": predecessor_ids}).all()
    if not opened:
        text = "all its predecessors have ended: a worker or the scheduler loop starts it next"
        yield reason("join_closed", text, predecessors=len(before))
        return
    named = ", ".join(f"{each.step_id} ({each.status})" for each in opened[:3])
    more = f" and {len(opened) - 3:,} more" if len(opened) > 3 else ""
    shown = [
        {"stepId": each.step_id, "taskRunId": task_run_id(each.id), "status": each.status}
        for each in opened[:MOST_SHOWN]
    ]
    yield reason(
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
    in_s = max(0.0, seconds(row.due_at, row.now))
    error = "" if last is None else f"; the last error: {last.message} ({last.error_code})"
    text = f"attempt {row.attempt} of {row.max_attempts} is due in {in_s:g} s{error}"
    numbers = {
        "dueAt": iso(row.due_at),
        "inS": in_s,
        "attempt": row.attempt,
        "maxAttempts": row.max_attempts,
        "error": last and last.message,
        "errorCode": last and last.error_code,
    }
    return reason("retry_due", text, **numbers)
