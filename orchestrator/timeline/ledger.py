"""Adds up what the duration of a run was spent on, along its critical path. Pure.

Every moment from the run's creation to its end is told once: before the run was admitted, in a step of the
critical path, or between its last step and its end. So the parts always add up to the whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.timeline.critical_path import PathStep
from pipeweave.orchestrator.timeline.dividing import clipped, laid_over, spans
from pipeweave.orchestrator.timeline.spans import PathPart, PhaseKind, RunTimes, TaskRunTimes, TimeSpan


@dataclass(frozen=True, slots=True)
class Sum:
    """What one kind of wait or work took together, and for which task.

    Args:
        task_id: the task, of kinds that a task causes; else None.
        waits_for: the people, signals or pipeline, of kinds that wait for some; else None.
        length: microseconds.
        steps: in how many steps of the path.
    """

    kind: PhaseKind
    task_id: str | None
    length: int
    steps: int
    waits_for: str | None = None


# What a setting of a task decides: told for each task.
_BY_TASK = frozenset({PhaseKind.TASK_LIMIT})
# What waits for somebody: told for each of them.
_BY_NAME = frozenset({PhaseKind.APPROVAL, PhaseKind.SIGNAL, PhaseKind.CHILD})


def parts(run: RunTimes, path: Sequence[PathStep]) -> list[PathPart]:
    """What the time was spent on, from the creation of the run to its end, without a gap."""
    begin = run.end if run.started is None else min(run.started, run.end)
    admission = laid_over([TimeSpan(PhaseKind.PREDECESSORS, 0, begin)], run.pauses, PhaseKind.PAUSE)
    run_parts = [PathPart(_waiting_for_slot(each)) for each in admission if each.end > each.begin]
    for step in path:
        run_parts += _of_step(run, step if step.begin >= begin else replace(step, begin=begin))
    end = max([begin, *(each.end for each in path)])
    has_ending = run.has_ending and (run.is_open or END in run.inside)
    after = PhaseKind.CHILD if has_ending else PhaseKind.PREDECESSORS
    rest = clipped([TimeSpan(after, end, run.end)], end, run.end)
    for each in _as_run(run, rest):
        run_parts += _with_inside(run, PathPart(each))
    return run_parts


def _waiting_for_slot(span: TimeSpan) -> TimeSpan:
    return span._replace(kind=PhaseKind.TENANT_LIMIT) if span.kind is PhaseKind.PREDECESSORS else span


def _as_run(run: RunTimes, plain_spans: Sequence[TimeSpan]) -> list[TimeSpan]:
    """The spans with the pauses and the ends of the whole run."""
    return laid_over(laid_over(plain_spans, run.overs, PhaseKind.ENDED), run.pauses, PhaseKind.PAUSE)


def _of_step(run: RunTimes, step: PathStep) -> Iterator[PathPart]:
    times = run.steps[step.ordinal]
    for span in _covering(run, times, step.begin, step.end):
        item = run.last_items.get(step.ordinal)
        if span.kind is not PhaseKind.ITEMS or item is None:
            yield from _with_inside(run, PathPart(span, times))
            continue
        # A map takes as long as the item that ends last: its time is that item's.
        for each in _covering(run, item, span.begin, span.end):
            yield from _with_inside(run, PathPart(each, item))


def _with_inside(run: RunTimes, part: PathPart) -> Iterator[PathPart]:
    """The part; in its place, as far as that is known, what the child runs did that it waited for."""
    inside = run.inside.get(END if part.times is None else part.times.ordinal, ())
    at, until = part.span.begin, part.span.end
    for each in inside if part.span.kind is PhaseKind.CHILD else ():
        begin, end = max(at, each.span.begin), min(until, each.span.end)
        if begin >= end:
            continue
        if at < begin:
            yield part._replace(span=part.span._replace(begin=at, end=begin))
        yield PathPart(each.span._replace(begin=begin, end=end), part.times, each.inner or each.times)
        at = end
    if at < until:
        yield part._replace(span=part.span._replace(begin=at))


def _covering(run: RunTimes, times: TaskRunTimes, begin: int, end: int) -> list[TimeSpan]:
    """The spans of a task run between two moments; what lies outside its life is a wait for its release."""
    if begin >= end:
        return []
    task_spans = clipped(spans(times, run.changes.get(times.ordinal, ()), run.end), begin, end)
    first, last = (task_spans[0].begin, task_spans[-1].end) if task_spans else (end, end)
    if begin < first:
        task_spans.insert(0, TimeSpan(PhaseKind.PREDECESSORS, begin, first))
    if last < end:
        task_spans.append(TimeSpan(PhaseKind.PREDECESSORS, last, end))
    return _as_run(run, task_spans)


def sums(run_parts: Sequence[PathPart]) -> list[Sum]:
    """The parts by kind, and by task or by who is waited for where that is the cause; the longest first."""
    lengths: dict[tuple[PhaseKind, str | None, str | None], int] = defaultdict(int)
    steps: dict[tuple[PhaseKind, str | None, str | None], set[str]] = defaultdict(set)
    for part in run_parts:
        key = part.span.kind, *causes(part)
        lengths[key] += part.length
        if part.times is not None:
            steps[key].add(part.times.step_id)
    return [
        Sum(kind, task, length, len(steps[kind, task, waits_for]), waits_for)
        for (kind, task, waits_for), length in sorted(
            lengths.items(), key=lambda each: (-each[1], each[0][0])
        )
        if length
    ]


def causes(part: PathPart) -> tuple[str | None, str | None]:
    """The task, and the people, signals or pipeline, that a part is told of by name."""
    times, kind = part.inner or part.times, part.span.kind
    if times is None:
        return None, None
    return times.task_id if kind in _BY_TASK else None, times.waits_for if kind in _BY_NAME else None
