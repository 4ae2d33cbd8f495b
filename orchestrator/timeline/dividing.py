"""Divides the life of a task run into spans: what it did, and what it waited for. Pure.

Its row and its ended attempts say when it was released, started and ended. Events say what the row forgets:
for what it was held, when it was queued before, when it was given back. Both are marks on one line of time,
and what lies between two marks is a span: so spans always add up, whatever is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.timeline.spans import Interval, PhaseChange, PhaseKind, TaskRunTimes, TimeSpan
from pipeweave.spec import WITH_ITEMS

# Of two marks at one moment, by one transaction, the later in this order is what holds from then on.
_ORDER = (
    PhaseKind.PREDECESSORS,
    PhaseKind.RETRY_DELAY,
    PhaseKind.SAME_KEY,
    PhaseKind.PAUSE,
    PhaseKind.TASK_LIMIT,
    PhaseKind.QUEUE,
    PhaseKind.ITEMS,
    PhaseKind.ASLEEP,
    PhaseKind.APPROVAL,
    PhaseKind.SIGNAL,
    PhaseKind.CHILD,
    PhaseKind.OUTSIDE,
    PhaseKind.FAILED_WORK,
    PhaseKind.WORK,
    None,
)
_RANK = {kind: number for number, kind in enumerate(_ORDER)}
# What cannot go on while a whole run is paused, or is over: nothing of it is released.
_STOPPED = {
    PhaseKind.PAUSE: frozenset({PhaseKind.PREDECESSORS}),
    PhaseKind.ENDED: frozenset({PhaseKind.PREDECESSORS, PhaseKind.ITEMS}),
}


class _Mark(NamedTuple):
    """From `at` on, a task run does this; `kind` is None when it is final.

    A run of thousands of steps has tens of thousands of marks: a tuple is made several times faster than an
    object that guards its fields.
    """

    at: int
    kind: PhaseKind | None
    attempt: int
    error_code: str | None = None


def _place(mark: _Mark) -> tuple[int, int, int]:
    return mark.at, mark.attempt, _RANK[mark.kind]


def spans(times: TaskRunTimes, changes: Sequence[PhaseChange], end: int) -> list[TimeSpan]:
    """The spans of a task run, in their order and without a gap between them.

    Args:
        times: its row and its ended attempts.
        changes: its events.
        end: when the last span ends, if the task run is open.
    """
    marks = sorted([*_of_row(times), *_of_events(times, changes)], key=_place)
    task_spans: list[TimeSpan] = []
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        until = end if after is None else after.at
        kind = mark.kind
        if kind is None:
            if after is None:
                break
            kind = PhaseKind.ENDED
        if until > mark.at:
            _add(task_spans, TimeSpan(kind, mark.at, until, mark.attempt, mark.error_code))
    return task_spans


def _add(task_spans: list[TimeSpan], span: TimeSpan) -> None:
    """Append a span, or lengthen the one before that says the same."""
    last = task_spans[-1] if task_spans else None
    if last is not None and (last.kind, last.attempt) == (span.kind, span.attempt):
        task_spans[-1] = last._replace(end=span.end)
    else:
        task_spans.append(span)


def _of_row(times: TaskRunTimes) -> Iterator[_Mark]:
    yield _Mark(times.created, PhaseKind.PREDECESSORS, 1)
    numbers = {each.number for each in times.attempts}
    for each in times.attempts:
        if each.begin is not None:
            yield _Mark(each.begin, times.wait or PhaseKind.FAILED_WORK, each.number, each.error_code)
        # Behind the last attempt, a run takes care of the error, or it is the end.
        then = PhaseKind.RETRY_DELAY if each.number < times.attempt else PhaseKind.CHILD
        yield _Mark(each.end, then, each.number + 1)
    if times.queued is not None:
        yield _Mark(times.queued, _released(times), times.attempt)
    if times.started is not None and times.attempt not in numbers:
        yield _Mark(times.started, _begun(times), times.attempt)
    if times.finished is not None:
        # An attempt that failed for good is among the ended ones, and no other follows.
        last = times.attempt if not numbers else max(times.attempt, max(numbers) + 1)
        yield _Mark(times.finished, None, last)


def _released(times: TaskRunTimes) -> PhaseKind:
    if times.status != TaskStatus.READY:
        return PhaseKind.QUEUE
    return PhaseKind.TASK_LIMIT if times.is_limited else PhaseKind.PAUSE


def _begun(times: TaskRunTimes) -> PhaseKind:
    if times.wait is not None:
        return times.wait
    if times.kind in WITH_ITEMS:
        return PhaseKind.ITEMS
    return PhaseKind.OUTSIDE if times.status == TaskStatus.WAITING else PhaseKind.WORK


def _of_events(times: TaskRunTimes, changes: Iterable[PhaseChange]) -> Iterator[_Mark]:
    """An event of many task runs names no attempt: it is about the one after those that had ended."""
    ends = [each.end for each in times.attempts]
    for at, kind in changes:
        number = 1 + sum(end <= at for end in ends) if ends else 1
        yield _Mark(at, kind, min(number, times.attempt) if kind else number)


def laid_over(parts: Sequence[TimeSpan], intervals: Sequence[Interval], kind: PhaseKind) -> list[TimeSpan]:
    """The spans, but what could not go on in these intervals is `kind`: a pause or the end of the run."""
    pieces = list(parts)
    for interval in intervals:
        pieces = [piece for each in pieces for piece in _split(each, interval, kind)]
    return pieces


def _split(span: TimeSpan, interval: Interval, kind: PhaseKind) -> Iterator[TimeSpan]:
    begin, end = max(span.begin, interval.begin), min(span.end, interval.end)
    if span.kind not in _STOPPED[kind] or begin >= end:
        yield span
        return
    if span.begin < begin:
        yield span._replace(end=begin)
    yield span._replace(kind=kind, begin=begin, end=end)
    if end < span.end:
        yield span._replace(begin=end)


def clipped(parts: Iterable[TimeSpan], begin: int, end: int) -> list[TimeSpan]:
    """What of the spans lies between two moments."""
    return [
        each
        if begin <= each.begin and each.end <= end
        else each._replace(begin=max(each.begin, begin), end=min(each.end, end))
        for each in parts
        if each.begin < end and each.end > begin
    ]
