"""The chore of the tick that starts the runs of due schedules.

Each schedule has a transaction of its own, which locks its row, starts its runs, notes each fire and moves
the next due time on: all of it, or nothing. So a process may die at any moment, and several may do this at
once.

A schedule whose pipeline is gone, or refuses the input, goes on: the fire is noted as failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from pipeweave.errors import Conflict, NotFound, PipeWeaveError, Unavailable
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.starts.schedules import fires, row
from pipeweave.orchestrator.starts.schedules.decision import decide
from pipeweave.orchestrator.starts.schedules.row import COLUMNS, Schedule
from pipeweave.orchestrator.state import deployment_mode, due_work
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# One tick takes at most this many schedules, of whichever kind; the next tick goes on.
BATCH = 200

# SQL: waiting times whose schedule has no open run any more.
_READY = """
SELECT f.tenant_id, f.schedule_id, f.scheduled_at FROM schedule_fires AS f
    JOIN schedules AS s ON s.tenant_id = f.tenant_id AND s.id = f.schedule_id AND s.enabled
WHERE f.outcome = 'waiting' AND NOT EXISTS (
    SELECT 1 FROM schedule_fires AS o JOIN runs AS r ON r.id = o.run_id AND r.finished_at IS NULL
    WHERE o.tenant_id = f.tenant_id AND o.schedule_id = f.schedule_id AND o.is_open)
LIMIT :batch
"""
_SUPERSEDED = """
SELECT f.tenant_id, f.schedule_id, f.scheduled_at, f.run_id FROM schedule_fires AS f
WHERE f.is_open AND f.is_superseded LIMIT :batch
"""
# SQL: whether there is anything for this chore.
IS_DUE = f"""((EXISTS (SELECT 1 FROM schedules AS s WHERE s.enabled AND s.next_fire_at <= now())
    OR EXISTS ({_READY.replace(":batch", "1")}) OR EXISTS ({_SUPERSEDED.replace(":batch", "1")}))
    AND {deployment_mode.MODE} = '{deployment_mode.RUNNING}')"""

_DUE = due_work.in_turns(
    """SELECT s.tenant_id, s.id, s.next_fire_at FROM schedules AS s
    WHERE s.enabled AND s.next_fire_at <= :now""",
    "next_fire_at",
)


def run_once(database: Database, values: Values) -> int:
    """Start what is due now, and cancel what newer runs supersede. Nothing starts unless the deployment
    accepts new work; what becomes due meanwhile is left to the missed policy.

    Returns:
        How many fires were noted.

    Raises:
        PartlyFailed: some schedules could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    if not due_work.is_accepting(database):
        return 0
    with database.statements() as tx:
        due = list(tx.execute(_DUE, due_work.first(BATCH, tx.now)))
    isolation = Isolation(database)
    done = 0
    for each in due:
        done += isolation.run(
            lambda each=each: _fire(database, values, each.tenant_id, each.id),  # type: ignore[misc]
            tenant=each.tenant_id,
            schedule=each.id,
        )
    done += _for_each(database, isolation, _READY, lambda found: _start_waiting(database, values, found))
    done += _for_each(database, isolation, _SUPERSEDED, lambda found: _cancel(database, found))
    return isolation.finish(done)


_DUE_OF = """
SELECT tenant_id, id FROM schedules
WHERE tenant_id = :tenant AND id = ANY(CAST(:ids AS text[])) AND enabled AND next_fire_at <= :now ORDER BY id
"""


def run_due(database: Database, values: Values, tenant: str, schedule_ids: Iterable[str]) -> None:
    """Start what is due now of these schedules, as the tick would: their times are about to change. What
    cannot be looked at is left to the tick.
    """
    with database.statements() as tx:
        key = {"tenant": tenant, "ids": sorted(schedule_ids), "now": tx.now}
        due = list(tx.execute(_DUE_OF, key))
        if not due or deployment_mode.mode(tx) != deployment_mode.RUNNING:
            return
    isolation = Isolation(database)
    for each in due:
        isolation.run(
            lambda each=each: _fire(database, values, each.tenant_id, each.id),  # type: ignore[misc]
            tenant=each.tenant_id,
            schedule=each.id,
        )


def _for_each(database: Database, isolation: Isolation, statement: str, work: Callable[[Any], int]) -> int:
    with database.statements() as tx:
        found = list(tx.execute(statement, {"batch": BATCH}))
    return sum(
        isolation.run(
            lambda each=each: work(each),  # type: ignore[misc]
            tenant=each.tenant_id,
            schedule=each.schedule_id,
        )
        for each in found
    )


def _fire(database: Database, values: Values, tenant: str, schedule_id: str) -> int:
    """Start the runs of one schedule; when they are refused, note that instead."""
    try:
        return database.run(lambda tx: fire(tx, values, tenant, schedule_id))
    except Unavailable:
        raise
    except PipeWeaveError as error:
        log.warning(
            "schedule.failed",
            extra={
                "tenant": tenant,
                "schedule": schedule_id,
                "error_code": error.code,
                "reason": error.detail,
            },
        )
        refused = error
    return database.run(lambda tx: fire(tx, values, tenant, schedule_id, failure=refused))


_LOCK_DUE = f"""
SELECT {COLUMNS} FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.id = :id AND s.enabled AND s.next_fire_at <= :now FOR UPDATE SKIP LOCKED
"""
_MOVE = """
UPDATE schedules SET next_scheduled_at = :next_at, next_fire_at = :next_fire_at,
    last_fire_at = CASE WHEN :has_fired THEN :now ELSE last_fire_at END,
    last_error_code = CASE WHEN :has_fired THEN :error_code ELSE last_error_code END,
    last_error = CASE WHEN :has_fired THEN :error ELSE last_error END
WHERE tenant_id = :tenant AND id = :id
"""


def fire(
    tx: Transaction, values: Values, tenant: str, schedule_id: str, *, failure: PipeWeaveError | None = None
) -> int:
    """Decide about the due times of a schedule up to now, and start its runs. Nothing happens when it is not
    due any more, or when another transaction decides about it.

    Args:
        failure: why no run can start; it is noted with the times.

    Returns:
        How many fires were noted.

    Raises:
        PipeWeaveError: no run can start.
    """
    found = tx.execute(_LOCK_DUE, {"tenant": tenant, "id": schedule_id, "now": tx.now}).one_or_none()
    if found is None:
        return 0
    schedule = row.of_row(found)
    first, begins = schedule.next_scheduled_at, schedule.next_fire_at
    assert first is not None and begins is not None
    has_open_run, has_waiting = fires.overlap(tx, schedule)
    # What is due later starts later by as much as this one did.
    now = tx.now - (begins - first)
    decision = decide(schedule.rules, first, now, has_open_run=has_open_run, has_waiting=has_waiting)
    known = fires.existing(tx, schedule, [each.scheduled_at for each in decision.fires])
    due = [each for each in decision.fires if each.scheduled_at not in known]
    starting = [each.scheduled_at for each in due if each.outcome == "fired"]
    if decision.supersedes and failure is None:
        fires.supersede(tx, schedule)
    runs = {} if failure is not None else fires.start_runs(tx, values, schedule, starting)
    fires.write(tx, schedule, due, runs, kind="due", failure=failure)
    tx.execute(
        _MOVE,
        {
            "tenant": tenant,
            "id": schedule_id,
            "next_at": decision.next_at,
            "next_fire_at": schedule.with_jitter(decision.next_at),
            "now": tx.now,
            "has_fired": bool(starting),
            "error_code": failure and failure.code,
            "error": failure and failure.detail[: fires.MAX_ERROR_CHARS],
        },
    )
    return len(due)


def _start_waiting(database: Database, values: Values, found: Any) -> int:
    try:
        return database.run(lambda tx: start_waiting(tx, values, found))
    except Unavailable:
        raise
    except PipeWeaveError as error:
        refused = error
    return database.run(lambda tx: start_waiting(tx, values, found, failure=refused))


_LOCK_WAITING = f"""
SELECT {COLUMNS} FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.id = :id AND s.enabled AND EXISTS (
    SELECT 1 FROM schedule_fires AS f WHERE f.tenant_id = s.tenant_id AND f.schedule_id = s.id
      AND f.scheduled_at = :at AND f.outcome = 'waiting')
FOR UPDATE OF s SKIP LOCKED
"""


_NOTE = """
UPDATE schedules SET last_fire_at = :now, last_error_code = :error_code, last_error = :error
WHERE tenant_id = :tenant AND id = :id
"""


def start_waiting(
    tx: Transaction, values: Values, found: Any, *, failure: PipeWeaveError | None = None
) -> int:
    """Start the run of a time that waited for the end of the run before it.

    Raises:
        PipeWeaveError: no run can start.
    """
    at = found.scheduled_at
    locked = tx.execute(_LOCK_WAITING, {"tenant": found.tenant_id, "id": found.schedule_id, "at": at})
    if (locked_row := locked.one_or_none()) is None:
        return 0
    schedule = row.of_row(locked_row)
    has_open_run, _ = fires.overlap(tx, schedule)
    # Another transaction may have started a run, or this very one, before the row was locked.
    if has_open_run or not _still_waits(tx, schedule, at):
        return 0
    runs = {} if failure is not None else fires.start_runs(tx, values, schedule, [at])
    fires.end_wait(tx, schedule, at, runs[at].id if runs else None, failure)
    tx.execute(
        _NOTE,
        {
            "tenant": schedule.tenant,
            "id": schedule.id,
            "now": tx.now,
            "error_code": failure and failure.code,
            "error": failure and failure.detail[: fires.MAX_ERROR_CHARS],
        },
    )
    return 1


_WAITS = """
SELECT 1 FROM schedule_fires
WHERE tenant_id = :tenant AND schedule_id = :id AND scheduled_at = :at AND outcome = 'waiting'
"""


def _still_waits(tx: Transaction, schedule: Schedule, at: Any) -> bool:
    return tx.execute(_WAITS, {"tenant": schedule.tenant, "id": schedule.id, "at": at}).first() is not None


_CLOSE = """
UPDATE schedule_fires SET is_open = false
WHERE tenant_id = :tenant AND schedule_id = :id AND scheduled_at = :at AND is_open
"""


def _cancel(database: Database, found: Any) -> int:
    """Cancel a run that a newer one supersedes. It may have ended meanwhile."""
    by = f"schedule {found.schedule_id}"
    try:
        database.run(
            lambda tx: triggering.cancel(
                tx, found.tenant_id, found.run_id, reason="a newer run of its schedule began", by=by
            )
        )
    except (Conflict, NotFound):
        log.info("schedule.superseded_run_has_ended", extra={"run_id": str(found.run_id)})
    key = {"tenant": found.tenant_id, "id": found.schedule_id, "at": found.scheduled_at}
    database.run(lambda tx: tx.execute(_CLOSE, key))
    return 1
