"""Prove what is promised to who enqueues runs, and to who waits for the ends of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos.bystanders import LONGEST_READ, LONGEST_WITHOUT_TICK
from chaos.causes import enqueued_runs
from chaos.evidence import Evidence
from chaos.progress import Standstill, fault_times, without

# Faults that concern few: they are no excuse for who is late.
OF_OTHERS = frozenset({"storage-hangs", "bodies-announced", "hooks-hang", "rows-unreadable", "month-dropped"})
# Whom a fault does not concern waits at most so long (ms): a read, and the tick, of which those that had
# nothing to do leave no note for up to three seconds. A busy machine needs some.
LONGEST_MS = {LONGEST_READ: 5_000, LONGEST_WITHOUT_TICK: 8_000}


def every_row_that_nobody_can_read_was_refused(seen: Evidence) -> Iterator[str]:
    """It has a reason, and no run."""
    for row in seen.records.odd_rows:
        if not row.is_settled or row.error_code is None:
            yield f"{row.id}: the row that nobody can read was not refused"
        if row.id in seen.records.runs:
            yield f"{row.id}: a run of a row that nobody can read is stored"


def every_end_called_its_hook(seen: Evidence) -> Iterator[str]:
    """Each end is one fire. One that fired was answered; one that waits was called while nobody answered."""
    counts = Counter(each.run_id for each in seen.records.hook_fires)
    for run_id in enqueued_runs(seen.records):
        if counts[run_id] != 1:
            yield f"{run_id}: its end is {counts[run_id]} fires of its hook"
    for fire in seen.records.hook_fires:
        if fire.outcome == "fired" and not seen.hook_calls.get(fire.id):
            yield f"{fire.id}: the hook of {fire.run_id} is said to have fired, but was not answered"
        if fire.outcome not in ("fired", "waiting") or (fire.outcome == "waiting" and not fire.attempts):
            yield f"{fire.id}: the hook of {fire.run_id} is {fire.outcome} after {fire.attempts} calls"


def nobody_waited_whom_a_fault_did_not_concern(seen: Evidence) -> Iterator[str]:
    """Reads were answered and ticks came while others waited for a store, a hook or a client."""
    for fault in seen.faults:
        for name, most in LONGEST_MS.items():
            if (longest := fault.more.get(name, 0)) > most:
                yield f"{fault.kind} at {fault.planned:.1f} s: {longest} {name}"


def every_end_started_its_run_soon(seen: Evidence) -> Iterator[str]:
    """No run that follows an end began later than promised, whoever else hung meanwhile."""
    faults = fault_times(seen, besides=OF_OTHERS)
    for run in seen.records.runs.values():
        cause = seen.records.runs.get((run.token or "").removeprefix("event:"))
        if cause is None or cause.finished is None:
            continue
        late = Standstill(run.id, cause.finished, run.created)
        for begin, end in without(late, faults):
            if end - begin > seen.within_s:
                yield f"{run.id} began {end - begin:.1f} s after the end of {cause.id}"
