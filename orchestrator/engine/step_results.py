"""Computes what a step comes to that the engine decides: a choice, a transform or a gather (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.plan import Plan, PlannedStep
from pipeweave.orchestrator.domain.states import FAILED_TASK
from pipeweave.orchestrator.domain.task_run import Kept
from pipeweave.orchestrator.engine.referred_values import Scope, fill
from pipeweave.orchestrator.store.values import keep_inline
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import Choice, Gather, Transform

# The code of a gather of which a member failed: its members have dead letters of their own.
PARALLEL_FAILED = "PARALLEL_FAILED"
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
# A gather names so many failures of its members.
MOST_FAILURES = 100


@dataclass(frozen=True, slots=True)
class Made:
    """What a step of the engine completes with.

    Args:
        selected_next: the ids of the successors that it chose; None for all.
    """

    ordinal: int
    output: Kept
    selected_next: tuple[str, ...] | None = None


def result_of(plan: Plan, ordinal: int, scope: Scope, now: datetime) -> Made | Failure:
    """What a choice, a transform or a gather comes to.

    Args:
        scope: the values that it refers to, by their roots.
        now: what `now()` gives.

    Raises:
        ExpressionFailed, InvalidReference: one of its expressions cannot be evaluated.
        InvalidInput: its output is no JSON.
    """
    planned = plan[ordinal]
    match planned.step.decides:
        case Choice() as choice:
            return _chosen(plan, planned, choice, scope, now)
        case Transform() as transform:
            return _transformed(plan, planned, transform, scope, now)
        case Gather() as gather:
            return _gathered(plan, planned, gather, scope)
        case other:
            raise TypeError(f"the engine makes no result of {other!r}")


def _chosen(plan: Plan, planned: PlannedStep, choice: Choice, scope: Scope, now: datetime) -> Made:
    conditions = plan.values[planned.ordinal].conditions
    always = [plan[each].id for each in planned.successors if plan[each].id not in choice.branches]
    for place, (case, condition) in enumerate(zip(choice.cases, conditions, strict=True)):
        if condition is None or condition.is_true(scope, now=now):
            chosen = tuple(dict.fromkeys([*case.next, *always]))
            return Made(planned.ordinal, keep_inline(place if case.name is None else case.name), chosen)
    return Made(planned.ordinal, keep_inline(None), tuple(always))


def _transformed(
    plan: Plan, planned: PlannedStep, transform: Transform, scope: Scope, now: datetime
) -> Made | Failure:
    conditions = plan.values[planned.ordinal].conditions
    for fails, condition in zip(transform.fail_if, conditions, strict=True):
        if condition is not None and condition.is_true(scope, now=now):
            return Failure(fails.code, str(fill(fails.message, scope, now)), "FailIf", retryable=False)
    return _made(planned.ordinal, fill(transform.output, scope, now), "let a task make it")


def _gathered(plan: Plan, planned: PlannedStep, gather: Gather, scope: Scope) -> Made | Failure:
    if failures := _failures(plan, gather, scope):
        return _parallel_failed(failures, len(gather.members))
    outputs = {plan[each].id: scope["steps"].get(plan[each].id) for each in planned.predecessors}
    return _made(planned.ordinal, outputs, "refer to the outputs of its members themselves")


def _failures(plan: Plan, gather: Gather, scope: Scope) -> list[dict[str, Any]]:
    """How its members failed, in the order of the document: {code, message, step}. One whose failure is
    tolerated did not.
    """
    failed = [each for each in gather.members if _has_failed(plan, each, scope["status"].get(each))]
    errors: Mapping[str, Any] = scope["errors"]
    return [{name: _seen(errors, each)[name] for name in ("code", "message", "step")} for each in failed]


def _seen(errors: Mapping[str, Any], step_id: str) -> Mapping[str, Any]:
    return errors.get(step_id) or {"code": None, "message": "it was cancelled", "step": step_id}


def _has_failed(plan: Plan, step_id: str, status: str | None) -> bool:
    is_tolerated = plan.ordinals[step_id] in plan.tolerated
    return status == "cancelled" or (status in FAILED_TASK and not is_tolerated)


def _parallel_failed(failures: Sequence[Mapping[str, Any]], members: int) -> Failure:
    first = failures[0]
    why = ": ".join(each for each in (first["code"], first["message"]) if each)
    message = f"{len(failures):,} of {members:,} steps failed, the first is {first['step']} ({why})"
    details = {"failures": list(failures[:MOST_FAILURES])}
    return Failure(PARALLEL_FAILED, message, "ParallelFailed", False, None, details, is_dead=False)


def _made(ordinal: int, value: Any, hint: str) -> Made | Failure:
    kept = keep_inline(value)
    if kept.size <= INLINE_BYTES:
        return Made(ordinal, kept)
    message = f"the output has {kept.size:,} bytes; the engine makes at most {INLINE_BYTES:,}; {hint}"
    return Failure(RESULT_TOO_LARGE, message, "ResultTooLarge", retryable=False)
