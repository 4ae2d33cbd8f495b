"""Defines events, the history of a run: one event per change, also for a change of many task runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.task_run import TaskRun

QUEUED, READY = "task_runs.queued", "task_runs.ready"
# Why task runs are held back: the limit of their task; a pause of their task, run or tenant.
LIMIT, PAUSE = "limit", "pause"
# Why a step is skipped that is passed over: its condition is false.
CONDITION = "condition"


@dataclass(frozen=True, slots=True)
class Event:
    """One change: `type` is `noun.verb`, `data` holds what `replay.py` needs to rebuild the state.

    Where it is not plain from the type why something changed, `data` says so (`cause`, `errorCode`, `error`,
    `reason`, `deadLetter`, `triggeredBy`), and who wanted it (`by`) or did it (`worker`).
    """

    run_id: UUID
    type: str
    task_run_id: UUID | None = None
    attempt: int | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        return {
            "run_id": str(self.run_id),
            "type": self.type,
            "task_run_id": None if self.task_run_id is None else str(self.task_run_id),
            "attempt": self.attempt,
            "data": self.data or None,
        }


def together(type_: str, moved: Sequence[TaskRun], **data: Any) -> list[Event]:
    """One event for all task runs that moved for one cause; a wide step has thousands of them."""
    if not moved:
        return []
    return [Event(moved[0].run_id, type_, data={"ordinals": ranges(each.ordinal for each in moved), **data})]


def held(moved: Sequence[TaskRun]) -> list[Event]:
    """The events of task runs that became `ready`: one limit or pause holds them back, and `cause` says which
    of the two. What has a limit waits for it also while it is paused.
    """
    limited = [each for each in moved if each.is_limited]
    paused = [each for each in moved if not each.is_limited]
    return together(READY, limited, cause=LIMIT) + together(READY, paused, cause=PAUSE)


def ranges(ordinals: Iterable[int]) -> list[list[int]]:
    """Ordinals as closed ranges: a thousand neighbours are one pair."""
    ranges: list[list[int]] = []
    for each in sorted(ordinals):
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return ranges
