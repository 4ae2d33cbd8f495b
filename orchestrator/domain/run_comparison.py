"""Compares the steps of two runs of a pipeline (pure): what took longer, what ended otherwise, what gave the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Presence = Literal["both", "onlyLeft", "onlyRight"]


@dataclass(frozen=True, slots=True)
class OutcomeInRun:
    """What a step did in one run.

    Args:
        duration_ms: of all attempts, with the waiting between them; None while it has not ended, and for a
            step that never started.
        output_hash: of what it gave; None unless it completed.
        items: of a map.
    """

    step_id: str
    task_run_id: UUID
    task_id: str
    kind: str
    status: str
    attempt: int
    duration_ms: float | None
    output_hash: str | None
    code_version: int
    error_code: str | None
    items: int | None


@dataclass(frozen=True, slots=True)
class StepComparison:
    """One step in two runs.

    Args:
        delta_ms: how much longer it took on the right; None where one of the two has no duration.
        has_same_output: whether both gave the same, proven by equal hashes; None where one of them gave
            nothing that could be compared.
        is_changed: whether it ended otherwise, was tried another number of times, or ran other code.
    """

    step_id: str
    presence: Presence
    left: OutcomeInRun | None
    right: OutcomeInRun | None
    delta_ms: float | None
    has_same_output: bool | None
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """How many steps are on which side, ended otherwise, gave the same and gave something else."""

    both: int
    only_left: int
    only_right: int
    changed: int
    same_output: int
    other_output: int


def compare(left: Iterable[OutcomeInRun], right: Iterable[OutcomeInRun]) -> list[StepComparison]:
    """Every step of the two runs; those first that make most of the difference in time, whichever way.

    Steps whose difference is not known come last, in the order of the pipeline on the right.
    """
    before, after = _by_id(left), _by_id(right)
    names = [*after, *(each for each in before if each not in after)]
    comparisons = [_compared(each, before.get(each), after.get(each)) for each in names]
    # The sort is stable: steps of the same cost stay in the order of the pipeline.
    return sorted(comparisons, key=_cost, reverse=True)


def _by_id(outcomes: Iterable[OutcomeInRun]) -> Mapping[str, OutcomeInRun]:
    return {each.step_id: each for each in outcomes}


def _cost(step: StepComparison) -> float:
    """What the step costs one of the two runs more than the other; a step that only one of them has costs its
    whole duration.
    """
    if step.delta_ms is not None:
        return abs(step.delta_ms)
    alone = step.left if step.presence == "onlyLeft" else step.right if step.left is None else None
    return -1.0 if alone is None or alone.duration_ms is None else alone.duration_ms


def _compared(step_id: str, left: OutcomeInRun | None, right: OutcomeInRun | None) -> StepComparison:
    if left is None or right is None:
        presence: Presence = "onlyLeft" if right is None else "onlyRight"
        return StepComparison(step_id, presence, left, right, None, None, True)
    return StepComparison(
        step_id,
        "both",
        left,
        right,
        _delta(left.duration_ms, right.duration_ms),
        _has_same_output(left, right),
        _is_changed(left, right),
    )


def _delta(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else round(right - left, 1)


def _has_same_output(left: OutcomeInRun, right: OutcomeInRun) -> bool | None:
    if left.output_hash is None or right.output_hash is None:
        return None
    return left.output_hash == right.output_hash


def _is_changed(left: OutcomeInRun, right: OutcomeInRun) -> bool:
    def essence(each: OutcomeInRun) -> tuple[object, ...]:
        return each.status, each.attempt, each.task_id, each.kind, each.code_version, each.items

    return essence(left) != essence(right)


def summary(steps: Sequence[StepComparison]) -> Summary:
    """Count the steps."""
    return Summary(
        both=sum(each.presence == "both" for each in steps),
        only_left=sum(each.presence == "onlyLeft" for each in steps),
        only_right=sum(each.presence == "onlyRight" for each in steps),
        changed=sum(each.is_changed for each in steps if each.presence == "both"),
        same_output=sum(each.has_same_output is True for each in steps),
        other_output=sum(each.has_same_output is False for each in steps),
    )
