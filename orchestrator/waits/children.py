"""Decides about waits for child runs: when a child starts, and what becomes of the step when it has ended.

A wait for a child has the child's id from its beginning; the child starts in a transaction of its own
(child_starts.py), and a second look finds it. The end of a child makes the wait due, so that a look follows
whatever becomes of the process. A loop goes on with its next round on the same wait, and a step that is
retried with its next try.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import CHILD, Wait
from pipeweave.orchestrator.engine import referred_values
from pipeweave.orchestrator.engine.referred_values import NotLoaded
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.state.waits import Waiting
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import canonical, keep_inline
from pipeweave.orchestrator.waits import error_runs
from pipeweave.orchestrator.waits.child_outputs import (
    output_of_child,
    outputs_of_one_step,
    place_of,
    value_of,
    version_of,
)
from pipeweave.orchestrator.waits.ending import Completes, Ending, Fails, GoesOn, Later, Starts
from pipeweave.orchestrator.waits.error_runs import CHILD_CANCELLED as CHILD_CANCELLED
from pipeweave.orchestrator.waits.held import Held, Need, Paths, TooLarge
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import WITH_OUTPUT, LoopStep, StepSpec, rounds
from pipeweave.spec.engine_results import RESULT_TOO_LARGE
from pipeweave.spec.expressions import parse_condition
from pipeweave.spec.reference_syntax import Reference
from pipeweave.spec.rounds import AfterRound

CHILD_FAILED = "CHILD_FAILED"
# A process of an earlier version ends a child without telling its parent. So an open child is looked at again
# after as long as it has run, within these bounds.
SOONEST, LATEST = timedelta(minutes=1), timedelta(hours=1)

_CHILDREN = """
SELECT r.id, r.status, r.error, r.created_at, r.finished_at, r.pipeline_id, r.pipeline_version, r.body
FROM runs AS r WHERE r.id = ANY(CAST(:ids AS uuid[]))
"""


def endings(
    tx: Transaction, run: RunHeader, waiting: Sequence[Waiting], held: Held
) -> list[tuple[Waiting, Ending | Need]]:
    """What becomes of the waits of a run for its children.

    Args:
        waiting: open waits for children.
        held: what was loaded and stored before the transaction.
    """
    if not waiting:
        return []
    named = [each.wait.child for each in waiting]
    children: Mapping[UUID, Any] = {row.id: row for row in tx.execute(_CHILDREN, {"ids": named})}
    known = _outputs_of_one_step(tx, run, children.values())
    pairs = ((each, children.get(each.wait.child)) for each in waiting)
    return [(each, _dated(_ending(tx, run, each, child, held, known), child)) for each, child in pairs]


def _outputs_of_one_step(
    tx: Transaction, run: RunHeader, children: Iterable[Any]
) -> Mapping[UUID, KeptValue]:
    ended_well = [each for each in children if each.status in WITH_OUTPUT]
    return outputs_of_one_step(tx, [version_of(tx, run.tenant, each) for each in ended_well])


def _dated(end: Ending | Need, child: Any) -> Ending | Need:
    """The ending, with the time at which the child ended."""
    return replace(end, came_at=child.finished_at) if isinstance(end, Completes) else end


def _ending(
    tx: Transaction,
    run: RunHeader,
    waiting: Waiting,
    child: Any,
    held: Held,
    known: Mapping[UUID, KeptValue],
) -> Ending | Need:
    wait = waiting.wait
    if child is None:
        return Starts() if wait.due_at <= tx.now else Later(wait.due_at)
    if child.finished_at is None:
        return Later(tx.now + min(max(tx.now - child.created_at, SOONEST), LATEST))
    if wait.rule is not None:
        return error_runs.ending(tx, run, waiting, child, held, known)
    step = run.plan[run.plan.ordinals[waiting.task_run.step_id]].step
    if child.status not in WITH_OUTPUT:
        return _failed(step, wait, child, tx.now)
    try:
        output = known.get(child.id) or output_of_child(tx, child.id, held)
        return (
            output if isinstance(output, TooLarge) else _completed(tx, run, step, wait, child, output, held)
        )
    except NotLoaded as missing:
        return Paths(missing.paths)
    except PipeWeaveError as error:
        return Fails(replace(failure_of(error), retryable=False, cause=None))


# --- a child that ended badly -----------------------------------------------------------------------------


def _failed(step: StepSpec, wait: Wait, child: Any, now: datetime) -> Ending:
    shown = ids.show(ids.RUN, child.id)
    if child.status == RunStatus.CANCELLED:
        message = f"run {shown} was cancelled"
        return Fails(Failure(CHILD_CANCELLED, message, "ChildCancelled", False, is_dead=False))
    error = child.error or {}
    code, why = error.get("code"), error.get("message")
    if step.retry is not None and wait.data["try"] < step.retry.attempts:
        policy = task_rows.policy_of_step(step.retry)
        # `retryOn` may name the code of the step, or that of the run that failed.
        codes = (CHILD_FAILED, code or CHILD_FAILED)
        if any(policy.may_retry(each, is_retryable=True) for each in codes):
            delay = timedelta(milliseconds=policy.delay_ms(wait.data["try"], random.random()))
            return GoesOn({**wait.data, **_new_child(now), "try": wait.data["try"] + 1}, now + delay)
    details = {"runId": shown, "code": code, "message": why, "step": error.get("stepId")}
    # No dead letter of its own: the task run that failed inside of the child has one.
    failure = Failure(
        CHILD_FAILED, f"run {shown} failed: {why}", "ChildFailed", False, None, details, is_dead=False
    )
    return Fails(failure)


def _new_child(now: datetime) -> dict[str, Any]:
    return {"run": str(ids.new_id(int(now.timestamp() * 1000)))}


# --- a child that ended well ------------------------------------------------------------------------------


def _completed(
    tx: Transaction, run: RunHeader, step: StepSpec, wait: Wait, child: Any, output: KeptValue, held: Held
) -> Ending | Need:
    if not isinstance(step.decides, LoopStep):
        return Completes(None, CHILD, kept=output)
    loop, index = step.decides, wait.data["round"]
    collected = wait.data.get("outputs", [])
    if loop.collect:
        collected = [*collected, value_of(output, held)]
        # They are in the row of its wait.
        if len(canonical(collected)) > rounds.MAX_COLLECTED:
            return Fails(Failure(RESULT_TOO_LARGE, rounds.collected_message(), "ResultTooLarge", False))
    after = rounds.after_round(loop, index, lambda: _is_over(tx, run, loop, index, output, held))
    if after is AfterRound.OVER:
        return _collected(child.id, collected, held) if loop.collect else Completes(None, CHILD, kept=output)
    if after is AfterRound.LIMIT:
        return Fails(Failure(rounds.LOOP_LIMIT, rounds.limit_message(loop), "LoopLimit", False))
    data = {**_new_child(tx.now), "round": index + 1, "try": 1, "last": place_of(output)}
    if loop.collect:
        data["outputs"] = collected
    return GoesOn(data, tx.now + timedelta(milliseconds=loop.delay_ms))


def _is_over(
    tx: Transaction, run: RunHeader, loop: LoopStep, index: int, output: KeptValue, held: Held
) -> bool:
    assert loop.until is not None
    condition = parse_condition(loop.until)
    paths = [Reference(each.text, each.root, each.step, each.path) for each in condition.references]
    last = value_of(output, held) if any(_names_last(each) for each in paths) else None
    scope = referred_values.find(tx, run, Wanted.of(paths), held.loaded).scope(Wanted.of(paths))
    return condition.is_true({**scope, **rounds.scope_of_round(index, last)}, now=tx.now)


def _names_last(path: Reference) -> bool:
    is_of_loop = path.root == "loop" and (not path.path or path.path[0] == "last")
    return path.root == "last" or is_of_loop


def _collected(child: UUID, outputs: list[Any], held: Held) -> Ending | Need:
    kept = held.kept.get(child)
    if kept is None and len(canonical(outputs)) > INLINE_BYTES:
        return TooLarge(child, outputs)
    return Completes(None, CHILD, kept=kept or keep_inline(outputs))
