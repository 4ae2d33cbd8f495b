"""Works operations off in the tick: a batch of each in turn, each change in a transaction of its own.

An operation that cannot go on now, or waits for its rate or its canary, rests until the next tick; the others
go on. An object that cannot be changed is skipped. What a process that dies has not recorded is looked at
again by the next one, and found changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
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
)
from pipeweave.orchestrator.operations import pace, progress
from pipeweave.orchestrator.operations.operation import ChosenObjects, Operation, OperationStopped
from pipeweave.orchestrator.operations.pace import Outcomes, PaceDecision
from pipeweave.orchestrator.operations.progress import COMPLETED, RUNNING, STOPPED
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation, check_database
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# Objects of one operation that are changed before the next one's turn, and operations that take turns.
BATCH = 100
AT_ONCE = 5
# After this long (s) the rest is left to the next tick, because a tick has other chores.
MAX_SECONDS_PER_TICK = 0.5
# An object is skipped for these: it does not allow the change.
REFUSALS = (Conflict, NotFound, InvalidInput)


def run_once(kind: type[Operation[Any]], database: Database, values: Values) -> int:
    """Work off the operations of a kind that are under way, for about MAX_SECONDS_PER_TICK.

    Returns:
        How many objects were changed, or skipped without a note.

    Raises:
        PartlyFailed: some operations could not go on; the others did.
        Unavailable: PostgreSQL cannot be reached.
    """
    until, count = time.monotonic() + MAX_SECONDS_PER_TICK, 0
    isolation = Isolation(database)
    resting: list[UUID] = []
    while rows := progress.under_way(database, kind.table, resting, AT_ONCE):
        for row in rows:
            batch = _Batch(database, values, until)
            if not _goes_on(batch, kind, row, isolation):
                resting.append(row.id)
            count += batch.changed + batch.skipped
        if time.monotonic() > until:
            break
    return isolation.finish(count)


def _goes_on(batch: _Batch, kind: type[Operation[Any]], row: Any, isolation: Isolation) -> bool:
    """Work off a batch; False when this pass leaves the operation alone from now on."""
    try:
        return batch.work_off(kind(row))
    except Exception as error:
        if isinstance(error, Unavailable) and not isinstance(error, Busy | Deadlocked):
            # Maintenance is on, or storage is away: the next tick goes on with these objects.
            check_database(batch.database, error)
            log.info(f"{kind.name}.delayed", extra={kind.name: str(row.id), "reason": error.detail})
        else:
            isolation.record(error, tenant=row.tenant_id, **{kind.name: row.id})
    return False


class _Batch:
    """The next objects of an operation.

    Args:
        until: leave the rest to a later batch then (s, monotonic clock).
    """

    def __init__(self, database: Database, values: Values, until: float) -> None:
        self.database = database
        self.changed = self.skipped = 0
        self._values = values
        self._until = until
        self._last_id: UUID | None = None

    def work_off(self, operation: Operation[Any]) -> bool:
        """Change the next objects, and record how far it came; False when it waits, or has ended.

        Raises:
            Busy, Deadlocked, Unavailable: an object after the last one that was recorded cannot be changed
                now.
        """
        decision, chosen = self._decide(operation)
        is_over = decision.is_over
        self._last_id = operation.last_id
        try:
            is_over = self._change_all(operation, chosen, decision.room) or is_over
        finally:
            # Whatever stopped it: what was done need not be looked at again.
            self._record(operation, decision, is_over=is_over)
        return decision.room > 0

    def _decide(self, operation: Operation[Any]) -> tuple[PaceDecision, ChosenObjects[Any]]:
        with self.database.statements() as tx:
            decision = pace.decide(
                operation.pace,
                operation.judge(tx) if operation.pace.is_judged else Outcomes(),
                done=operation.done,
                is_canary_over=operation.is_canary_over,
                next_at=operation.next_at,
                now=tx.now,
                batch=BATCH,
            )
            return decision, operation.choose(tx, decision.room) if decision.room else ChosenObjects()

    def _change_all(self, operation: Operation[Any], chosen: ChosenObjects[Any], room: int) -> bool:
        """Change these objects, as many as there is room for; whether they were the last."""
        for objects, last_id in chosen.parts:
            has_moved = self._last_id != operation.last_id
            if self.changed >= room or (has_moved and time.monotonic() >= self._until):
                return False
            try:
                self._change(operation, objects)
            except OperationStopped:
                return False
            self._last_id = last_id or self._last_id
        self._last_id = chosen.last_id or self._last_id
        return chosen.is_last

    def _change(self, operation: Operation[Any], objects: Sequence[Any]) -> None:
        """Change objects together and, when one of them does not allow it, one after the other."""
        try:
            for number in operation.change(self.database, self._values, objects):
                self.changed += number
            return
        except (OperationStopped, Unavailable):
            raise
        except Exception as error:
            if len(objects) == 1:
                self._skip(operation, objects[0], error)
                return
        for each in objects:
            self._change(operation, [each])

    def _skip(self, operation: Operation[Any], skipped: Any, error: Exception) -> None:
        """Leave an object as it is: it must not keep the others from their turn."""
        code = error.code if isinstance(error, PipeWeaveError) else "INTERNAL_ERROR"
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, REFUSALS):
            reason = str(error.detail)
        else:
            kind, name = operation.name, operation.object_name
            names = {kind: str(operation.id), f"{name}_id": str(skipped.id)}
            log.error(f"{kind}.{name}_failed", exc_info=error, extra=names)
        self.skipped += operation.skip(self.database, skipped, code, reason)

    def _record(self, operation: Operation[Any], decision: PaceDecision, *, is_over: bool) -> None:
        has_moved = self._last_id != operation.last_id
        status = STOPPED if decision.stops_because else COMPLETED if is_over else RUNNING
        if not (has_moved or self.changed or decision.ends_canary or status != RUNNING):
            return
        brought = {
            "id": operation.id,
            "before": operation.last_id,
            "last_id": self._last_id,
            "skipped": self.skipped if has_moved else 0,
            "ends_canary": decision.ends_canary,
            "status": status,
            "stops_because": decision.stops_because or None,
        }

        def record(tx: Transaction) -> bool:
            next_at = pace.next_after(operation.pace, operation.next_at, self.changed, tx.now)
            return progress.record(tx, operation.table, {**brought, "next_at": next_at, "now": tx.now})

        if self.database.run(record) and decision.stops_because:
            names = {operation.name: str(operation.id), "reason": decision.stops_because}
            log.warning(f"{operation.name}.stopped", extra=names)
