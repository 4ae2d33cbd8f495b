"""The chore of the tick that starts the runs of due schedules.

A schedule's transaction (see loop.py) notes each fire, and moves the next due time on. A schedule whose
pipeline is gone, or refuses the input, goes on: the fire is noted as failed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.errors import Conflict, NotFound, PipeWeaveError
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import failures, loop
from pipeweave.orchestrator.starts.loop import Source
from pipeweave.orchestrator.starts.schedules import fires, row
from pipeweave.orchestrator.starts.schedules.decision import DueFire, decide
from pipeweave.orchestrator.starts.schedules.row import COLUMNS, ScheduleRow
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# SQL: waiting times whose schedule has no open run any more.
_READY = """
SELECT f.tenant_id, f.schedule_id AS cause, f.scheduled_at FROM schedule_fires AS f
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
IS_DUE = loop.is_due(
    f"""EXISTS (SELECT 1 FROM schedules AS s WHERE s.enabled AND s.next_fire_at <= now())
    OR EXISTS ({_READY.replace(":batch", "1")}) OR EXISTS ({_SUPERSEDED.replace(":batch", "1")})"""
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
    if not loop.is_accepting(database):
        return 0
    isolation = Isolation(database)
    done = sum(loop.start_due(database, values, each, isolation) for each in (SCHEDULES, WAITING_TIMES))
    return isolation.finish(done + _cancel_superseded(database, isolation))


_DUE_OF = """
SELECT tenant_id, id AS cause FROM schedules
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
    loop.start_all(database, values, SCHEDULES, due, Isolation(database))


# --- due schedules ----------------------------------------------------------------------------------------

_DUE = loop.in_turns(
    """SELECT s.tenant_id, s.id, s.id AS cause, s.next_fire_at FROM schedules AS s
    WHERE s.enabled AND s.next_fire_at <= :now""",
    "next_fire_at",
)


def _due(tx: Transaction) -> Sequence[Any]:
    return tx.execute(_DUE, loop.first(tx.now)).all()


@dataclass(frozen=True, slots=True)
class _Decided:
    """What was decided about due times of a schedule, whose row is locked.

    Args:
        fires: the times that nothing was decided about before, or the one that waited.
        next_at: the next due time then; None when there is none.
        supersedes: whether its open runs end for the one that starts.
    """

    schedule: ScheduleRow
    fires: Sequence[DueFire]
    next_at: datetime | None
    supersedes: bool = False

    @property
    def starting(self) -> list[datetime]:
        return [each.scheduled_at for each in self.fires if each.outcome == "fired"]


_LOCK_DUE = f"""
SELECT {COLUMNS} FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.id = :id AND s.enabled AND s.next_fire_at <= :now FOR UPDATE SKIP LOCKED
"""


def _lock_due(tx: Transaction, due: Any) -> _Decided | None:
    locked = tx.execute(_LOCK_DUE, {"tenant": due.tenant_id, "id": due.cause, "now": tx.now}).one_or_none()
    if locked is None:
        return None
    schedule = row.of_row(locked)
    first, begins = schedule.next_scheduled_at, schedule.next_fire_at
    assert first is not None and begins is not None
    has_open_run, has_waiting = fires.overlap(tx, schedule)
    # What is due later starts later by as much as this one did.
    now = tx.now - (begins - first)
    decision = decide(schedule.rules, first, now, has_open_run=has_open_run, has_waiting=has_waiting)
    known = fires.existing(tx, schedule, [each.scheduled_at for each in decision.fires])
    undecided = [each for each in decision.fires if each.scheduled_at not in known]
    return _Decided(schedule, undecided, decision.next_at, decision.supersedes)


def _requests(tx: Transaction, decided: _Decided) -> list[StartRequest]:
    if decided.supersedes:
        fires.supersede(tx, decided.schedule)
    return [fires.request(decided.schedule, each) for each in decided.starting]


_MOVE = """
UPDATE schedules SET next_scheduled_at = :next_at, next_fire_at = :next_fire_at,
    last_fire_at = CASE WHEN :has_fired THEN :now ELSE last_fire_at END,
    last_error_code = CASE WHEN :has_fired THEN :error_code ELSE last_error_code END,
    last_error = CASE WHEN :has_fired THEN :error ELSE last_error END
WHERE tenant_id = :tenant AND id = :id
"""


def _record(
    tx: Transaction, decided: _Decided, runs: Sequence[CreatedRun], failure: PipeWeaveError | None
) -> int:
    schedule, next_at = decided.schedule, decided.next_at
    started = dict(zip(decided.starting, runs, strict=failure is None))
    fires.write(tx, schedule, decided.fires, started, kind="due", failure=failure)
    parameters = {
        "tenant": schedule.tenant,
        "id": schedule.id,
        "next_at": next_at,
        "next_fire_at": schedule.with_jitter(next_at),
        "now": tx.now,
        "has_fired": bool(decided.starting),
    }
    tx.execute(_MOVE, parameters | failures.columns(failure))
    return len(decided.fires)


SCHEDULES = Source("schedule", _due, _lock_due, _requests, _record)


# --- times that waited for the end of the run before them -------------------------------------------------


def _ready(tx: Transaction) -> Sequence[Any]:
    return tx.execute(_READY, {"batch": loop.BATCH}).all()


_LOCK_WAITING = f"""
SELECT {COLUMNS} FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.id = :id AND s.enabled AND EXISTS (
    SELECT 1 FROM schedule_fires AS f WHERE f.tenant_id = s.tenant_id AND f.schedule_id = s.id
      AND f.scheduled_at = :at AND f.outcome = 'waiting')
FOR UPDATE OF s SKIP LOCKED
"""
# It is noted again as any due time: its row goes before the run token of its run is locked (lock order).
_TAKE = """
DELETE FROM schedule_fires
WHERE tenant_id = :tenant AND schedule_id = :id AND scheduled_at = :at AND outcome = 'waiting'
RETURNING reason
"""


def _lock_waiting(tx: Transaction, ready: Any) -> _Decided | None:
    key = {"tenant": ready.tenant_id, "id": ready.cause, "at": ready.scheduled_at}
    if (locked := tx.execute(_LOCK_WAITING, key).one_or_none()) is None:
        return None
    schedule = row.of_row(locked)
    has_open_run, _ = fires.overlap(tx, schedule)
    # Another transaction may have started a run, or this very one, before the row was locked.
    if has_open_run or (waited := tx.execute(_TAKE, key).one_or_none()) is None:
        return None
    fire = DueFire(ready.scheduled_at, reason=waited.reason)
    return _Decided(schedule, [fire], schedule.next_scheduled_at)


WAITING_TIMES = Source("schedule", _ready, _lock_waiting, _requests, _record)


# --- runs that newer ones supersede -----------------------------------------------------------------------


def _cancel_superseded(database: Database, isolation: Isolation) -> int:
    with database.statements() as tx:
        superseded = tx.execute(_SUPERSEDED, {"batch": loop.BATCH}).all()
    return sum(
        isolation.run(
            lambda each=each: _cancel(database, each),  # type: ignore[misc]
            tenant=each.tenant_id,
            schedule=each.schedule_id,
        )
        for each in superseded
    )


_CLOSE = """
UPDATE schedule_fires SET is_open = false
WHERE tenant_id = :tenant AND schedule_id = :id AND scheduled_at = :at AND is_open
"""


def _cancel(database: Database, superseded: Any) -> int:
    """Cancel a run that a newer one supersedes. It may have ended meanwhile."""
    tenant, run_id = superseded.tenant_id, superseded.run_id
    reason, by = "a newer run of its schedule began", f"schedule {superseded.schedule_id}"
    try:
        database.run(lambda tx: triggering.cancel(tx, tenant, run_id, reason=reason, by=by))
    except (Conflict, NotFound):
        log.info("schedule.superseded_run_has_ended", extra={"run_id": str(run_id)})
    key = {"tenant": tenant, "id": superseded.schedule_id, "at": superseded.scheduled_at}
    database.run(lambda tx: tx.execute(_CLOSE, key))
    return 1
