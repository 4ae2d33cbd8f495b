"""Compute the figures of a trial: how long recovery took after each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chaos import progress
from chaos.evidence import Evidence
from chaos.faults import Injected
from chaos.notes import Note
from chaos.records import Attempt
from chaos.trial import Trial
from chaos.waits import wakes
from chaos.watching import Watched

# Error code of an attempt that a fault cut off -> the faults that cause it.
GIVEN_UP = frozenset({"lost", "interrupted"})
SILENT = "HEARTBEAT_LOST"
CUTTING = (
    "child-killed",
    "worker-killed",
    "worker-stopped",
    "worker-asked-to-end",
    "worker-vanished",
    "worker-deployed",
)


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds."""

    p50: float
    p95: float
    longest: float


@dataclass(frozen=True, slots=True)
class Recoveries:
    """The recovery times of calls that faults cut off.

    Args:
        found: the times from the fault until the attempt was recorded as ended.
        begun: the times from the fault until the next attempt was called.
    """

    count: int
    found: Spread
    begun: Spread


def figures(trial: Trial) -> dict[str, Any]:
    """All of them, JSON-able."""
    records, notes = trial.evidence.records, trial.evidence.notes
    missed = [each for each in trial.faults if each.missed]
    rows = records.task_runs.values()
    ended = [each for attempts in records.attempts.values() for each in attempts.values()]
    return {
        "faults": dict(Counter(each.kind for each in trial.faults if not each.missed)),
        "faultsMissed": dict(Counter(each.kind for each in missed)),
        "messages": {
            kind: dict(sum((Counter(f.more) for f in trial.faults if f.kind == kind), Counter()))
            for kind in sorted({each.kind for each in trial.faults if each.more})
        },
        "changes": dict(Counter(each.kind for each in trial.evidence.changes if each.is_done)),
        "fires": dict(Counter(each.outcome for each in records.fires)),
        "waits": _of_waits(trial.evidence),
        "stream": _of_stream(trial.evidence.watched),
        "restarts": dict(trial.restarts),
        "children": len({each.pid for each in notes}),
        "runsAskedForAgain": trial.repeated,
        "runs": dict(Counter(each.status for each in records.runs.values())),
        "taskRuns": dict(Counter(each.status for each in rows)),
        "calls": sum(each.what == "begin" for each in notes),
        "attempts": {
            "completed": sum(each.status == "completed" and each.is_called for each in rows),
            **Counter(each.status for each in ended),
        },
        "deadLetters": sum(records.dead_letters.values()),
        "otherAnswers": {str(status): count for status, count in sorted(trial.refused.items())},
        "settledSeconds": round(trial.settled_s, 1),
        "recoveries": {
            kind: asdict(found)
            for kind in CUTTING
            if (found := _recoveries([each for each in trial.faults if each.kind == kind], trial.evidence))
        },
        # How long (s) after the end of a fault its slowest run went on.
        "longestStandstill": round(
            max((each.seconds for each in progress.standstills(trial.evidence)), default=0.0), 1
        ),
        "wentOnAfter": {
            kind: asdict(_spread(seconds)) for kind, seconds in progress.recoveries(trial.evidence).items()
        },
    }


def _of_waits(seen: Evidence) -> dict[str, Any]:
    late = [max(0.0, each.came - each.due) for each in wakes.wakes(seen)]
    return {
        **Counter(each.kind for each in seen.records.begun_waits),
        "inside": sum(each.parent is not None for each in seen.records.runs.values()),
        "answers": dict(sorted(Counter(str(each.status) for each in seen.waited.asked).items())),
        "askedAgain": sum(each.tries > 1 for each in seen.waited.asked),
        # From what ends a wait until its end, faults included (s).
        "wokeAfter": asdict(_spread(late)) if late else {},
    }


def _of_stream(watched: Watched | None) -> dict[str, int]:
    return {} if watched is None else {"events": len(watched.events), "connections": watched.connections}


def _recoveries(faults: Iterable[Injected], seen: Evidence) -> Recoveries | None:
    found, begun = [], []
    for fault in faults:
        for cut, ended in _cut(fault, seen):
            again, since = _next_call(cut, seen.notes), max(fault.began, cut.at)
            seconds = ended.finished - (since + cut.wall - cut.at)
            # The process may have lost calls before this fault; and the run may have ended instead.
            if again is not None and seconds > 0:
                found.append(seconds)
                begun.append(again.at - since)
    return Recoveries(len(begun), _spread(found), _spread(begun)) if begun else None


def _cut(fault: Injected, seen: Evidence) -> Iterator[tuple[Note, Attempt]]:
    """The calls in these processes whose attempts are recorded as ended by something like this fault."""
    for note in seen.notes:
        if note.what == "begin" and note.pid in fault.pids and note.at < fault.ended:
            ended = seen.records.attempts.get(note.task_run_id, {}).get(note.attempt)
            if ended is not None and (ended.status in GIVEN_UP or ended.code == SILENT):
                yield note, ended


def _next_call(cut: Note, notes: Sequence[Note]) -> Note | None:
    """The first call of a later attempt of the same task run; None where the run ended instead."""
    later = (
        each
        for each in notes
        if each.what == "begin" and each.task_run_id == cut.task_run_id and each.attempt > cut.attempt
    )
    return min(later, key=lambda each: each.at, default=None)


def _spread(seconds: Iterable[float]) -> Spread:
    several = sorted(round(each, 2) for each in seconds)
    p50, p95 = (several[min(len(several) - 1, int(share * len(several)))] for share in (0.5, 0.95))
    return Spread(p50, p95, several[-1])
