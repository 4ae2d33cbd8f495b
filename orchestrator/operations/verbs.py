"""Does the action of a bulk change to one run, by the verb that the API has for one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import LETTER_COLUMNS, letter_of
from pipeweave.orchestrator.deadletters.filters import OPEN
from pipeweave.orchestrator.domain.triggered_by import REDRIVE, TriggeredBy
from pipeweave.orchestrator.operations.asked import BulkAction, BulkRequest
from pipeweave.orchestrator.runs import pausing, rerunning, triggering
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values

# Dead letters of a run that one transaction retries; a run with more has several.
LETTERS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a run.

    Args:
        new_run_id: the run that a rerun began.
        is_over: False: there is more to do to this run, in a further transaction.
    """

    new_run_id: UUID | None = None
    is_over: bool = True


# Does the action in a transaction; raises Conflict, NotFound or InvalidInput where the run does not allow it.
Verb = Callable[[Transaction, UUID], Done]


def verb_of(request: BulkRequest, tenant: str, bulk: UUID, values: Values) -> Verb:
    """The verb for each run of a bulk change."""
    match request.action:
        case BulkAction.CANCEL:
            return lambda tx, run: _cancel(tx, tenant, run, request)
        case BulkAction.PAUSE:
            return lambda tx, run: _pause(tx, tenant, run, request)
        case BulkAction.RESUME:
            return lambda tx, run: _resume(tx, tenant, run, request)
        case BulkAction.RERUN:
            return lambda tx, run: _rerun(tx, tenant, run, request, bulk, values)
        case BulkAction.RETRY:
            return lambda tx, run: _retry(tx, tenant, run, request, bulk)


def _cancel(tx: Transaction, tenant: str, run: UUID, request: BulkRequest) -> Done:
    triggering.cancel(tx, tenant, run, reason=request.reason, by=request.by)
    return Done()


def _pause(tx: Transaction, tenant: str, run: UUID, request: BulkRequest) -> Done:
    if not pausing.pause(tx, tenant, run, reason=request.reason, by=request.by):
        raise Conflict(f"run {ids.show(ids.RUN, run)} is already paused")
    return Done()


def _resume(tx: Transaction, tenant: str, run: UUID, request: BulkRequest) -> Done:
    if not pausing.resume(tx, tenant, run, by=request.by):
        raise Conflict(f"run {ids.show(ids.RUN, run)} is not paused")
    return Done()


def _rerun(tx: Transaction, tenant: str, run: UUID, request: BulkRequest, bulk: UUID, values: Values) -> Done:
    # With its token, a second try of the same run finds the rerun of the first.
    asked = rerunning.Rerun(
        run,
        request.from_step,
        None,
        request.version or rerunning.SAME,
        ids.show(ids.BULK, bulk),
        request.by,
    )
    return Done(rerunning.rerun(tx, values, tenant, asked).id)


_LETTERS = f"""
SELECT {LETTER_COLUMNS} FROM dead_letters AS d
WHERE d.run_id = :run AND d.tenant_id = :tenant AND {OPEN} AND d.id < :bulk ORDER BY d.id LIMIT :most
"""


def _retry(tx: Transaction, tenant: str, run: UUID, request: BulkRequest, bulk: UUID) -> Done:
    given = {"run": run, "tenant": tenant, "bulk": bulk, "most": LETTERS_AT_ONCE}
    letters = [letter_of(row) for row in tx.execute(_LETTERS, given)]
    cause = TriggeredBy(REDRIVE, ids.show(ids.BULK, bulk), request.by)
    retried = dead_letters.retry_of_run(tx, letters, cause=cause) if letters else []
    if not retried:
        raise Conflict(f"run {ids.show(ids.RUN, run)} has no open dead letter any more")
    return Done(is_over=len(letters) < LETTERS_AT_ONCE)
