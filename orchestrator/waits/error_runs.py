"""Decides about waits for runs that take care of errors: what becomes of the step when such a run has ended.

It ended well: the step completes, with its output, unless its rule says that the error is not handled. It
failed, was cancelled or could not start: the step fails with the error that it had, which tells of the other
one, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import CHILD
from pipeweave.orchestrator.engine.referred_values import NotLoaded
from pipeweave.orchestrator.state import handled_errors
from pipeweave.orchestrator.state.handled_errors import HandledError
from pipeweave.orchestrator.state.waits import Waiting
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits.child_outputs import output_of_child
from pipeweave.orchestrator.waits.ending import Completes, Ending, Fails
from pipeweave.orchestrator.waits.held import Held, Need, Paths, TooLarge
from pipeweave.spec import WITH_OUTPUT, Choice

CHILD_CANCELLED = "CHILD_CANCELLED"


def ending(
    tx: Transaction,
    run: RunHeader,
    waiting: Waiting,
    child: Any,
    held: Held,
    known: Mapping[UUID, KeptValue],
) -> Ending | Need:
    """What becomes of a step of whose error a run took care that has ended.

    Args:
        child: the row of that run: {id, status, error}.
        held: what was loaded and stored before the transaction.
        known: outputs of runs that were read already.
    """
    wait, task_run = waiting.wait, waiting.task_run
    assert wait.rule is not None
    if child.status not in WITH_OUTPUT:
        return Fails(_error_of(tx, waiting).failure(wait, error_of_child(child)))
    if not run.plan.rule_named(task_run.step_id, wait.rule).is_handled:
        return Fails(_error_of(tx, waiting).failure(wait))
    try:
        output = known.get(child.id) or output_of_child(tx, child.id, held)
    except NotLoaded as missing:
        return Paths(missing.paths)
    except PipeWeaveError as error:
        return Fails(_error_of(tx, waiting).failure(wait, _shown(failure_of(error), child.id)))
    return output if isinstance(output, TooLarge) else Completes(None, CHILD, kept=output)


def _error_of(tx: Transaction, waiting: Waiting) -> HandledError:
    [error] = handled_errors.errors_of(tx, waiting.wait.run_id, [waiting.task_run.id]).values()
    return error


def error_of_child(child: Any) -> dict[str, Any]:
    shown, error = ids.show(ids.RUN, child.id), child.error or {}
    if child.status == RunStatus.CANCELLED:
        return {"code": CHILD_CANCELLED, "message": f"run {shown} was cancelled", "runId": shown}
    return {
        "code": error.get("code"),
        "message": f"run {shown} failed: {error.get('message')}",
        "runId": shown,
    }


def _shown(failure: Failure, child: UUID) -> dict[str, Any]:
    return {"code": failure.code, "message": failure.message, "runId": ids.show(ids.RUN, child)}


def not_started(tx: Transaction, waiting: Waiting, failure: Failure) -> Fails:
    """What becomes of a step of whose error no run can take care.

    Args:
        failure: why it cannot start.
    """
    return Fails(_error_of(tx, waiting).failure(waiting.wait, _shown(failure, waiting.wait.child)))


def chosen(run: RunHeader, waiting: Waiting) -> Sequence[str] | None:
    """The successors that a step selects when its wait completes it: of a choice whose error was handled,
    those that are in no branch; None for all.
    """
    planned = run.plan[run.plan.ordinals[waiting.task_run.step_id]]
    if waiting.wait.rule is None or not isinstance(planned.step.decides, Choice):
        return None
    first = {id for case in planned.step.decides.cases for id in case.next}
    return [run.plan[each].id for each in planned.successors if run.plan[each].id not in first]
