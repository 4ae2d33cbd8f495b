"""The changes of runs by a bulk change, a kind of operation: each by the verb that the API has for one run.

Each run is changed together with its row in `bulk_change_runs` and the count. So a process that dies loses
nothing and counts nothing twice, and two processes at once do no harm: what one of them has changed, the
other finds changed and noted. A run that cannot be changed is skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.domain.triggered_by import REDRIVE, TriggeredBy
from pipeweave.orchestrator.operations import choosing, loop
from pipeweave.orchestrator.operations.bulk_changes import TABLE
from pipeweave.orchestrator.operations.bulk_requests import BulkAction, BulkRequest
from pipeweave.orchestrator.operations.choosing import MatchingRun
from pipeweave.orchestrator.operations.operation import ChosenObjects, Operation, OperationStopped
from pipeweave.orchestrator.operations.progress import RUNNING
from pipeweave.orchestrator.runs import pausing, rerunning, triggering
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values

MAX_ERROR_CHARS = 1_000
# Dead letters of a run that one transaction retries; a run with more has several.
LETTERS_AT_ONCE = 500


class BulkChange(Operation[MatchingRun]):
    """A bulk change that is under way."""

    table, name, object_name = TABLE, "bulk", "run"

    def __init__(self, row: Any) -> None:
        super().__init__(row)
        self.request = BulkRequest.of_row(row)

    def choose(self, tx: Transaction, room: int) -> ChosenObjects[MatchingRun]:
        action, selection = self.request.action, self.request.selection
        seen = choosing.look(tx, self.tenant, action, selection, self.id, self.last_id, choosing.SLICE)
        return ChosenObjects([([each], each.id) for each in seen.runs], seen.last, seen.is_last)

    def change(self, database: Database, values: Values, objects: Sequence[MatchingRun]) -> Iterator[int]:
        [run] = objects
        # A rerun uses storage before it holds its statements together.
        is_one = self.request.action is not BulkAction.RERUN
        is_over = False
        while not is_over:
            number, is_over = database.run(lambda tx: self._do(tx, values, run.id), is_one=is_one)
            yield number

    def _do(self, tx: Transaction, values: Values, run_id: UUID) -> tuple[int, bool]:
        """Do the action to a run and note it; the number to count, and whether nothing more is to be done."""
        tenant, request, shown = self.tenant, self.request, ids.show(ids.RUN, run_id)
        new_run_id, is_over = None, True
        match request.action:
            case BulkAction.CANCEL:
                triggering.cancel(tx, tenant, run_id, reason=request.reason, by=request.by)
            case BulkAction.PAUSE:
                if not pausing.pause(tx, tenant, run_id, reason=request.reason, by=request.by):
                    raise Conflict(f"run {shown} is already paused")
            case BulkAction.RESUME:
                if not pausing.resume(tx, tenant, run_id, by=request.by):
                    raise Conflict(f"run {shown} is not paused")
            case BulkAction.RERUN:
                new_run_id = self._rerun(tx, values, run_id)
            case BulkAction.RETRY:
                is_over = self._retry(tx, run_id)
        return self._record(tx, run_id, new_run_id=new_run_id), is_over

    def _rerun(self, tx: Transaction, values: Values, run_id: UUID) -> UUID:
        # With its token, a second try of the same run finds the rerun of the first.
        request, token = self.request, ids.show(ids.BULK, self.id)
        version = request.version or rerunning.SAME
        asked = rerunning.Rerun(run_id, request.from_step, None, version, token, request.by)
        return rerunning.rerun(tx, values, self.tenant, asked).id

    def _retry(self, tx: Transaction, run_id: UUID) -> bool:
        shown = ids.show(ids.RUN, run_id)
        of_run = LetterFilter(pipeline_run_id=shown)
        letters = dead_letters.find_all_open(tx, self.tenant, of_run, before=self.id, most=LETTERS_AT_ONCE)
        cause = TriggeredBy(REDRIVE, ids.show(ids.BULK, self.id), self.request.by)
        if not letters or not dead_letters.retry_of_run(tx, letters, cause=cause):
            raise Conflict(f"run {shown} has no open dead letter any more")
        return len(letters) < LETTERS_AT_ONCE

    def skip(self, database: Database, skipped: MatchingRun, code: str, error: str) -> int:
        database.run(lambda tx: self._record(tx, skipped.id, code=code, error=error[:MAX_ERROR_CHARS]))
        # The note counts it.
        return 0

    def _record(
        self,
        tx: Transaction,
        run_id: UUID,
        *,
        new_run_id: UUID | None = None,
        code: str | None = None,
        error: str | None = None,
    ) -> int:
        """Note what became of a run, and count it; 0 when it was noted before.

        Raises:
            Stopped: the bulk change goes no further.
        """
        note = {
            "bulk": self.id,
            "run": run_id,
            "is_changed": code is None,
            "new_run": new_run_id,
            "code": code,
            "error": error,
            "now": tx.now,
        }
        row: Any = tx.execute(_NOTE, note).one_or_none()
        if row is None:
            raise OperationStopped
        number: int = row.number
        return number


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

# Changes runs of the bulk changes that are under way, as `loop.run_once` says.
run_once = partial(loop.run_once, BulkChange)
