"""Works bulk changes off, a batch of each in turn, in the tick.

Each run is changed in a transaction of its own, together with its row in `bulk_change_runs` and the count. So
a process that dies loses nothing and counts nothing twice, and two processes at once do no harm: what one of
them has changed, the other finds changed and noted. A run that cannot be changed is skipped with the reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave.errors import (
    Busy,
    Conflict,
    Deadlocked,
    InvalidInput,
    NotFound,
    PipeWeaveError,
    Unavailable,
    UploadNotUsable,
)
from pipeweave.orchestrator.operations import choosing, redrive_pace
from pipeweave.orchestrator.operations.asked import BulkAction, BulkRequest
from pipeweave.orchestrator.operations.changes import COMPLETED, RUNNING
from pipeweave.orchestrator.operations.choosing import Found, Slice
from pipeweave.orchestrator.operations.redrive_pace import Outcomes, Pace
from pipeweave.orchestrator.operations.verbs import Verb, verb_of
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation, check_database
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# Runs of one bulk change that are changed before the next one's turn, and how many take turns.
BATCH = 100
AT_ONCE = 5
# Rows that one batch looks at, of which few may match.
LOOKED_AT = 500
# After this long (s) the rest is left to the next tick, because a tick has other chores.
MAX_SECONDS_PER_TICK = 0.5
MAX_ERROR_CHARS = 1_000
# A run is skipped for these: it does not allow the action.
REFUSALS = (Conflict, NotFound, InvalidInput, UploadNotUsable)

# SQL: whether a bulk change is under way.
IS_DUE = f"EXISTS (SELECT 1 FROM bulk_changes WHERE status = '{RUNNING}')"


class _Stopped(Exception):
    """The bulk change was stopped, or has changed as many runs as it may."""


@dataclass(frozen=True, slots=True)
class _BulkChange:
    id: UUID
    tenant: str
    request: BulkRequest
    last_id: UUID | None
    changed: int
    next_at: datetime | None

    @classmethod
    def of(cls, row: Any) -> _BulkChange:
        return cls(row.id, row.tenant_id, BulkRequest.of_row(row), row.last_id, row.changed, row.next_at)

    @property
    def pace(self) -> Pace:
        return Pace(most=self.request.most, per_second=self.request.per_second)


_RUNNING = f"""
SELECT id, tenant_id, action, filter, options, most, per_second, created_by, last_id, changed, next_at
FROM bulk_changes
WHERE status = '{RUNNING}' AND id <> ALL(CAST(:without AS uuid[])) ORDER BY created_at LIMIT :most
"""


def run_once(database: Database, values: Values) -> int:
    """Change runs of the bulk changes that are under way, for about MAX_SECONDS_PER_TICK.

    Returns:
        How many runs were changed.

    Raises:
        PartlyFailed: some bulk changes could not go on; the others did.
        Unavailable: PostgreSQL cannot be reached.
    """
    until, count = time.monotonic() + MAX_SECONDS_PER_TICK, 0
    isolation = Isolation(database)
    resting: list[UUID] = []
    while rows := _running(database, without=resting):
        for row in rows:
            batch = _Batch(database, values, _BulkChange.of(row), until)
            if not _goes_on(batch, isolation):
                resting.append(row.id)
            count += batch.changed
        if time.monotonic() > until:
            break
    return isolation.finish(count)


def _running(database: Database, without: Sequence[UUID]) -> list[Any]:
    with database.statements() as tx:
        return list(tx.execute(_RUNNING, {"most": AT_ONCE, "without": list(without)}))


def _goes_on(batch: _Batch, isolation: Isolation) -> bool:
    """Work off a batch; False when this pass leaves the bulk change alone from now on."""
    bulk = batch.bulk
    try:
        return batch.work_off()
    except (Busy, Deadlocked) as error:
        isolation.note(error, tenant=bulk.tenant, bulk=bulk.id)
    except Unavailable as error:
        # Maintenance is on, or storage is away: the next tick goes on with this run.
        check_database(batch.database, error)
        log.info("bulk.delayed", extra={"bulk": str(bulk.id), "reason": error.detail})
    except Exception as error:
        isolation.note(error, tenant=bulk.tenant, bulk=bulk.id)
    return False


_RECORD_PROGRESS = f"""
UPDATE bulk_changes SET last_id = coalesce(:last_id, last_id), next_at = coalesce(:next_at, next_at),
    status = CASE WHEN :is_over THEN '{COMPLETED}' ELSE status END,
    finished_at = CASE WHEN :is_over THEN CAST(:now AS timestamptz) END
WHERE id = :id AND status = '{RUNNING}' AND last_id IS NOT DISTINCT FROM CAST(:before AS uuid)
"""


class _Batch:
    """The next runs of a bulk change.

    Args:
        until: leave the rest to a later batch then (s, monotonic clock).
    """

    def __init__(self, database: Database, values: Values, bulk: _BulkChange, until: float) -> None:
        self.database = database
        self.bulk = bulk
        self.changed = 0
        self._verb = verb_of(bulk.request, bulk.tenant, bulk.id, values)
        self._until = until
        self._last = bulk.last_id

    def work_off(self) -> bool:
        """Change the next runs, and record how far it came; False when it waits for its rate.

        Raises:
            Busy, Deadlocked, Unavailable: the run after the last one that was recorded cannot be changed now.
        """
        bulk = self.bulk
        with self.database.statements() as tx:
            decision = redrive_pace.decide(
                bulk.pace,
                Outcomes(),
                retried=bulk.changed,
                is_canary_over=False,
                next_at=bulk.next_at,
                now=tx.now,
                batch=BATCH,
            )
            if decision.is_over:
                found = Slice([], None, True)
            elif not decision.room:
                return False
            else:
                found = self._look(tx)
        is_over = False
        try:
            is_over = self._change_all(found, decision.room)
        finally:
            # Whatever stopped it: what was done need not be looked at again.
            self.database.run(lambda tx: self._record(tx, is_over=is_over))
        return True

    def _look(self, tx: Transaction) -> Slice:
        bulk, request = self.bulk, self.bulk.request
        return choosing.look(
            tx, bulk.tenant, request.action, request.selection, bulk.id, bulk.last_id, LOOKED_AT
        )

    def _change_all(self, found: Slice, room: int) -> bool:
        """Change these runs, at most so many; whether these were the last."""
        for each in found.runs:
            if self.changed >= room or (self._last != self.bulk.last_id and time.monotonic() >= self._until):
                return False
            try:
                self._change(each)
            except _Stopped:
                return False
            self._last = each.id
        self._last = found.last or self._last
        return found.is_last

    def _change(self, run: Found) -> None:
        try:
            while not self._do(run.id):
                pass
        except REFUSALS as error:
            self._skip(run.id, error.code, str(error.detail))
        except (_Stopped, Unavailable):
            raise
        except Exception as error:
            # It must not keep the others from their turn.
            check_database(self.database, error)
            log.exception("bulk.run_failed", extra={"bulk": str(self.bulk.id), "run_id": str(run.id)})
            code = error.code if isinstance(error, PipeWeaveError) else "INTERNAL_ERROR"
            self._skip(run.id, code, f"{type(error).__name__}: {error}")

    def _do(self, run_id: UUID) -> bool:
        """Do the action to a run in one transaction with its note; whether nothing more is to be done."""
        # A rerun uses storage before it holds its statements together.
        is_one = self.bulk.request.action is not BulkAction.RERUN
        is_over, is_first = self.database.run(
            lambda tx: _do_and_note(tx, self._verb, self.bulk, run_id), is_one=is_one
        )
        self.changed += is_first
        return is_over

    def _skip(self, run_id: UUID, code: str, error: str) -> None:
        self.database.run(lambda tx: _note(tx, self.bulk.id, run_id, code=code, error=error))

    def _record(self, tx: Transaction, *, is_over: bool) -> None:
        bulk = self.bulk
        tx.execute(
            _RECORD_PROGRESS,
            {
                "id": bulk.id,
                "before": bulk.last_id,
                "last_id": self._last,
                "next_at": redrive_pace.next_after(bulk.pace, bulk.next_at, self.changed, tx.now),
                "is_over": is_over,
                "now": tx.now,
            },
        )


def _do_and_note(tx: Transaction, verb: Verb, bulk: _BulkChange, run_id: UUID) -> tuple[bool, bool]:
    done = verb(tx, run_id)
    is_first = _note(tx, bulk.id, run_id, new_run_id=done.new_run_id)
    return done.is_over, is_first


# No row means that the bulk change was stopped meanwhile, or may change no further run: the change of the run
# is then rolled back. A run that is noted already, by another process or an earlier transaction of the same
# run, does not count again.
_NOTE = f"""
WITH noted AS (
    INSERT INTO bulk_change_runs (bulk_id, run_id, is_changed, new_run_id, error_code, error, at)
    VALUES (:bulk, :run, :is_changed, :new_run, :code, :error, :now)
    ON CONFLICT (bulk_id, run_id) DO NOTHING RETURNING 1
)
UPDATE bulk_changes AS b
SET changed = b.changed + CASE WHEN :is_changed THEN (SELECT count(*) FROM noted) ELSE 0 END,
    skipped = b.skipped + CASE WHEN :is_changed THEN 0 ELSE (SELECT count(*) FROM noted) END
WHERE b.id = :bulk AND b.status = '{RUNNING}'
  AND (NOT :is_changed OR b.changed < b.most OR NOT EXISTS (SELECT 1 FROM noted))
RETURNING (SELECT count(*) FROM noted) AS number
"""


def _note(
    tx: Transaction,
    bulk: UUID,
    run_id: UUID,
    *,
    new_run_id: UUID | None = None,
    code: str | None = None,
    error: str | None = None,
) -> bool:
    """Note what became of a run, and count it; whether it was not noted before.

    Raises:
        _Stopped: the bulk change goes no further.
    """
    given = {
        "bulk": bulk,
        "run": run_id,
        "is_changed": code is None,
        "new_run": new_run_id,
        "code": code,
        "error": None if error is None else error[:MAX_ERROR_CHARS],
        "now": tx.now,
    }
    row: Any = tx.execute(_NOTE, given).one_or_none()
    if row is None:
        raise _Stopped
    return bool(row.number)
