"""Reads the times of a run's steps, in time that grows with its steps, not with the items of its maps.

Rows and ended attempts are read whole. Of the events, only those are read that say what no row says, and only
among the first and the last EVENTS_AT_AN_END of the run: what is between those follows from the rows alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.events import LIMIT
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.states import FINAL_RUN, RunStatus
from pipeweave.orchestrator.reading import enqueued_runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.timeline.spans import (
    EndedAttempt,
    Interval,
    PhaseChange,
    PhaseKind,
    RunTimes,
    TaskRunTimes,
)
from pipeweave.orchestrator.timeline.waiting_for import waiting_for
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import CHILD_TASKS, WITH_ITEMS
from pipeweave.spec.kinds import WAIT

EVENTS_AT_AN_END = 10_000
# Attempts that are read of steps, or of items, together.
MOST_ATTEMPTS = 20_000

_MICROSECOND = timedelta(microseconds=1)

# Without statistics of so wide a run, to collect all its pages and to sort them looks cheaper than to read
# the first few in the order of their index.
_IN_ORDER = "SET LOCAL enable_bitmapscan = off"

_RUN = """
SELECT r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, r.status, r.task_run_count,
       r.created_at, r.started_at, r.finished_at
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run's row and its plan; times by PostgreSQL's clock."""

    id: UUID
    pipeline_id: str
    pipeline_version: int
    status: RunStatus
    task_run_count: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    now: datetime
    plan: Plan

    @property
    def until(self) -> datetime:
        """When it ended; for an open run, now."""
        return self.finished_at or max(self.now, self.created_at)

    def since(self, moment: datetime | None) -> int | None:
        """Microseconds from its creation to a moment. Nothing of a run is before its creation."""
        if moment is None:
            return None
        return max(0, (moment - self.created_at) // _MICROSECOND)


def run_row(tx: Transaction, tenant: str, id: UUID) -> RunRow:
    """The row of a run. What this transaction reads from now on is of one moment.

    Raises:
        NotFound: the tenant has no such run, or its month was dropped.
    """
    tx.hold()
    tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    tx.execute(_IN_ORDER)
    return further_row(tx, tenant, id)


def further_row(tx: Transaction, tenant: str, id: UUID) -> RunRow:
    """The row of a further run, of the same moment. Raises NotFound like `run_row`."""
    row: Any = tx.execute(_RUN, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    stored = pipelines.of_run(tx, row)
    return RunRow(
        row.id,
        row.pipeline_id,
        row.pipeline_version,
        RunStatus(row.status),
        row.task_run_count,
        row.created_at,
        row.started_at,
        row.finished_at,
        tx.now,
        stored.plan,
    )


# The statuses of a run that is in its ending, or may have had one.
_WITH_ENDING = {RunStatus.ERROR_HANDLING, *FINAL_RUN}


def step_times(tx: Transaction, run: RunRow) -> RunTimes:
    """The times of a run's steps without their events: `with_events` adds those."""
    last = ids.task_run_id(run.id, MAX_STEPS)
    rows = tx.execute(_STEPS, {"id": run.id, "last": last}).all()
    ended = _attempts(tx, run, [each.id for each in rows if _may_have_ended(each)])
    times = (times_of_row(run, each, ended) for each in rows)
    return RunTimes(
        run.since(run.started_at),
        run.since(run.until) or 0,
        run.status not in FINAL_RUN,
        {each.ordinal: each for each in times},
        {each.ordinal: each.predecessors for each in run.plan.steps},
        has_ending=run.plan.has_ending and run.status in _WITH_ENDING,
    )


COLUMNS = """t.id, t.step_id, t.task_id, t.kind, t.status, t.attempt, t.is_limited, t.map_index, t.map_first,
       t.map_count, t.error_code, t.created_at, t.queued_at, t.started_at, t.finished_at"""
# A run's steps have its lowest ordinals: this bound keeps PostgreSQL from reading its map items.
_STEPS = f"""
SELECT {COLUMNS} FROM task_runs AS t
WHERE t.run_id = :id AND t.id <= :last AND {kind_sql.IS_STEP} ORDER BY t.id
"""

_ATTEMPTS = """
SELECT a.task_run_id, a.number, a.started_at, a.finished_at, a.error_code FROM attempts AS a
WHERE a.run_id = :id AND a.task_run_id = ANY(CAST(:ids AS uuid[]))
ORDER BY a.task_run_id, a.number LIMIT :limit
"""


def _may_have_ended(row: Any) -> bool:
    return row.attempt > 1 or row.error_code is not None


def _attempts(tx: Transaction, run: RunRow, task_runs: Sequence[UUID]) -> Mapping[UUID, list[EndedAttempt]]:
    if not task_runs:
        return {}
    attempts: dict[UUID, list[EndedAttempt]] = {}
    rows = tx.execute(_ATTEMPTS, {"id": run.id, "ids": task_runs, "limit": MOST_ATTEMPTS})
    for row in rows:
        ended = run.since(row.finished_at) or 0
        begun = run.since(row.started_at)
        attempt = EndedAttempt(
            row.number, None if begun is None else min(begun, ended), ended, row.error_code
        )
        attempts.setdefault(row.task_run_id, []).append(attempt)
    return attempts


def times_of_row(
    run: RunRow, row: Any, ended: Mapping[UUID, Sequence[EndedAttempt]] | None = None
) -> TaskRunTimes:
    """The times of a row with COLUMNS; `ended` has its ended attempts."""
    ordinal = ids.ordinal_of(row.id)
    is_waiting = row.kind not in WITH_ITEMS and (row.kind == WAIT or row.task_id in CHILD_TASKS)
    step = run.plan[run.plan.ordinals[row.step_id]].step if is_waiting else None
    wait, waits_for = (None, None) if step is None else waiting_for(step)
    return TaskRunTimes(
        ordinal=ordinal,
        step_id=row.step_id,
        task_id=row.task_id,
        kind=row.kind,
        status=row.status,
        attempt=row.attempt,
        is_limited=row.is_limited,
        created=run.since(row.created_at) or 0,
        queued=run.since(row.queued_at),
        started=run.since(row.started_at),
        finished=run.since(row.finished_at),
        error_code=row.error_code,
        attempts=(ended or {}).get(row.id, ()),
        map_index=row.map_index,
        first_item=row.map_first,
        items=row.map_count,
        wait=wait,
        waits_for=waits_for,
    )


# --- the items that ended last ----------------------------------------------------------------------------

# One pass over the items of a map: no index has them by their end. The end of a run by a failed item cancels
# the others at the same moment: the one that failed is named.
_LAST_ITEMS = f"""
SELECT l.* FROM unnest(CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[])) AS m(first, last)
CROSS JOIN LATERAL (
    SELECT {COLUMNS}, t.map_parent FROM task_runs AS t
    WHERE t.run_id = :id AND t.id BETWEEN m.first AND m.last
    ORDER BY t.finished_at DESC NULLS FIRST, t.status = 'cancelled', t.started_at NULLS LAST, t.id DESC
    LIMIT 1) AS l
"""


def with_last_items(tx: Transaction, run: RunRow, times: RunTimes, ordinals: Iterable[int]) -> RunTimes:
    """The times with the item that ended last, or is open, of each of these steps that is a map."""
    maps = [times.steps[each] for each in ordinals if times.steps[each].items]
    laid_out = [(each.first_item, each.items) for each in maps if each.first_item and each.items]
    if not laid_out:
        return times
    spans = {
        "firsts": [ids.task_run_id(run.id, first) for first, _ in laid_out],
        "lasts": [ids.task_run_id(run.id, first + count - 1) for first, count in laid_out],
    }
    rows = tx.execute(_LAST_ITEMS, {"id": run.id, **spans}).all()
    ended = _attempts(tx, run, [each.id for each in rows if _may_have_ended(each)])
    return replace(times, last_items={each.map_parent: times_of_row(run, each, ended) for each in rows})


# --- events -----------------------------------------------------------------------------------------------

# What each event says that no row says. What started and what completed is in the rows.
_CHANGES: Mapping[str, PhaseKind | None] = {
    "task_runs.queued": PhaseKind.QUEUE,
    "task_runs.ready": PhaseKind.PAUSE,
    "task_runs.skipped": None,
    "task_runs.cancelled": None,
    "task_runs.reopened": PhaseKind.PREDECESSORS,
    "task_run.retrying": PhaseKind.RETRY_DELAY,
    "task_run.failed": None,
    "task_run.timed_out": None,
    "task_run.stepped_back": PhaseKind.SAME_KEY,
    "task_run.postponed": PhaseKind.QUEUE,
    "task_run.mapped": PhaseKind.ITEMS,
    "task_run.reopened": PhaseKind.PREDECESSORS,
}
_OF_RUN = (*(f"run.{status}" for status in FINAL_RUN), "run.paused", "run.resumed", "run.reopened")

# An event of many task runs names the lowest of them first. JSON numbers are compared as such, so that an
# event that is not what it should be is left out and breaks nothing.
_EVENTS = """
WITH head AS MATERIALIZED (
    SELECT e.* FROM events AS e WHERE e.run_id = :id ORDER BY e.seq LIMIT :limit
), tail AS MATERIALIZED (
    SELECT e.* FROM events AS e
    WHERE e.run_id = :id AND e.seq > (SELECT max(h.seq) FROM head AS h) ORDER BY e.seq DESC LIMIT :limit
)
SELECT e.seq, e.at, e.type, e.task_run_id, e.attempt, e.data
FROM (SELECT * FROM head UNION ALL SELECT * FROM tail) AS e
WHERE e.type = ANY(CAST(:types AS text[])) AND CASE
    WHEN e.task_run_id IS NOT NULL
        THEN e.task_run_id BETWEEN :lowest AND :highest OR e.task_run_id = ANY(CAST(:items AS uuid[]))
    WHEN e.data -> 'ordinals' IS NULL THEN true
    ELSE (e.data #> '{ordinals,0,0}' <= to_jsonb(CAST(:last AS integer))
          AND e.data #> '{ordinals,-1,1}' >= to_jsonb(CAST(:first AS integer))) OR EXISTS (
        SELECT 1 FROM unnest(CAST(:places AS integer[])) AS p(place)
        WHERE to_jsonb(p.place) BETWEEN e.data #> '{ordinals,0,0}' AND e.data #> '{ordinals,-1,1}') END
ORDER BY e.seq
"""


def with_events(
    tx: Transaction, run: RunRow, times: RunTimes, only: Sequence[TaskRunTimes] | None = None
) -> RunTimes:
    """The times with what the events say about steps, about the last items, and about the run.

    Args:
        only: the steps, in their order, whose events are wanted; by default those of all.
    """
    steps = [*times.steps.values()] if only is None else only
    first, last = (steps[0].ordinal, steps[-1].ordinal) if steps else (MAX_STEPS, 1)
    places = [each.ordinal for each in times.last_items.values()]
    rows = tx.execute(
        _EVENTS,
        {
            "id": run.id,
            "limit": EVENTS_AT_AN_END,
            "types": [*_CHANGES, *_OF_RUN],
            "first": first,
            "last": last,
            "lowest": ids.task_run_id(run.id, first),
            "highest": ids.task_run_id(run.id, last),
            "items": [ids.task_run_id(run.id, each) for each in places],
            "places": places,
        },
    ).all()
    of_run = [each for each in rows if each.type.startswith("run.")]
    by_ordinal = {each.ordinal: each for each in (*steps, *times.last_items.values())}
    in_order = sorted(by_ordinal)
    changes: dict[int, list[PhaseChange]] = {}
    for row in rows:
        for ordinal, change in _changes(run, row, by_ordinal, in_order):
            changes.setdefault(ordinal, []).append(change)
    pauses = _intervals(run, of_run, {"run.paused"}, {"run.resumed"}, closes=True)
    overs = _intervals(run, of_run, {f"run.{each}" for each in FINAL_RUN}, {"run.reopened"}, closes=False)
    return replace(times, changes=changes, pauses=pauses, overs=overs)


def _changes(
    run: RunRow, row: Any, known: Mapping[int, TaskRunTimes], in_order: Sequence[int]
) -> Iterator[tuple[int, PhaseChange]]:
    """The changes that an event tells of the known task runs; `in_order` has their ordinals."""
    if row.type.startswith("run."):
        return
    data = row.data if isinstance(row.data, dict) else {}
    kind = _CHANGES[row.type]
    if row.type == "task_runs.ready" and data.get("cause") == LIMIT:
        kind = PhaseKind.TASK_LIMIT
    at = run.since(row.at) or 0
    for ordinal in _ordinals(row, data, in_order):
        is_map = row.type == "task_run.reopened" and known[ordinal].kind in WITH_ITEMS
        yield ordinal, PhaseChange(at, PhaseKind.ITEMS if is_map else kind)


def _ordinals(row: Any, data: Mapping[str, Any], known: Sequence[int]) -> Iterator[int]:
    """The known ordinals that an event is about. A range may name a hundred thousand others."""
    ranges = data.get("ordinals")
    if row.task_run_id is not None:
        ranges = [[ids.ordinal_of(row.task_run_id)] * 2]
    for each in ranges if isinstance(ranges, list) else ():
        match each:
            case [int(first), int(last)]:
                yield from known[bisect_left(known, first) : bisect_right(known, last)]
            case _:  # `pipeweave verify` tells of it; here, the rows have to do
                pass


def _intervals(
    run: RunRow, rows: Iterable[Any], opens: set[str], ends: set[str], *, closes: bool
) -> list[Interval]:
    """The time between events of two kinds; `closes`: what is open at the end counts, too."""
    intervals: list[Interval] = []
    begin: int | None = None
    for row in rows:
        at = run.since(row.at) or 0
        if row.type in opens and begin is None:
            begin = at
        elif row.type in ends and begin is not None:
            intervals.append(Interval(begin, at))
            begin = None
    if closes and begin is not None:
        intervals.append(Interval(begin, run.since(run.until) or 0))
    return intervals
