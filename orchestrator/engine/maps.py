"""Lays out maps, one task run for each item of a list that is known only at run time, and finds their end.

The map's own task run waits while its items run. It is the join of its items, and its output is the list of
their outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import InvalidInput, MapSourceInvalid
from pipeweave.json_values import json_type
from pipeweave.orchestrator.domain.events import LIMIT, PAUSE, Event
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.plan import MAP_ITEMS_FAILED, WIDE
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import OPEN_RUN, TaskStatus, sql_in
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine import referred_values, waiting
from pipeweave.orchestrator.engine.referred_values import NOTHING_LOADED, Loaded
from pipeweave.orchestrator.state import completing, pause_sql, rows
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append
from pipeweave.orchestrator.store.values import canonical
from pipeweave.size_limits import MAX_ITEM_BYTES, MAX_MAP_ITEMS, MAX_TASK_RUNS_PER_RUN
from pipeweave.spec import StepSpec, check_children, rules

# Item counts by run and ordinal of the map; each completion of an item needs the count of its map. A count
# never changes once the map is laid out; an entry takes a few hundred bytes.
COUNTS = CacheSpec[tuple[UUID, int], int]("item counts of maps", 1_000)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a map that was laid out, for whom none is told apart from the others.

    Args:
        first: the first of them; the others differ from it by their ordinals, indexes and items.
        count: how many they are; their ordinals follow each other.
    """

    first: TaskRun
    count: int


@dataclass(frozen=True, slots=True)
class MapEnding:
    """The end of a map whose items are all final; `failure` is None when the map completes."""

    count: int
    failure: Failure | None


def lay_out(
    tx: Transaction, run: RunHeader, ordinal: int, loaded: Loaded = NOTHING_LOADED
) -> Items | Literal[0] | None:
    """Write a task run for each item. None when the run is no longer open; 0 when there is no item.

    Args:
        loaded: values that were loaded from storage before the transaction.

    Raises:
        NotLoaded: the value to map over is in storage, and not loaded.
        InvalidReference, MapSourceInvalid, NotFound, CorruptValue: the value to map over is missing, no list,
            or beyond the documented caps. Nothing was written.
        TooManyChildren: each item would be a run of its own, and they are too many. Nothing was written.
    """
    source = _source(referred_values.read(tx, run, ordinal, loaded), run.plan[ordinal].step)
    if not source:
        return 0
    array, count = _as_array(source), len(source)
    first = _reserve(tx, run.id, count)
    if first is None or completing.lay_out(tx, run.id, ordinal, first=first, count=count) is None:
        return None
    tx.cache_after_commit(COUNTS, (run.id, ordinal), count)
    return Items(_insert(tx, run, ordinal, (first, first + count - 1), array), count)


def _source(source: Any, step: StepSpec) -> list[Any]:
    # The output of a step that was skipped, or that has none: there is nothing to run over.
    if source is None:
        return []
    if not isinstance(source, list):
        what = json_type(source)
        raise MapSourceInvalid(f"a map needs a list, not {what}", hint="let the step before it return a list")
    if step.decides is not None:
        check_children(len(source))
    if len(source) > MAX_MAP_ITEMS:
        raise MapSourceInvalid(
            f"the list has {len(source):,} items; a map takes at most {MAX_MAP_ITEMS:,}",
            hint="map over batches: a list of lists",
        )
    for index, each in enumerate(source):
        size = 0 if isinstance(each, int | float) else len(canonical(each))
        if size > MAX_ITEM_BYTES:
            raise MapSourceInvalid(
                f"item {index} has {size:,} bytes; an item may have at most {MAX_ITEM_BYTES:,}",
                hint="map over keys or paths, and let the task load what they name",
            )
    return source


_RESERVE = f"""
UPDATE runs SET task_run_count = task_run_count + :count
WHERE id = :id AND status IN {sql_in(OPEN_RUN)}
RETURNING task_run_count - :count + 1
"""


def _reserve(tx: Transaction, run_id: UUID, count: int) -> int | None:
    """Reserve `count` ordinals and return the first one. Locks the run's row, so that a cancel sees the items
    or prevents them.
    """
    first: int | None = tx.execute(_RESERVE, {"id": run_id, "count": count}).scalar_one_or_none()
    if first is not None and first + count - 1 > MAX_TASK_RUNS_PER_RUN:
        tx.execute(_RESERVE, {"id": run_id, "count": -count})
        raise MapSourceInvalid(f"the run would have more than {MAX_TASK_RUNS_PER_RUN:,} task runs")
    return first


# Whether the items are held is decided once, by the statement that writes them. It makes their ids, too: the
# run's, with the ordinal of the item in the last 24 bits.
_INSERT = f"""
WITH parent AS MATERIALIZED (
    SELECT t.*, {pause_sql.HELD} AS is_held FROM task_runs AS t
    WHERE t.run_id = :run_id AND t.id = :parent_id
), items AS (
    INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, map_index, map_parent, status,
        max_attempts, priority, queue, is_limited, code_version, code_hash, timeout_ms, item, queue_name,
        requires, created_at, queued_at)
    SELECT p.run_id, CAST(left(CAST(p.run_id AS text), 30)
            || lpad(to_hex(CAST(:first AS integer) + CAST(i.place AS integer) - 1), 6, '0') AS uuid),
        p.tenant_id, p.step_id, p.task_id, 'item', i.place - 1, :parent,
        CASE WHEN CAST(:of_children AS boolean) THEN 'pending' WHEN p.is_held THEN 'ready' ELSE 'queued' END,
        p.max_attempts, p.priority, p.queue, p.is_limited, p.code_version, p.code_hash, p.timeout_ms,
        CAST(CAST(i.item AS text) AS jsonb), p.queue_name, p.requires, :now,
        CASE WHEN NOT CAST(:of_children AS boolean) THEN :now END
    FROM parent AS p,
        json_array_elements(CAST(:items AS json)) WITH ORDINALITY AS i(item, place)
)
SELECT p.task_id, p.step_id, p.priority, p.queue, p.is_limited, p.is_held, p.code_version, p.code_hash
FROM parent AS p
"""


def _insert(tx: Transaction, run: RunHeader, ordinal: int, span: tuple[int, int], array: str) -> TaskRun:
    """Write the items, whose ordinals are from the first to the last of `span`; returns the first of them."""
    parent = {"run_id": run.id, "parent_id": ids.task_run_id(run.id, ordinal), "parent": ordinal}
    of_children = run.plan[ordinal].step.decides is not None
    values = {"first": span[0], "items": array, "of_children": of_children, "now": tx.now}
    row = tx.execute(_INSERT, values | parent).one()
    status = TaskStatus.READY if row.is_held else TaskStatus.QUEUED
    if of_children:
        status = TaskStatus.PENDING
    else:
        _tell(tx, run, row, span, status)
    return TaskRun(
        id=ids.task_run_id(run.id, span[0]),
        run_id=run.id,
        step_id=row.step_id,
        task_id=row.task_id,
        kind="item",
        status=status,
        attempt=1,
        map_index=0,
        map_parent=ordinal,
        item=None,
        priority=row.priority,
        queue=row.queue,
        is_limited=row.is_limited,
        code_version=row.code_version,
        code_hash=row.code_hash,
    )


def _as_array(source: list[Any]) -> str:
    try:
        return canonical(source).decode()
    except InvalidInput:
        # Each item is as deep as it may be, and the list around it is one level more.
        return f"[{','.join(canonical(each).decode() for each in source)}]"


def _tell(tx: Transaction, run: RunHeader, row: Any, span: tuple[int, int], status: TaskStatus) -> None:
    data: dict[str, Any] = {"ordinals": [list(span)]}
    if row.is_held:
        data["cause"] = LIMIT if row.is_limited else PAUSE
    append(tx, [Event(run.id, f"task_runs.{status.value}", data=data)])


# --- maps of pipelines ------------------------------------------------------------------------------------

# How many child runs of a map are open at once, if it does not say so.
MAX_PARALLEL = 100

# It reads as many rows as may be open at once, however many items the map has.
_NEXT = f"""
SELECT {rows.COLUMNS} FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :after AND :last AND t.status = 'pending' AND t.due_at IS NULL
ORDER BY t.id LIMIT greatest(0, :most - (SELECT count(*) FROM waits AS w
    WHERE w.run_id = :run_id AND w.task_run_id BETWEEN :first AND :last))
"""


def begin_next(tx: Transaction, run: RunHeader, ordinal: int, after: int = 0) -> None:
    """Let the next items of a map of pipelines wait for their child runs, as far as it may have more of them
    at once. The caller has locked the map's row, or has just laid it out.

    Args:
        after: the ordinal of an item that has ended: those before it began before it. 0 to look at all.
    """
    spec = run.plan[ordinal].step.map
    most = MAX_PARALLEL if spec is None or spec.max_parallel is None else spec.max_parallel
    span = _span(run.id, _parent(tx, run.id, ordinal))
    first = ids.task_run_id(run.id, after) if after else span["first"]
    items = rows.read(tx.execute(_NEXT, {**span, "after": first, "most": most}))
    waiting.begin_items(tx, run, items)


# --- the end of a map -------------------------------------------------------------------------------------

_PARENT = f"""
SELECT {rows.COLUMNS}, t.map_first, t.map_count, t.error_code FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = :id
"""


def _parent(tx: Transaction, run_id: UUID, ordinal: int, lock: str = "") -> Any:
    return tx.execute(
        _PARENT + lock, {"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)}
    ).one_or_none()


def is_wide(tx: Transaction, run_id: UUID, ordinal: int) -> bool:
    """Whether a map has a chord."""
    count = tx.cache(COUNTS).get((run_id, ordinal))
    if count is None:
        count = int(_parent(tx, run_id, ordinal).map_count or 0)
        tx.cache_after_commit(COUNTS, (run_id, ordinal), count)
    return count >= WIDE


def lock(tx: Transaction, run_id: UUID, ordinal: int) -> TaskStatus | None:
    """Lock a map's own task run and return its status; None when there is no such row."""
    row = _parent(tx, run_id, ordinal, " FOR UPDATE")
    tx.catch_up()
    return None if row is None else TaskStatus(row.status)


def as_task_run(tx: Transaction, run_id: UUID, ordinal: int) -> TaskRun:
    """A map's own task run."""
    row = _parent(tx, run_id, ordinal)
    return rows.of_row(row)


# Backwards: the last items end last, so an open item is found at once.
_OPEN = """
SELECT 1 FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL
ORDER BY t.id DESC LIMIT 1
"""
_FAILED = """
SELECT count(*) AS failed, min(t.map_index) AS index FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.status <> 'completed'
"""


def _over(tx: Transaction, run_id: UUID, parent: Any) -> bool:
    return tx.execute(_OPEN, _span(run_id, parent)).first() is None


def _span(run_id: UUID, parent: Any) -> dict[str, Any]:
    first, last = parent.map_first, parent.map_first + parent.map_count - 1
    return {"run_id": run_id, "first": ids.task_run_id(run_id, first), "last": ids.task_run_id(run_id, last)}


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A map that was laid out: the ordinal of its first item, and how many it has."""

    run_id: UUID
    first: int
    count: int


_WITH_OPEN_ITEM = """
SELECT m.number FROM unnest(CAST(:runs AS uuid[]), CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[]))
        WITH ORDINALITY AS m(run_id, first, last, number)
    CROSS JOIN LATERAL (
        SELECT 1 FROM task_runs AS t
        WHERE t.run_id = m.run_id AND t.id BETWEEN m.first AND m.last AND t.finished_at IS NULL
        ORDER BY t.id DESC LIMIT 1) AS o
"""


def over(tx: Transaction, laid_out: Sequence[LaidOut]) -> set[LaidOut]:
    """Those of several maps of which every item is final."""
    if not laid_out:
        return set()
    parameters = {
        "runs": [each.run_id for each in laid_out],
        "firsts": [ids.task_run_id(each.run_id, each.first) for each in laid_out],
        "lasts": [ids.task_run_id(each.run_id, each.first + each.count - 1) for each in laid_out],
    }
    still_open = {number - 1 for number in tx.execute(_WITH_OPEN_ITEM, parameters).scalars()}
    return {each for number, each in enumerate(laid_out) if number not in still_open}


def ending(tx: Transaction, run: RunHeader, ordinal: int) -> MapEnding | None:
    """The end of a map whose row the caller has locked; None while an item is open, or the error of the map
    is being taken care of.
    """
    parent = _parent(tx, run.id, ordinal)
    if parent.error_code is not None or not _over(tx, run.id, parent):
        return None
    count = parent.map_count
    row = tx.execute(_FAILED, _span(run.id, parent)).one()
    if rules.map_completes(run.failure_mode, run.plan[ordinal].step.item_failure, row.failed, count):
        return MapEnding(count, None)
    message = f"{row.failed:,} of {count:,} items failed, the first at index {row.index}"
    details = {"failed": row.failed, "items": count, "firstFailedIndex": row.index}
    return MapEnding(
        count, Failure(MAP_ITEMS_FAILED, message, "MapItemsFailed", False, None, details, is_dead=False)
    )
