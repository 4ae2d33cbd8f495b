"""The verbs that start runs of a schedule on request: one now, or those of a range of due times."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.runs.triggering import CreatedRun
from pipeweave.orchestrator.starts.schedules import fires, row
from pipeweave.orchestrator.starts.schedules.decision import DueFire
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values

# Runs of one backfill, and of one of its transactions.
MAX_BACKFILL = 1_000
PER_TRANSACTION = 100


def fire_now(
    tx: Transaction,
    values: Values,
    tenant: str,
    schedule_id: str,
    *,
    actor: str | None = None,
    key: str | None = None,
) -> tuple[datetime, CreatedRun]:
    """Start a run of a schedule at once, whether it is paused, due, or has an open run.

    Args:
        actor: who asked for it.
        key: a second start with the same key and the same input gives the first run.

    Returns:
        The time that stands in its list of fires, and the run.

    Raises:
        NotFound: the tenant has no such schedule.
        PipeWeaveError: as a trigger of the pipeline. Nothing was started.
    """
    schedule = row.lock_existing(tx, tenant, schedule_id)
    now = tx.now
    while fires.existing(tx, schedule, [now]):
        now += timedelta(microseconds=1)
    runs = fires.start_runs(tx, values, schedule, [now], actor, token=key and _token(schedule_id, key))
    if not runs[now].created:
        return fires.time_of(tx, schedule, runs[now].id) or now, runs[now]
    fires.write(tx, schedule, [DueFire(now)], runs, kind="manual")
    return now, runs[now]


def _token(schedule_id: str, key: str) -> str:
    """A run token for a key, which may be as long as a token itself."""
    return f"fire:{hashlib.sha256(f'{schedule_id} {key}'.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Backfill:
    """What a backfill did, or would do.

    Args:
        times: the due times of the range, at most as many as asked for.
        runs: the run of each time that had none before; empty for a dry run.
        known: how many of the times were decided about before.
        next_from: where another backfill of the same range goes on; None at its end.
    """

    times: Sequence[datetime]
    runs: dict[datetime, CreatedRun]
    known: int
    next_from: datetime | None


def backfill(
    database: Database,
    values: Values,
    tenant: str,
    schedule_id: str,
    begin: datetime,
    end: datetime,
    *,
    limit: int = MAX_BACKFILL,
    is_dry: bool = False,
    actor: str | None = None,
) -> Backfill:
    """Start a run for each due time from `begin` until just before `end` that nothing was decided about.

    The schedule's own start and end, a pause and the overlap policy do not count here. A second backfill of
    the same range starts nothing twice. Runs are started PER_TRANSACTION at a time: after an error, those
    before it stay.

    Raises:
        NotFound: the tenant has no such schedule.
        InvalidInput: the range is empty, or ends after now.
        PipeWeaveError: as a trigger of the pipeline.
    """
    with database.transaction() as tx:
        schedule = row.lock_existing(tx, tenant, schedule_id)
        _check_range(begin, end, tx.now)
        upcoming = schedule.timetable.without_bounds().upcoming(begin - timedelta(microseconds=1))
        due_times = list(islice(takewhile(lambda each: each < end, upcoming), limit + 1))
        times, following = due_times[:limit], due_times[limit:]
        known = len(fires.existing(tx, schedule, times))
    runs: dict[datetime, CreatedRun] = {}
    for start in range(0, 0 if is_dry else len(times), PER_TRANSACTION):
        some = times[start : start + PER_TRANSACTION]
        runs |= database.run(lambda tx, some=some: _start(tx, values, tenant, schedule_id, some, actor))  # type: ignore[misc]
    return Backfill(times, runs, known, following[0] if following else None)


def _start(
    tx: Transaction,
    values: Values,
    tenant: str,
    schedule_id: str,
    times: Sequence[datetime],
    actor: str | None,
) -> dict[datetime, CreatedRun]:
    schedule = row.lock_existing(tx, tenant, schedule_id)
    known = fires.existing(tx, schedule, times)
    missing = [each for each in times if each not in known]
    runs = fires.start_runs(tx, values, schedule, missing, actor)
    fires.write(tx, schedule, [DueFire(each) for each in missing], runs, kind="backfill")
    return runs


def _check_range(begin: datetime, end: datetime, now: datetime) -> None:
    errors = []
    if begin >= end:
        errors.append(FieldError("to", "must lie after from", "out_of_range"))
    if end > now:
        errors.append(FieldError("to", "lies in the future", "out_of_range", "a time up to now"))
    if errors:
        raise InvalidInput(f"{errors[0].field} {errors[0].message}", errors=errors)
