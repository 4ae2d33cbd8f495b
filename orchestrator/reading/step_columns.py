"""Reads how far the steps of a run are, as short columns: once all of them, then only what has changed.

What has changed since a cursor is what events tell, so that costs as much as has happened, whatever the size
of the run. The items of maps have no such columns: they are counted, at most for a twentieth of the time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.documents.run_state import ItemCounts, StepStates, StepWait
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.states import FINAL_RUN, STATUS_LETTERS, TaskStatus
from pipeweave.orchestrator.domain.waits import NEVER, TIMER
from pipeweave.orchestrator.reading import enqueued_runs
from pipeweave.orchestrator.reading.run_events import settled_before
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, cursor_of, read_cursor
from pipeweave.spec import WITH_ITEMS, LoopStep

# After more events than this, all steps are read anew.
MOST_EVENTS = 10_000
# Counting the items of a run takes at most a twentieth of the time, and happens at most once a second.
REST = 20
LEAST_REST_S = 1.0

_RUN = """
SELECT r.status, r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, r.created_at, r.started_at,
       r.finished_at
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant
"""

# Every event with a lower number than this one can be seen by now.
_NEWEST = """
SELECT e.seq FROM events AS e
WHERE e.run_id = :id AND (e.written_at IS NULL OR e.written_at < CAST(:before AS timestamptz))
ORDER BY e.seq DESC LIMIT 1
"""

_CHANGED = f"""
SELECT e.task_run_id, e.data -> 'ordinals' AS ordinals FROM events AS e
WHERE e.run_id = :id AND e.seq > :after ORDER BY e.seq LIMIT {MOST_EVENTS + 1}
"""

_COLUMNS = """
SELECT t.id, t.kind, t.status, t.attempt, t.queued_at, t.started_at, t.finished_at, t.map_count,
       t.code_version FROM task_runs AS t
"""
_ALL = f"{_COLUMNS} WHERE t.run_id = :id AND t.id <= :last AND {kind_sql.IS_STEP} ORDER BY t.id"
_SOME = f"{_COLUMNS} WHERE t.run_id = :id AND t.id = ANY(:ids) AND {kind_sql.IS_STEP} ORDER BY t.id"

_ITEMS = f"""
SELECT t.map_parent, t.status, count(*) AS number FROM task_runs AS t
WHERE t.run_id = :id AND {kind_sql.IS_ITEM} GROUP BY t.map_parent, t.status
"""
_MAPS = """
SELECT t.id, t.map_count FROM task_runs AS t
WHERE t.run_id = :id AND t.id = ANY(:ids) AND t.map_count IS NOT NULL ORDER BY t.id
"""


@dataclass(frozen=True, slots=True)
class CountedItems:
    """The items of a run's maps, counted.

    Args:
        seq: the newest event that is in the counts.
        cost_s: how long it took to count.
        at: when, by the monotonic clock.
        items: ordinal of a map -> {total, statuses}.
    """

    seq: int
    cost_s: float
    at: float
    items: Mapping[str, Document]

    @property
    def rests(self) -> bool:
        """Whether it is too early to count again."""
        return time.monotonic() - self.at < max(LEAST_REST_S, REST * self.cost_s)


COUNTED = CacheSpec[UUID, CountedItems]("items of maps", 256)


def step_states(tx: Transaction, tenant: str, id: UUID, after: str | None = None) -> Document:
    """The states of a run's steps, as columns.

    Args:
        after: the cursor of an earlier answer: only what has changed since. None: all steps.

    Raises:
        NotFound: the tenant has no such run.
        InvalidInput: `after` is no cursor of these answers.
    """
    seen = None if after is None else _place(after)
    run: Any = tx.execute(_RUN, {"id": id, "tenant": tenant}).one_or_none()
    if run is None:
        raise enqueued_runs.missing(tx, tenant, id)
    steps, maps, loops = _steps_of(tx, tenant, run)
    # Before the rows are read: they are at least as new.
    newest = _newest(tx, id)
    counted = _counted(tx, id, newest, maps, is_over=run.status in FINAL_RUN) if maps else None
    changed = None if seen is None else _changed(tx, id, seen[0], steps)
    if changed is None:
        rows = tx.execute(_ALL, {"id": id, "last": ids.task_run_id(id, steps)}).all()
    else:
        # The next round of a loop is no event of its run.
        wanted = [ids.task_run_id(id, each) for each in sorted({*changed, *loops})]
        rows = tx.execute(_SOME, {"id": id, "ids": wanted}).all() if wanted else []
    is_news = counted is not None and (changed is None or seen is None or counted.seq > seen[1])
    return StepStates.of(
        run,
        id=id,
        cursor=cursor_of("steps", newest, counted.seq if counted else 0),
        is_whole=changed is None,
        **_columns(rows, run.started_at or run.created_at),
        items=dict(counted.items) if counted is not None and is_news else {},
        waits=_waits(tx, id, [each.id for each in rows if _may_wait(each)], loops),
    )


def _may_wait(row: Any) -> bool:
    return row.status == TaskStatus.WAITING and row.kind not in WITH_ITEMS


_WAITS = """
SELECT w.task_run_id, w.kind, w.timeout_at, w.due_at, CAST(w.data ->> 'round' AS integer) AS round,
    w.data ->> 'rule' AS rule
FROM waits AS w
WHERE w.run_id = :id AND w.task_run_id = ANY(:ids) ORDER BY w.task_run_id
"""


def _waits(
    tx: Transaction, id: UUID, waiting: Sequence[UUID], loops: Mapping[int, LoopStep]
) -> dict[str, Document]:
    """What these steps wait for, by their ordinals."""
    if not waiting:
        return {}
    shown: dict[str, Document] = {}
    for row in tx.execute(_WAITS, {"id": id, "ids": list(waiting)}):
        until = row.due_at if row.kind == TIMER else row.timeout_at
        ordinal = ids.ordinal_of(row.task_run_id)
        text = None if ordinal not in loops else _round(loops[ordinal], row.round + 1)
        shown[str(ordinal)] = StepWait.of(
            kind=row.kind,
            until=None if until >= NEVER else until,
            text=text if row.rule is None else _HANDLES_ERROR,
        )
    return shown


_HANDLES_ERROR = "handles its error"


def _round(loop: LoopStep, number: int) -> str:
    most = "of" if loop.until is None else "of at most"
    return f"round {number:,} {most} {loop.max_rounds:,}"


def _place(after: str) -> tuple[int, int]:
    try:
        seq, counted = read_cursor(after, "steps", int, int)
    except ValueError as error:
        message = "is not a cursor of this run's steps"
        raise InvalidInput(
            f"after {message}",
            errors=[FieldError("after", message, "invalid_cursor")],
            hint="pass the cursor of an earlier answer, or nothing",
        ) from error
    return seq, counted


def _steps_of(tx: Transaction, tenant: str, run: Any) -> tuple[int, tuple[int, ...], Mapping[int, LoopStep]]:
    """How many steps the run has, the ordinals of its maps, and those of its loops until it has ended. A
    standalone task is one step.
    """
    if run.pipeline_id is None:
        return 1, (), {}
    plan = pipelines.of_run(tx, run).plan
    maps = tuple(each.ordinal for each in plan.steps if each.step.has_items)
    if run.status in FINAL_RUN:
        return len(plan.steps), maps, {}
    decided = ((each.ordinal, each.step.decides) for each in plan.steps)
    loops = {ordinal: each for ordinal, each in decided if isinstance(each, LoopStep)}
    return len(plan.steps), maps, loops


def _newest(tx: Transaction, id: UUID) -> int:
    before = settled_before(tx)
    return tx.execute(_NEWEST, {"id": id, "before": before}).scalar_one_or_none() or 0


def _changed(tx: Transaction, id: UUID, after: int, steps: int) -> Sequence[int] | None:
    """The ordinals of the steps that events after this one tell of; None: of too many events to say."""
    rows = tx.execute(_CHANGED, {"id": id, "after": after}).all()
    if len(rows) > MOST_EVENTS:
        return None
    ordinals = {ids.ordinal_of(row.task_run_id) for row in rows if row.task_run_id is not None}
    for row in rows:
        # Ranges, of steps and of items, whose ordinals are higher.
        for first, *last in row.ordinals or ():
            ordinals |= set(range(first, min(last[0] if last else first, steps) + 1))
    return sorted(each for each in ordinals if 0 < each <= steps)


def _counted(tx: Transaction, id: UUID, newest: int, maps: Sequence[int], *, is_over: bool) -> CountedItems:
    kept = tx.cache(COUNTED).get(id)
    # What a run that is over has come to is counted in any case: nobody asks again.
    if kept is not None and (kept.seq == newest or (kept.rests and not is_over)):
        return kept
    began = time.monotonic()
    statuses: dict[int, dict[str, int]] = defaultdict(dict)
    for row in tx.execute(_ITEMS, {"id": id}):
        statuses[row.map_parent][STATUS_LETTERS[row.status]] = row.number
    wanted = [ids.task_run_id(id, each) for each in maps]
    items = {
        str(ids.ordinal_of(row.id)): ItemCounts.of(
            total=row.map_count, statuses=statuses.get(ids.ordinal_of(row.id), {})
        )
        for row in tx.execute(_MAPS, {"id": id, "ids": wanted})
    }
    now = time.monotonic()
    counted = CountedItems(newest, now - began, now, items)
    tx.cache(COUNTED).put(id, counted)
    return counted


def _columns(rows: Sequence[Any], start: datetime) -> dict[str, Any]:
    """The steps as columns. Times are milliseconds from the start of the run."""

    def since(name: str) -> list[int | None]:
        times = (getattr(row, name) for row in rows)
        return [None if at is None else round((at - start).total_seconds() * 1_000) for at in times]

    return {
        "ordinals": [ids.ordinal_of(row.id) for row in rows],
        "statuses": "".join(STATUS_LETTERS[row.status] for row in rows),
        "attempts": [row.attempt for row in rows],
        "queued_ms": since("queued_at"),
        "started_ms": since("started_at"),
        "finished_ms": since("finished_at"),
        "code_versions": [row.code_version for row in rows],
    }
