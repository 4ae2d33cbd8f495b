"""Finds the critical path of a run: the chain of steps whose ends each let the next one begin. Pure.

It is followed backwards from the end: from the step that ended last to the one of its predecessors that ended
last, and so on. For a join whose predecessors were ready at different times, this is the last of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pipeweave.orchestrator.domain.states import ENDED_TASK, FINAL_TASK, TaskStatus
from pipeweave.orchestrator.timeline.spans import RunTimes, TaskRunTimes

# Of steps that are open at once, the one that is furthest.
_FURTHEST = {
    status: place
    for place, status in enumerate(
        (TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.QUEUED, TaskStatus.READY)
    )
}


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step of the critical path: from the end of the step before it to its own."""

    ordinal: int
    begin: int
    end: int


def critical_path(run: RunTimes) -> list[PathStep]:
    """The steps of the critical path, in their order; empty while nothing was released."""
    path: list[PathStep] = []
    at, end = _last(run), run.end
    while at is not None:
        step = run.steps[at]
        end = min(end, _ended(step, end))
        before = _latest(run, run.predecessors.get(at, ()))
        begin = 0 if before is None else max(0, min(end, _ended(run.steps[before], end)))
        path.append(PathStep(at, begin, end))
        at, end = before, begin
    return path[::-1]


def _ended(step: TaskRunTimes, end: int) -> int:
    return end if step.finished is None else step.finished


def _last(run: RunTimes) -> int | None:
    """The step that the run waits for, or waited for last."""
    open_steps = [each for each in run.steps.values() if _is_open(each)]
    if run.is_open and open_steps:
        return min(open_steps, key=_since).ordinal
    return _latest(run, run.steps)


def _is_open(step: TaskRunTimes) -> bool:
    return step.status not in FINAL_TASK and (step.status in _FURTHEST or bool(step.attempts))


def _since(step: TaskRunTimes) -> tuple[int, int, int]:
    """The longer a step is released, the rather the run waits for it."""
    starts = [each for each in (step.queued, step.started) if each is not None]
    starts += [each.begin for each in step.attempts if each.begin is not None]
    return min(starts, default=step.created), _FURTHEST.get(TaskStatus(step.status), 9), step.ordinal


def _latest(run: RunTimes, ordinals: Collection[int]) -> int | None:
    """Of these steps the one that ended last; at one moment rather one that ended by itself."""
    steps = [run.steps[each] for each in ordinals if each in run.steps]
    final = [each for each in steps if each.finished is not None]
    return max(final, key=_rank).ordinal if final else None


def _rank(step: TaskRunTimes) -> tuple[int, bool, bool, int]:
    return step.finished or 0, step.status in ENDED_TASK, step.started is not None, step.ordinal
