"""Says in sentences what the events of a run tell, and names the steps and items that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pipeweave import ids
from pipeweave.api.ui.words import duration

Event = Mapping[str, Any]
# Names that a sentence lists; of more, it says how many.
_LISTED = 4
# Event -> what is said behind the name of what it is about.
_SAID = {
    "run.created": "The run was created",
    "run.running": "The run goes on",
    "run.paused": "The run was paused",
    "run.resumed": "The run was resumed",
    "run.completed": "The run completed",
    "run.partial": "The run ended, partial",
    "run.failed": "The run failed",
    "run.cancelled": "The run was cancelled",
    "run.reopened": "The run was opened again",
    "task_run.started": "began",
    "task_run.dispatched": "was handed to its service",
    "task_run.completed": "completed",
    "task_run.failed": "failed",
    "task_run.timed_out": "timed out",
    "task_run.retrying": "failed",
    "task_run.mapped": "became a map",
    "task_run.reopened": "was opened again",
    "task_runs.queued": "queued",
    "task_runs.ready": "ready, waiting for their turn",
    "task_runs.skipped": "passed over",
    "task_runs.cancelled": "cancelled",
    "task_runs.reopened": "opened again",
}


class Names:
    """The names of a run's task runs by their ordinals.

    Args:
        steps: the steps of the run.
        mapped: the events that tell which ordinals the items of its maps have.
    """

    def __init__(self, steps: Iterable[Mapping[str, Any]], mapped: Iterable[Event]) -> None:
        self._steps = {_ordinal(each["taskRunId"]): str(each["id"]) for each in steps}
        self._maps = [
            (each["data"]["first"], each["data"]["count"], self._steps.get(_ordinal(each["taskRunId"]), ""))
            for each in mapped
            if each["taskRunId"] and each["data"].get("count")
        ]

    def of(self, task_run_id: str | None) -> tuple[str, int | None] | None:
        """The step of a task run, and of an item its index; None where that is not known."""
        return None if task_run_id is None else self._of_ordinal(_ordinal(task_run_id))

    def _of_ordinal(self, ordinal: int) -> tuple[str, int | None] | None:
        if ordinal in self._steps:
            return self._steps[ordinal], None
        for first, count, step in self._maps:
            if first <= ordinal < first + count:
                return step, ordinal - first
        return None

    def listed(self, ranges: Sequence[Sequence[int]]) -> str:
        """What these ranges of ordinals are: `fetch and load`, `400 items of score`, `12 task runs`."""
        number = sum(last - first + 1 for first, last in ranges)
        if number <= _LISTED:
            named = [self._of_ordinal(each) for first, last in ranges for each in range(first, last + 1)]
            if all(named):
                return " and ".join(written(each) for each in named if each)
        if len(ranges) == 1:
            ends = [self._of_ordinal(each) for each in ranges[0]]
            if ends[0] and ends[1] and ends[0][0] == ends[1][0]:
                return f"{number:,} items of {ends[0][0]}"
        return f"{number:,} task runs"


def written(name: tuple[str, int | None]) -> str:
    """`score`, or `score[3]`."""
    return name[0] if name[1] is None else f"{name[0]}[{name[1]}]"


def said(event: Event, names: Names, began_at: str | None) -> str:
    """What an event tells, without the name of its task run.

    Args:
        began_at: when its attempt began, where that is known.
    """
    data: Mapping[str, Any] = event["data"] or {}
    kind = event["type"]
    words: str = _SAID.get(kind, kind.partition(".")[2].replace("_", " "))
    if kind.startswith("task_runs.") and data.get("ordinals"):
        words = f"{names.listed(data['ordinals'])}: {words}"
    if data.get("count"):
        words = f"has {data['count']:,} items"
    if kind == "task_run.started":
        again = f"attempt {event['attempt']} " if (event["attempt"] or 1) > 1 else ""
        return f"{again}{words}" + (f" on {_host(data['worker'])}" if data.get("worker") else "")
    if kind in ("task_run.completed", "task_run.failed") and began_at is not None:
        words += f" {'in' if kind.endswith('completed') else 'after'} {duration(_ms(began_at, event['at']))}"
    if data.get("errorCode"):
        words += f" with {data['errorCode']}"
    words += f": {data['error']}" if isinstance(data.get("error"), str) else ""
    return f"{words}; it is tried again" if kind == "task_run.retrying" else words


def _ordinal(task_run_id: str) -> int:
    return ids.ordinal_of(ids.read(ids.TASK_RUN, task_run_id))


def _host(worker: str) -> str:
    """A worker without the numbers of its process: `studio-1@host`."""
    return worker.partition(":")[0]


def _ms(begin: str, end: str) -> float:
    took = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    return max(0.0, took.total_seconds() * 1_000)
