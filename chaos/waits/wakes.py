"""Prove that what waits goes on soon, and that children begin and end soon, as many as there may be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from chaos.evidence import Evidence
from chaos.progress import Interval, Standstill, fault_times, without
from chaos.records import BegunWait, Run, TaskRun
from chaos.waits.documents import DELAYS, NAPS, WIDTHS

# Of what runs have to go on after a fault: 10 s of 15.
SHARE = 2 / 3
# Two processes round their times (s).
ROUNDING_S = 0.01
_ENDED_ITSELF = frozenset({"completed", "failed", "timeout"})


@dataclass(frozen=True, slots=True)
class Wake:
    """Something that was due, and came. Times are seconds since the epoch.

    Args:
        what: came.
        run_id: whose pauses may delay it.
        is_exact: it may not come before it is due.
    """

    what: str
    run_id: str
    due: float
    came: float
    is_exact: bool = False


def every_wait_ended_soon(seen: Evidence) -> Iterator[str]:
    """After its time or what it waited for had come, outside of faults and pauses; no sleep ended early."""
    faults, pauses = fault_times(seen), _pauses(seen)
    for wake in wakes(seen):
        if wake.is_exact and wake.came < wake.due - ROUNDING_S:
            yield f"{wake.what} of {wake.run_id} came {wake.due - wake.came:.2f} s before its time"
        paused = [each for run_id in seen.line(wake.run_id) for each in pauses.get(run_id, ())]
        late = Standstill(wake.run_id, wake.due, wake.came)
        for begin, end in without(late, sorted([*faults, *paused])):
            if end - begin > SHARE * seen.within_s:
                since = f"{begin - seen.first:.1f} s after the start"
                yield f"{wake.what} of {wake.run_id} came {end - begin:.1f} s late, {since}"


def wakes(seen: Evidence) -> Iterator[Wake]:
    """All that was due to end a wait, or to begin a child, and came."""
    for several in seen.begun_waits.values():
        row = seen.records.task_runs.get(several[0].task_run_id)
        if row is not None:
            yield from _of_children(seen, several[0], row) if several[0].kind == "child" else ()
            yield from _of_end(seen, several[0], row)
    for run in seen.records.runs.values():
        above = None if run.parent is None else seen.records.runs.get(run.parent)
        if above is not None and above.finished is not None and (run.finished or 0.0) > above.finished:
            yield Wake(f"the end of {run.id}", above.id, above.finished, run.finished or inf)


def _of_end(seen: Evidence, wait: BegunWait, row: TaskRun) -> Iterator[Wake]:
    ended = seen.ended(row, wait.attempt)
    due = _due(seen, wait, row)
    is_by_itself = row.status in _ENDED_ITSELF or row.attempt > wait.attempt
    if due is not None and ended is not None and is_by_itself:
        what = f"the end of {row.step_id} ({wait.kind}, {row.id})"
        yield Wake(what, wait.run_id, max(due, wait.at), ended, is_exact=wait.kind == "timer")


def _due(seen: Evidence, wait: BegunWait, row: TaskRun) -> float | None:
    """When what a wait is for had come; None where that is not known."""
    match wait.kind:
        case "timer":
            return _wakes_at(seen, wait, row)
        case "poll":
            notes = seen.returned.get((row.id, wait.attempt), ())
            finals = [seen.waited.finals.get(str(each.token)) for each in notes]
            return next((each for each in finals if each is not None), None)
        case "child":
            children = seen.children.get(row.id, [])
            return children[-1].finished if children else None
        case _:
            taken = [each for each in seen.taken.get(row.id, ()) if each.name in wait.names]
            return max((each.sent_at for each in taken), default=wait.timeout_at)


def _wakes_at(seen: Evidence, wait: BegunWait, row: TaskRun) -> float | None:
    run = seen.records.runs[wait.run_id]
    nap = NAPS.get((run.pipeline_id, row.step_id))
    if nap is not None:
        return wait.at + nap
    meant = next((each for each in seen.waited.runs if each.token == run.token), None)
    return None if meant is None else meant.demand.due.get(row.step_id)


def _of_children(seen: Evidence, wait: BegunWait, row: TaskRun) -> Iterator[Wake]:
    """From a wait to its first child, and from the end of each child to the next one."""
    children = seen.children.get(row.id, [])
    pause = _delay(seen, row)
    if children:
        yield Wake(f"the begin of {children[0].id}", wait.run_id, wait.at, children[0].created)
    for before, after in pairwise(children):
        if before.finished is not None:
            due = before.finished + pause
            yield Wake(f"the begin of {after.id}", wait.run_id, due, after.created, is_exact=True)


def _delay(seen: Evidence, row: TaskRun) -> float:
    return DELAYS.get((seen.records.runs[row.run_id].pipeline_id, row.step_id), 0.0)


def no_more_children_were_open_than_their_step_says(seen: Evidence) -> Iterator[str]:
    """One of a step, and of a map of pipelines as many as it may have; by the order of events."""
    begun, ended = _turns(seen)
    by_step: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for waiter, children in seen.children.items():
        if (row := seen.records.task_runs.get(waiter)) is not None:
            by_step[row.run_id, row.step_id] += children
    for (run_id, step_id), children in by_step.items():
        most = WIDTHS.get((seen.records.runs[run_id].pipeline_id, step_id), 1)
        for each in children:
            now = begun.get(each.id, 0)
            open_then = [o.id for o in children if begun.get(o.id, 0) <= now < ended.get(o.id, inf)]
            if len(open_then) > most:
                yield f"{step_id} of {run_id}: {len(open_then)} children were open when {each.id} began"


def _turns(seen: Evidence) -> tuple[dict[str, int], dict[str, int]]:
    """By run: the number of the event of its begin, and of its end."""
    begun, ended = dict[str, int](), dict[str, int]()
    for event in seen.records.events:
        if event.type == "run.created":
            begun[event.run_id] = event.seq
        elif event.type in ("run.completed", "run.partial", "run.failed", "run.cancelled"):
            ended[event.run_id] = event.seq
    return begun, ended


def _pauses(seen: Evidence) -> dict[str, list[Interval]]:
    """By run: when it was paused."""
    pauses: dict[str, list[Interval]] = defaultdict(list)
    paused: dict[str, float] = {}
    for event in seen.records.events:
        if event.type == "run.paused":
            paused[event.run_id] = event.at
        elif event.type == "run.resumed" and event.run_id in paused:
            pauses[event.run_id].append((paused.pop(event.run_id), event.at))
    return dict(pauses)
