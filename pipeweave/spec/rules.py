"""When a step runs, when it is skipped, and how a run ends (pure; the table is in docs/state-machine.md).

An edge is *taken* when its predecessor completed and chose the step (choosing nothing in particular is
choosing all). A step is decided once all its predecessors are final. Skipping because of a failure is
passed on to the descendants; skipping because nobody chose the step is not a failure, so a join behind it
still runs with what was chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from pipeweave.errors import InvalidNextTasks
from pipeweave.suggestions import did_you_mean

FailureMode = Literal["fail-fast", "continue", "partial-merge"]

FAIL_FAST: Final = "fail-fast"
CONTINUE: Final = "continue"
PARTIAL_MERGE: Final = "partial-merge"
FAILURE_MODES: tuple[FailureMode, ...] = (FAIL_FAST, CONTINUE, PARTIAL_MERGE)

FAILED = frozenset({"failed", "timeout", "cancelled"})
FINAL = FAILED | {"completed", "skipped"}


class Decision(Enum):
    """What becomes of a step."""

    WAIT = "wait"
    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Predecessor:
    """How one predecessor stands.

    Args:
        status: its task run's status.
        selected_next: the step ids it chose; None for all. A set, where it is large.
        follows_failure: it was skipped because of a failure before it (see `follows_failure`).
    """

    status: str
    selected_next: Collection[str] | None = None
    follows_failure: bool = False


def decide_step(mode: str, predecessors: Mapping[str, Predecessor], step_id: str) -> Decision:
    """Whether a step may run now, is skipped, or waits. A step without predecessors runs.

    Under `fail-fast` the run ends with the first failure, whatever this says of the steps that were still
    open.
    """
    taken = failed = False
    for each in predecessors.values():
        if each.status not in FINAL:
            return Decision.WAIT
        failed = failed or each.status in FAILED or each.follows_failure
        taken = taken or is_taken(each, step_id)
    if not predecessors:
        return Decision.RUN
    if failed and mode != PARTIAL_MERGE:
        return Decision.SKIP
    return Decision.RUN if taken else Decision.SKIP


def is_taken(predecessor: Predecessor, step_id: str) -> bool:
    """Whether the edge from this predecessor to the step is taken."""
    if predecessor.status != "completed":
        return False
    return predecessor.selected_next is None or step_id in predecessor.selected_next


def follows_failure(predecessors: Iterable[Predecessor]) -> bool:
    """Whether a step that is skipped now is skipped because of a failure, which its own successors need to
    know.
    """
    return any(each.status in FAILED or each.follows_failure for each in predecessors)


def final_run_status(mode: str, statuses: Iterable[str]) -> str:
    """How a run ends whose task runs have these statuses.

    Args:
        mode: the run's failure mode.
        statuses: of its task runs, or just the distinct ones; all final, unless the run fails fast.

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


def select_next(run_next: Iterable[str] | None, successors: Collection[str]) -> tuple[str, ...] | None:
    """The successors a task chose, without doubles; None for all.

    Raises:
        InvalidNextTasks: it chose a step that is not a successor of its own.
    """
    if run_next is None:
        return None
    chosen = tuple(dict.fromkeys(run_next))
    unknown = [each for each in chosen if each not in successors]
    if unknown:
        some = ", ".join(sorted(successors)[:10]) or "none"
        raise InvalidNextTasks(
            f"run_next names {', '.join(map(repr, unknown[:10]))}, which do not follow this step",
            hint=did_you_mean(unknown[0], successors, f"its successors are: {some}"),
        )
    return chosen
