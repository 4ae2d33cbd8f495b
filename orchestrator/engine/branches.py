"""Finds the branches that one process goes through: short steps behind one step, which meet again.

A message lets another worker begin a branch at once, and costs more than a short call takes. So of branches
that are all short, and behind which the run goes on with the same step, the process that completed the step
before them claims all, calls them one after the other, and completes them together. Every other branch gets
its message, and branches of which one is not short, too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.spec import FAIL_FAST

# The calls of all branches that one process takes last about this long together (s), at most: no longer than
# a message is on its way.
TOGETHER_S = 0.005


def are_released_at_once(run: RunHeader, ordinal: int, chosen: Collection[int] = ()) -> bool:
    """Whether one statement can decide the successors of a step of a run that completed.

    Args:
        chosen: those whose conditions are known to be true: they are like plain steps.
    """
    # In the other failure modes the end of a run counts all of its task runs.
    if run.failure_mode != FAIL_FAST and run.plan.successors(ordinal) == (END,):
        return False
    return run.plan.are_released_at_once(ordinal, chosen)


def taken_here(run: RunHeader, successors: Sequence[int], claimant: Claimant) -> list[int]:
    """The successors that the claimant goes on with: the first that it can call, and with it those that meet
    it again, as long as all of them are short.
    """
    plan = run.plan
    mine = [each for each in successors if claimant.may_take(plan[each].step.task)]
    if len(mine) < 2 or not are_released_at_once(run, mine[0]):
        return mine[:1]
    taken, left_s = 0, TOGETHER_S
    for each in mine:
        seconds = claimant.usual_seconds(plan[each].step.task)
        if seconds is None or seconds > left_s or plan.successors(each) != plan.successors(mine[0]):
            break
        taken, left_s = taken + 1, left_s - seconds
    return mine[: max(1, taken)]


def meet(run: RunHeader, completions: Sequence[Completion]) -> bool:
    """Whether the run goes on with the same steps behind all of these completed ones."""
    after = [run.plan.successors(each.task_run.ordinal) for each in completions]
    return all(each == after[0] for each in after)
