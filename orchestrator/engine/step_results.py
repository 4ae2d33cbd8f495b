"""Computes what a step comes to that the engine decides, and the labels that a step requires (pure).

`pipeweave.spec.engine_results` says what a choice, a transform or a gather comes to; here it becomes what is
stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipeweave.errors import InvalidLabels
from pipeweave.labels import Labels, label_mistakes
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.engine.referred_values import Scope
from pipeweave.orchestrator.store.values import keep_inline
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import Choice, EngineStep, Gather, StepSpec, Transform, engine_results
from pipeweave.spec.engine_results import PARALLEL_FAILED, RESULT_TOO_LARGE, Refused

# The exceptions that failures of such steps would have been.
_TYPES = {PARALLEL_FAILED: "ParallelFailed", RESULT_TOO_LARGE: "ResultTooLarge"}


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What a step of the engine completes with.

    Args:
        selected_next: the ids of the successors that it chose; None for all.
    """

    ordinal: int
    output: KeptValue
    selected_next: tuple[str, ...] | None = None


def result_of(plan: Plan, ordinal: int, scope: Scope, now: datetime) -> EngineResult | Failure:
    """What a choice, a transform or a gather comes to.

    Args:
        scope: the values that it refers to, by their roots.
        now: what `now()` gives.

    Raises:
        ExpressionFailed, InvalidReference: one of its expressions cannot be evaluated.
        InvalidInput: its output is no JSON.
    """
    planned = plan[ordinal]
    decides = planned.step.decides
    if not isinstance(decides, (Choice, Transform, Gather)):
        raise TypeError(f"the engine makes no result of {decides!r}")
    result = engine_results.result_of(
        decides,
        scope,
        predecessors=[plan[each].id for each in planned.predecessors],
        successors=[plan[each].id for each in planned.successors],
        is_tolerated=lambda step_id: plan.ordinals[step_id] in plan.tolerated,
        now=now,
    )
    if isinstance(result, Refused):
        return _failure(decides, result)
    kept = keep_inline(result.output)
    if kept.size > INLINE_BYTES:
        return _failure(decides, engine_results.too_large(kept.size, decides))
    return EngineResult(ordinal, kept, result.selected_next)


def labels_of(run: RunHeader, step: StepSpec, scope: Scope, now: datetime) -> Labels:
    """The labels that a step and its run require, with those that the step computes. A number becomes a text.

    Raises:
        ExpressionFailed, InvalidReference: one of its expressions cannot be evaluated.
        InvalidLabels: what they come to is no label.
    """
    filled = engine_results.fill(dict(step.requires or {}), scope, now)
    labels = {name: str(each) if type(each) is int else each for name, each in filled.items()}
    for mistake in label_mistakes(labels):
        raise InvalidLabels(f"{mistake.field} of step {step.id} {mistake.message}")
    return {**(run.requires or {}), **labels}


def _failure(decides: EngineStep, refused: Refused) -> Failure:
    # The members of a gather have dead letters of their own.
    is_dead = not (isinstance(decides, Gather) and refused.code == PARALLEL_FAILED)
    type_name = _TYPES.get(refused.code, "FailIf")
    return Failure(
        refused.code, refused.message, type_name, retryable=False, details=refused.details, is_dead=is_dead
    )
