"""Decide when a step runs, when it is skipped, and how a run ends. Pure; docs/state-machine.md has the table.

An edge is *taken* if its predecessor completed and chose the step, or was *passed over*: its condition was
false, or its failure is tolerated. A predecessor that chose no steps in particular takes all its edges. A
step is decided once all its predecessors are final, or earlier by an early join rule. If a step is skipped
because of a failure, its descendants are skipped, too. A step that is skipped because no predecessor chose it
is not a failure: a join after it still runs with the outputs of the chosen steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from pipeweave.errors import InvalidNextTasks
from pipeweave.spec.joins import ALL, JoinRule
from pipeweave.suggestions import did_you_mean

FailureMode = Literal["fail-fast", "continue", "partial-merge"]

FAIL_FAST: Final = "fail-fast"
CONTINUE: Final = "continue"
PARTIAL_MERGE: Final = "partial-merge"
FAILURE_MODES: tuple[FailureMode, ...] = (FAIL_FAST, CONTINUE, PARTIAL_MERGE)

# What the failure of an item of a map does; see `MapSpec.failure`.
ItemFailure = Literal["run", "settle", "partial"]
FAILS_RUN: Final = "run"
SETTLES: Final = "settle"
IS_PARTIAL: Final = "partial"
ITEM_FAILURES: tuple[ItemFailure, ...] = (FAILS_RUN, SETTLES, IS_PARTIAL)

# Which code the steps of a run call: that of any worker, or only that which their tasks had when it began.
ANY_CODE: Final = "any"
PINNED: Final = "pinned"
CODES = (ANY_CODE, PINNED)

FAILED = frozenset({"failed", "timeout", "cancelled"})
FINAL = FAILED | {"completed", "skipped"}


class Decision(Enum):
    """The decision about a step: wait, run or skip."""

    WAIT = "wait"
    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The state of one predecessor.

    Args:
        status: the status of its task run.
        selected_next: the step ids that it chose; None for all successors. Pass a set if there are many.
        follows_failure: it was skipped because of a failure before it (see `follows_failure`).
        is_passed_over: it was skipped because its condition was false, or it failed and that is tolerated.
    """

    status: str
    selected_next: Collection[str] | None = None
    follows_failure: bool = False
    is_passed_over: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether it counts as a failure for the steps behind it."""
        return (self.status in FAILED and not self.is_passed_over) or self.follows_failure


def decide_step(
    mode: str, predecessors: Mapping[str, Predecessor], step_id: str, join: JoinRule = ALL
) -> Decision:
    """Decide whether a step runs now, is skipped, or waits. A step without predecessors runs.

    Under `fail-fast` the first failure ends the run, so callers do not follow this decision for open steps.

    Args:
        mode: the failure mode of the run.
        predecessors: all of them, by step id; open ones count as open whatever else is known of them.
        join: the join rule of the step.
    """
    if not predecessors:
        return Decision.RUN
    final = [each for each in predecessors.values() if each.status in FINAL]
    still_open = len(predecessors) - len(final)
    taken = sum(is_taken(each, step_id) for each in final)
    if join.at_least is not None:
        return _decide_early(join.at_least, taken, still_open)
    if still_open:
        return Decision.WAIT
    if join.takes_failures:
        is_reached = bool(taken) or follows_failure(final) or not join.needs_one
        return Decision.RUN if is_reached else Decision.SKIP
    if mode != PARTIAL_MERGE and follows_failure(final):
        return Decision.SKIP
    return Decision.RUN if taken else Decision.SKIP


def _decide_early(at_least: int, taken: int, still_open: int) -> Decision:
    """Runs once enough edges are taken. A step that can no longer run waits until all are final, so that it
    is known whether a failure was the reason.
    """
    if taken >= at_least:
        return Decision.RUN
    return Decision.WAIT if still_open else Decision.SKIP


def is_taken(predecessor: Predecessor, step_id: str) -> bool:
    """True if the edge from this predecessor to the step is taken."""
    if predecessor.is_passed_over:
        return True
    if predecessor.status != "completed":
        return False
    return predecessor.selected_next is None or step_id in predecessor.selected_next


def follows_failure(predecessors: Iterable[Predecessor]) -> bool:
    """True if a step with these predecessors is skipped because of a failure; its successors need to know."""
    return any(each.is_failure for each in predecessors)


def final_run_status(mode: str, statuses: Iterable[str]) -> str:
    """The final status of a run whose task runs have these statuses.

    Args:
        mode: the run's failure mode.
        statuses: the statuses of its task runs (duplicates do not matter); all final, unless the run fails
            fast.

    Raises:
        ValueError: a task run is still open, so the run has not ended.
    """
    distinct = frozenset(statuses)
    failed = not distinct.isdisjoint(FAILED)
    if failed and mode == FAIL_FAST:
        return "failed"
    if open_ones := distinct - FINAL:
        raise ValueError(f"the run has not ended: task runs are {', '.join(sorted(open_ones))}")
    if not failed:
        return "completed"
    return "partial" if mode == PARTIAL_MERGE else "failed"


def map_completes(mode: str, rule: ItemFailure, failed: int, count: int) -> bool:
    """Whether a map completes of which all items are final.

    Args:
        mode: the run's failure mode.
        rule: of the map.
        failed: how many of its items did not complete.
        count: how many it has.
    """
    goes_on = rule == IS_PARTIAL or (rule == FAILS_RUN and mode == PARTIAL_MERGE)
    return failed == 0 or (goes_on and failed < count)


def select_next(
    run_next: Iterable[str] | None, successors: Collection[str], *, step_id: str, is_item: bool = False
) -> tuple[str, ...] | None:
    """Check the successors that a task chose and remove duplicates; None means all.

    Args:
        run_next: the step ids that the task chose; None for all.
        successors: the step ids that follow the task's step.
        step_id: the task's step.
        is_item: whether the task ran for an item of a map.

    Raises:
        InvalidNextTasks: the task chose a step that is not a successor of its own step, or ran for an item of
            a map: the items together are one step, so none of them can choose what follows it.
    """
    if run_next is None:
        return None
    chosen = tuple(dict.fromkeys(run_next))
    if is_item:
        raise InvalidNextTasks(
            f"an item of map {step_id!r} returned run_next={list(chosen)[:10]!r},"
            " but items of a map cannot choose successors",
            hint="return the output without run_next, and let a step after the map choose by its outputs",
        )
    unknown = [each for each in chosen if each not in successors]
    if unknown:
        names = ", ".join(map(repr, unknown[:10]))
        raise InvalidNextTasks(
            f"run_next names {names}, but no such step follows step {step_id!r}: {_listed(successors)}",
            hint=did_you_mean(unknown[0], successors, "run_next takes ids of steps that directly follow")
            or None,
        )
    return chosen


def _listed(successors: Collection[str]) -> str:
    if not successors:
        return "it is an end step"
    some = sorted(successors)
    more = f" and {len(some) - 10} more" if len(some) > 10 else ""
    return f"its successors are {', '.join(some[:10])}{more}"
