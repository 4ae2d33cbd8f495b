"""Find how long runs stood still: no event, no call under way that ended, and no pause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from chaos.catalogue import LIMITS
from chaos.evidence import Evidence

# From and until (s since the epoch).
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Standstill:
    """A time in which a run stood still."""

    run_id: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def every_run_went_on_soon(seen: Evidence) -> Iterator[str]:
    """No run stood still for longer than promised while there was no fault."""
    faults = fault_times(seen)
    for each in standstills(seen):
        for begin, end in without(each, faults):
            if end - begin > seen.within_s:
                run = seen.records.runs[each.run_id]
                since = f"{begin - seen.first:.1f} s after the start"
                yield f"{run.id} ({run.pipeline_id}) stood still for {end - begin:.1f} s, {since}"


def standstills(seen: Evidence) -> list[Standstill]:
    """The times between two signs of life, for each run."""
    found = []
    for run_id, busy in _busy(seen).items():
        until = busy[0][1]
        for begin, end in busy[1:]:
            if begin > until:
                found.append(Standstill(run_id, until, begin))
            until = max(until, end)
    return found


def fault_times(seen: Evidence, besides: Collection[str] = ()) -> list[Interval]:
    """When there were faults, in order.

    Args:
        besides: kinds of faults that do not count.
    """
    counted = [each for each in seen.faults if each.kind not in besides]
    return sorted((each.began + seen.offset, each.ended + seen.offset) for each in counted)


def without(still: Standstill, faults: Sequence[Interval]) -> Iterator[Interval]:
    """The parts of a standstill between faults."""
    begin = still.begin
    for from_, until in faults:
        if until < begin or from_ > still.end:
            continue
        if from_ > begin:
            yield begin, from_
        begin = max(begin, until)
    if begin < still.end:
        yield begin, still.end


def recoveries(seen: Evidence) -> Mapping[str, list[float]]:
    """By kind of fault: how long (s) the slowest run that each fault met stood still after it. A run that
    stood still until the next fault does not count.
    """
    found: dict[str, list[float]] = defaultdict(list)
    still = standstills(seen)
    nexts = [*(each.began + seen.offset for each in seen.faults[1:]), inf]
    for fault, following in zip(seen.faults, nexts, strict=True):
        ended = fault.ended + seen.offset
        met = (each.end - ended for each in still if each.begin <= ended <= each.end < following)
        found[fault.kind].append(max(met, default=0.0))
    return found


def _busy(seen: Evidence) -> dict[str, list[Interval]]:
    """By run: when something of it happened or was under way, in order. A run that waits for a slot of a
    limit goes on with the calls of others that hold one. What waits is under way until its wait ends; that
    this is soon is proved elsewhere (waits/wakes.py).
    """
    found: dict[str, list[Interval]] = defaultdict(list)
    limited: dict[str, list[Interval]] = {task_id: [] for task_id in LIMITS}
    paused: dict[str, float] = {}
    for event in seen.records.events:
        found[event.run_id].append((paused.pop(event.run_id, event.at), event.at))
        if event.type == "run.paused":
            paused[event.run_id] = event.at
    ends = {(n.task_run_id, n.attempt): n.wall for n in seen.notes if n.what != "begin"}
    for note in seen.notes:
        if note.what == "begin" and note.run_id in seen.records.runs:
            end = ends.get((note.task_run_id, note.attempt), note.wall)
            found[note.run_id].append((note.wall, max(note.wall, end)))
            limited.get(note.task_id, []).append(found[note.run_id][-1])
    for wait in seen.records.begun_waits:
        if (row := seen.records.task_runs.get(wait.task_run_id)) is not None:
            found[wait.run_id].append((wait.at, max(wait.at, seen.ended(row, wait.attempt) or wait.at)))
            limited.get(row.task_id, []).append(found[wait.run_id][-1])
    for run_id, task_id in sorted({(row.run_id, row.task_id) for row in seen.records.task_runs.values()}):
        own = found[run_id]
        if task_id in limited and own:
            first, last = min(own), max(own)
            own += [each for each in limited[task_id] if first <= each <= last]
    return {run_id: sorted(busy) for run_id, busy in found.items() if busy}
