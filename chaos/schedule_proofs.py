"""Prove what is promised to who schedules runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from chaos.evidence import Evidence
from chaos.schedules import started

# The policies under which a run begins only when the one before it has ended.
_ONE_AT_A_TIME = frozenset({"skip", "queue"})
_OUTCOMES = frozenset({"fired", "skipped"})


def every_due_time_was_decided_about_once(seen: Evidence) -> Iterator[str]:
    """Each due time has one fire, which started a run or was skipped, and there is no other fire."""
    for each in seen.schedules:
        found = Counter(fire.at for fire in seen.records.fires if fire.schedule == each.id)
        yield from (f"{each.id}: nothing was decided about {at}" for at in each.due if not found[at])
        yield from (f"{each.id}: {count} fires of {at}" for at, count in found.items() if count > 1)
        yield from (f"{each.id}: {at} was never due" for at in found if at not in each.due)
    for fire in seen.records.fires:
        if fire.outcome not in _OUTCOMES:
            yield f"{fire.schedule} at {fire.at}: {fire.outcome}"


def every_time_that_fired_has_one_run(seen: Evidence) -> Iterator[str]:
    """No run belongs to two fires, none is missing, and no schedule started another one."""
    counts = Counter(str(each.run_id) for each in started(seen.records.fires))
    yield from (f"{run_id} is the run of {count} fires" for run_id, count in counts.items() if count > 1)
    yield from (f"{run_id} fired, but is not stored" for run_id in counts if run_id not in seen.records.runs)
    for run in seen.records.runs.values():
        if (run.token or "").startswith("schedule:") and run.id not in counts:
            yield f"{run.id} ({run.token}) has no fire"


def scheduled_runs_overlap_only_where_they_may(seen: Evidence) -> Iterator[str]:
    """By the times of the runs' rows."""
    for schedule in seen.schedules:
        if schedule.policy not in _ONE_AT_A_TIME:
            continue
        fires = [each for each in started(seen.records.fires) if each.schedule == schedule.id]
        runs = [
            seen.records.runs[str(each.run_id)] for each in fires if str(each.run_id) in seen.records.runs
        ]
        for before, after in pairwise(sorted(runs, key=lambda each: each.created)):
            if before.finished is None or after.created < before.finished:
                yield f"{schedule.id}: {after.id} was started before {before.id} ended"
