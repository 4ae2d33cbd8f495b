"""Retries many dead letters: a redrive's row has a filter and the progress, and the tick retries in batches.

A redrive retries the dead letters that are open when it is created, so a task run that fails again is not
retried for ever. How fast it goes, and when it stops by itself, redrive_pace.py decides. A dead letter that
cannot be retried (its run was cancelled, its task is no longer registered) is skipped and stays open.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Busy, Conflict, NotFound, Unavailable, UploadNotUsable
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import LETTER_COLUMNS, DeadLetter, Inputs, letter_of
from pipeweave.orchestrator.deadletters.filters import OPEN, LetterFilter
from pipeweave.orchestrator.domain.triggered_by import REDRIVE, TriggeredBy
from pipeweave.orchestrator.operations import redrive_outcomes, redrive_pace
from pipeweave.orchestrator.operations.redrive_pace import Decision, Outcomes, Pace
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.store.database import Database, Transaction, to_json
from pipeweave.orchestrator.store.isolation import Isolation, check_database
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

RUNNING, COMPLETED, CANCELLED, STOPPED = "running", "completed", "cancelled", "stopped"

_AT_ONCE = Pace()
# Dead letters of one redrive that are retried before the next redrive's turn, and redrives that take turns.
BATCH = 100
REDRIVES_AT_ONCE = 5
# After this long (s) the rest is left to the next tick, because a tick has other chores.
MAX_SECONDS_PER_TICK = 0.5


# --- verbs ------------------------------------------------------------------------------------------------

_CREATE = f"""
INSERT INTO redrives (id, tenant_id, filter, status, total, created_at, finished_at, created_by, most, canary,
    per_second, stop_percent)
SELECT :id, :tenant, CAST(:filter AS jsonb), CASE WHEN n.total = 0 THEN '{COMPLETED}' ELSE '{RUNNING}' END,
    n.total, :now, CASE WHEN n.total = 0 THEN CAST(:now AS timestamptz) END, :by, :most, :canary,
    :per_second, :stop_percent
FROM (SELECT count(*) AS total FROM dead_letters AS d WHERE {{where}} AND {OPEN} AND d.id < :id) AS n
"""


def create(
    tx: Transaction,
    tenant: str,
    letter_filter: LetterFilter,
    pace: Pace | None = None,
    *,
    by: str | None = None,
) -> UUID:
    """Create a redrive of every dead letter that is open now and matches the filter; returns its id.

    Args:
        pace: how it proceeds; by default all at once, whatever becomes of them.
        by: who asks for it; the runs that it begins keep that.

    Raises:
        Unavailable: nothing new is accepted during maintenance.
    """
    maintenance_mode.admit(tx)
    redrive_id = tx.new_id()
    where, parameters = letter_filter.sql(tenant)
    given = {"id": redrive_id, "filter": to_json(letter_filter.to_json()), "now": tx.now, "by": by}
    tx.execute(_CREATE.format(where=where), {**parameters, **given, **asdict(pace or _AT_ONCE)})
    return redrive_id


_CANCEL = f"""
UPDATE redrives SET status = '{CANCELLED}', finished_at = :now
WHERE id = :id AND tenant_id = :tenant AND status = '{RUNNING}'
"""
_STATUS = "SELECT status FROM redrives WHERE id = :id AND tenant_id = :tenant"


def cancel(tx: Transaction, tenant: str, redrive_id: UUID) -> None:
    """Cancel a redrive: its retried dead letters stay retried, the rest stay open.

    Raises:
        NotFound: the tenant has no such redrive.
        Conflict: the redrive has ended.
    """
    key = {"id": redrive_id, "tenant": tenant}
    if tx.execute(_CANCEL, {**key, "now": tx.now}).rowcount:
        return
    status = tx.execute(_STATUS, key).scalar_one_or_none()
    if status is None:
        raise no_redrive(redrive_id)
    raise Conflict(f"redrive {ids.show(ids.REDRIVE, redrive_id)} is already {status}")


def no_redrive(redrive_id: UUID) -> NotFound:
    """The error for a redrive that does not exist or belongs to another tenant."""
    return NotFound(f"redrive {ids.show(ids.REDRIVE, redrive_id)} not found")


# --- the chore --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Redrive:
    id: UUID
    tenant: str
    filter: LetterFilter
    last_id: UUID | None
    cause: TriggeredBy
    pace: Pace = _AT_ONCE
    retried: int = 0
    is_canary_over: bool = False
    next_at: datetime | None = None

    @classmethod
    def of(cls, row: Any) -> _Redrive:
        return cls(
            row.id,
            row.tenant_id,
            LetterFilter.of_json(row.filter),
            row.last_id,
            TriggeredBy(REDRIVE, ids.show(ids.REDRIVE, row.id), row.created_by),
            Pace.of(row),
            row.retried,
            row.canary_ended_at is not None,
            row.next_at,
        )

    def decision(self, outcomes: Outcomes, now: datetime) -> Decision:
        return redrive_pace.decide(
            self.pace,
            outcomes,
            retried=self.retried,
            is_canary_over=self.is_canary_over,
            next_at=self.next_at,
            now=now,
            batch=BATCH,
        )


_RUNNING = f"""
SELECT id, tenant_id, filter, last_id, created_by, most, canary, canary_ended_at, per_second, stop_percent,
    next_at, retried
FROM redrives
WHERE status = '{RUNNING}' AND id <> ALL(CAST(:without AS uuid[])) ORDER BY created_at LIMIT :most
"""

# SQL: whether a redrive is under way.
IS_DUE = f"EXISTS (SELECT 1 FROM redrives WHERE status = '{RUNNING}')"


def run_once(database: Database, values: Values) -> int:
    """Retry dead letters of the running redrives, a batch of each in turn, for about MAX_SECONDS_PER_TICK.

    Returns:
        How many dead letters were looked at, retried or skipped.

    Raises:
        PartlyFailed: some redrives could not go on; the others did.
        Unavailable: PostgreSQL cannot be reached.
    """
    until, count = time.monotonic() + MAX_SECONDS_PER_TICK, 0
    isolation = Isolation(database)
    stuck: list[UUID] = []
    while rows := _running(database, without=stuck):
        found = sum(_work_off_or_note(database, values, row, isolation, stuck) for row in rows)
        count += found
        has_progress = found > 0 or any(row.id in stuck for row in rows)
        if not has_progress or time.monotonic() > until:
            break
    return isolation.finish(count)


def _running(database: Database, without: Sequence[UUID]) -> list[Any]:
    with database.statements() as tx:
        return list(tx.execute(_RUNNING, {"most": REDRIVES_AT_ONCE, "without": list(without)}))


def _work_off_or_note(
    database: Database, values: Values, row: Any, isolation: Isolation, stuck: list[UUID]
) -> int:
    """Work off a batch of a redrive, or add the redrive to those that this pass leaves alone."""
    try:
        if found := _work_off(database, values, _Redrive.of(row)):
            return found
    except Busy as error:
        isolation.note(error, tenant=row.tenant_id, redrive=row.id)
    except Unavailable as error:
        # Maintenance is on, or storage is away: the next tick repeats this batch.
        check_database(database, error)
        log.info("redrive.delayed", extra={"redrive": str(row.id), "reason": error.detail})
    except Exception as error:
        isolation.note(error, tenant=row.tenant_id, redrive=row.id)
    stuck.append(row.id)
    return 0


_NEXT = f"""
SELECT {LETTER_COLUMNS} FROM dead_letters AS d
WHERE {{where}} AND {OPEN} AND d.id < :id AND d.id > :after ORDER BY d.id LIMIT :batch
"""


def _work_off(database: Database, values: Values, redrive: _Redrive) -> int:
    """Do what is decided of a redrive now; returns how many dead letters were looked at, 0 when it waits."""
    with database.statements() as tx:
        outcomes = redrive_outcomes.count(tx, redrive.id) if redrive.pace.is_judged else Outcomes()
        decision = redrive.decision(outcomes, tx.now)
    if decision.stops_because:
        database.run(lambda tx: _stop(tx, redrive, decision.stops_because))
        return 0
    letters = _next_letters(database, redrive, decision.room) if decision.room else []
    by_run = groupby(sorted(letters, key=_run_of), key=_run_of)
    retried = sum(_retry(database, values, redrive, list(of_run)) for _, of_run in by_run)
    is_over = decision.is_over or 0 < decision.room > len(letters)
    if letters or is_over or decision.ends_canary:
        progress = _Progress(redrive, decision, letters, retried, is_over=is_over)
        database.run(progress.record)
    return len(letters)


def _run_of(letter: DeadLetter) -> UUID:
    return letter.run_id


def _next_letters(database: Database, redrive: _Redrive, batch: int) -> list[DeadLetter]:
    where, parameters = redrive.filter.sql(redrive.tenant)
    given = {"id": redrive.id, "after": redrive.last_id or UUID(int=0), "batch": batch}
    with database.statements() as tx:
        return [letter_of(row) for row in tx.execute(_NEXT.format(where=where), {**parameters, **given})]


def _retry(database: Database, values: Values, redrive: _Redrive, letters: Sequence[DeadLetter]) -> int:
    """Retry dead letters of one run in one transaction; if that fails, each in its own transaction.

    Returns:
        How many were retried.
    """
    try:
        inputs = dead_letters.stored_inputs(values, letters)
        return database.run(lambda tx: _retry_and_count(tx, redrive, letters, inputs))
    except (Conflict, NotFound, UploadNotUsable):
        if len(letters) == 1:
            return 0
    return sum(_retry(database, values, redrive, [each]) for each in letters)


# Counted in the transaction of the retry: a crash neither loses a retry nor counts it twice. No row means
# that the redrive was cancelled meanwhile; the retry is then rolled back.
_COUNT = f"""
WITH marked AS (
    UPDATE dead_letters SET redrive_id = :id WHERE id = ANY(CAST(:letters AS uuid[]))
)
UPDATE redrives SET retried = retried + cardinality(CAST(:letters AS uuid[]))
WHERE id = :id AND status = '{RUNNING}' RETURNING id
"""


def _retry_and_count(
    tx: Transaction, redrive: _Redrive, letters: Sequence[DeadLetter], inputs: Inputs
) -> int:
    retried = dead_letters.retry_of_run(tx, letters, inputs, redrive.cause)
    marked = {"id": redrive.id, "letters": [each.letter_id for each in retried]}
    if tx.execute(_COUNT, marked).first() is None:
        raise Conflict("the redrive was cancelled")
    return len(retried)


_RECORD_PROGRESS = f"""
UPDATE redrives SET skipped = skipped + :skipped, last_id = coalesce(:last_id, last_id),
    next_at = coalesce(:next_at, next_at),
    canary_ended_at = CASE WHEN :ends_canary THEN CAST(:now AS timestamptz) ELSE canary_ended_at END,
    status = CASE WHEN :is_over THEN '{COMPLETED}' ELSE status END,
    finished_at = CASE WHEN :is_over THEN CAST(:now AS timestamptz) END
WHERE id = :id AND status = '{RUNNING}'
"""


@dataclass(frozen=True, slots=True)
class _Progress:
    """What a batch has brought."""

    redrive: _Redrive
    decision: Decision
    letters: Sequence[DeadLetter]
    retried: int
    is_over: bool

    def record(self, tx: Transaction) -> None:
        redrive = self.redrive
        tx.execute(
            _RECORD_PROGRESS,
            {
                "id": redrive.id,
                "skipped": len(self.letters) - self.retried,
                "last_id": self.letters[-1].id if self.letters else None,
                "next_at": redrive_pace.next_after(redrive.pace, redrive.next_at, self.retried, tx.now),
                "ends_canary": self.decision.ends_canary,
                "is_over": self.is_over,
                "now": tx.now,
            },
        )


_STOP = f"""
UPDATE redrives SET status = '{STOPPED}', stopped_because = :reason, finished_at = :now
WHERE id = :id AND status = '{RUNNING}'
"""


def _stop(tx: Transaction, redrive: _Redrive, reason: str) -> None:
    """Stop a redrive whose retries fail as before: the rest stays open."""
    if tx.execute(_STOP, {"id": redrive.id, "reason": reason, "now": tx.now}).rowcount:
        log.warning("redrive.stopped", extra={"redrive": str(redrive.id), "reason": reason})
