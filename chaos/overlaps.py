"""Find calls of a limited task that overlapped more than its limit allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaos.catalogue import LIMITS
from chaos.evidence import Evidence
from chaos.notes import Note
from chaos.records import TaskRun


@dataclass(frozen=True, slots=True)
class Span:
    """A call and the time in which it held a slot (s since the epoch)."""

    name: str
    begin: float
    end: float


def span(seen: Evidence, row: TaskRun, attempt: int, begun: Note) -> Span:
    """The time from the begin of a call to its end, or to the recorded end of its attempt if earlier. A call
    that has handed its work on holds its slot until that end.
    """
    key = (row.id, attempt)
    returned = () if key in seen.begun_waits else seen.returned.get(key, ())
    ends = [each.wall for each in (*returned, *seen.raised.get(key, ()))]
    recorded = seen.records.attempts.get(row.id, {}).get(attempt)
    if recorded is not None:
        ends.append(recorded.finished)
    elif row.finished is not None:
        ends.append(row.finished)
    return Span(f"{row.id} attempt {attempt}", begun.wall, min(ends, default=float("inf")))


def too_many(task_id: str, spans: Iterable[Span]) -> Iterator[str]:
    """A line for each call that began while the limit was full."""
    under_way: list[Span] = []
    for each in sorted(spans, key=lambda each: each.begin):
        under_way = [other for other in under_way if other.end > each.begin]
        if each.end > each.begin:
            under_way.append(each)
        if len(under_way) > LIMITS[task_id]:
            names = ", ".join(f"{other.name} [{other.begin:.3f}, {other.end:.3f}]" for other in under_way)
            yield f"{task_id} has a limit of {LIMITS[task_id]}, but under way were {names}"
