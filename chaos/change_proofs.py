"""Prove what is promised to who pauses, cancels and reruns runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import inf

from chaos.evidence import Evidence
from chaos.progress import Interval
from chaos.records import Event

# A claim that began before a pause may be durable after it: this much (s) is the doubt of two clocks.
DOUBT_S = 1.0
_ENDS = frozenset({"run.completed", "run.partial", "run.failed", "run.cancelled"})


def nothing_was_started_in_a_paused_or_ended_run(seen: Evidence) -> Iterator[str]:
    """By the times of the events."""
    by_run: dict[str, list[Event]] = defaultdict(list)
    for event in seen.records.events:
        by_run[event.run_id].append(event)
    for run_id, events in by_run.items():
        closed = list(_closed(events))
        for event in events:
            for begin, end in closed if event.type == "task_run.started" else ():
                if begin + DOUBT_S < event.at < end:
                    after = f"{event.at - begin:.1f} s after the run had stopped"
                    yield f"{event.task_run_id} ({run_id}) was started {after}"


def _closed(events: list[Event]) -> Iterator[Interval]:
    """When a run was paused, or over."""
    begin: float | None = None
    for event in events:
        if event.type == "run.paused" or event.type in _ENDS:
            begin = event.at if begin is None else begin
        elif event.type == "run.resumed" and begin is not None:
            yield begin, event.at
            begin = None
    if begin is not None:
        yield begin, inf


def every_cancel_ended_its_run(seen: Evidence) -> Iterator[str]:
    """A run whose cancel was answered is cancelled, and no other run is, except those inside of it."""
    for change in seen.changes:
        if change.kind == "cancel" and change.is_done:
            status = seen.records.runs[change.run_id].status
            if status != "cancelled":
                yield f"{change.run_id}: its cancel was answered, but it is {status}"
    for run in seen.records.runs.values():
        if run.status == "cancelled" and run.parent is None and run.id not in seen.asked_to_cancel:
            yield f"{run.id} ({run.pipeline_id}) is cancelled, but nobody asked for it"


def reruns_reused_what_could_not_change(seen: Evidence) -> Iterator[str]:
    """A rerun from a step took over exactly the steps that the model says, and was refused only where the
    step would be skipped again.
    """
    for change in seen.changes:
        if change.kind != "rerun" or not change.status:
            continue
        reused, away = (set[str](), set[str]()) if change.step is None else seen.settled(change)
        if not change.is_done:
            if change.step not in away or change.refused != "skipped_step":
                yield f"{change.token} from {change.step}: it was refused ({change.refused})"
            continue
        for made in seen.accepted[str(change.token)] & seen.steps.keys():
            rows = seen.steps[made].values()
            found = {each.step_id for each in rows if each.cached_from is not None}
            if found != reused:
                differ = f"{sorted(found - reused)} too many, {sorted(reused - found)} too few"
                yield f"{made}, a rerun of {change.run_id} from {change.step}: {differ}"
