"""Reads the items of a map: as a list, as a matrix of statuses and durations, or as a lane of numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.documents.run_times import ErrorCodeItems, ItemsAnswer, Matrix
from pipeweave.orchestrator.domain.states import FAILED_TASK, sql_in
from pipeweave.orchestrator.reading.task_runs import COLUMNS, item_rows
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.orchestrator.timeline import lanes, matrix, reading
from pipeweave.orchestrator.timeline.reading import RunRow
from pipeweave.orchestrator.timeline.spans import TaskRunTimes
from pipeweave.spec import WITH_ITEMS

INDEX, SLOWEST = "index", "slowest"
# Error codes that a matrix tells apart, and ranges of items that it lists for each.
CODES_SHOWN, RANGES_SHOWN = 20, 500
# An event draws its number before its transaction commits: what a number says of an open run may be late.
OPEN_FOR_S = 2.0


@dataclass(frozen=True, slots=True)
class _KeptItems:
    """An answer, and until when it holds while the run's newest event is `seq`; None: for good."""

    seq: int
    until: float | None
    document: Document | None


# Run, ordinal of the map, view, bins -> answer. One of 100,000 items has about 150 KB.
_VIEWS: CacheSpec[tuple[UUID, int, str, int], _KeptItems] = CacheSpec("views of items", 64)


@dataclass(frozen=True, slots=True)
class MapOfRun:
    """A map of a run, laid out or not.

    Args:
        times: its own task run.
        seq: the number of the run's newest event.
        end: now, or the end of the run (microseconds since its creation).
    """

    run: RunRow
    times: TaskRunTimes
    seq: int
    end: int

    def span(self, first: int = 0, last: int | None = None) -> dict[str, UUID] | None:
        """The ids of the items with the indexes `first` to `last`; None without any."""
        low, count = self.times.first_item, self.times.items or 0
        high = count - 1 if last is None else min(last, count - 1)
        if low is None or first > high:
            return None
        return {
            "first": ids.task_run_id(self.run.id, low + first),
            "last": ids.task_run_id(self.run.id, low + high),
        }


_MAP = f"""
SELECT {reading.COLUMNS},
       (SELECT e.seq FROM events AS e WHERE e.run_id = t.run_id ORDER BY e.seq DESC LIMIT 1) AS seq
FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id
"""


def map_of_run(tx: Transaction, tenant: str, id: UUID, step: str) -> MapOfRun:
    """The map of a run that has this step id.

    Raises:
        NotFound: the tenant has no such run, or its pipeline no such step.
        Conflict: the step is no map.
    """
    run = reading.run_row(tx, tenant, id)
    ordinal = run.plan.ordinals.get(step)
    if ordinal is None:
        raise NotFound(
            f"step {step[:200]!r} not found", hint="`pipeweave status RUN` lists the steps", stepId=step[:200]
        )
    row = tx.execute(_MAP, {"run_id": id, "id": ids.task_run_id(id, ordinal)}).one_or_none()
    if row is None:
        raise NotFound(f"the rows of step {step!r} are no longer in the database", stepId=step)
    if row.kind not in WITH_ITEMS:
        raise Conflict(
            f"step {step!r} is no map and has no items", hint="GET /api/task-runs/{id} shows a step"
        )
    return MapOfRun(run, reading.times_of_row(run, row), row.seq or 0, run.since(run.until) or 0)


def items(
    tx: Transaction,
    tenant: str,
    id: UUID,
    step: str,
    page: PageRequest,
    *,
    view: str,
    bins: int,
    **filters: Any,
) -> Document:
    """The items of a map.

    Args:
        view: `list`, `matrix` or `lane`: which of the members with these names is filled.
        bins: numbers of a lane.
        filters: of a list, as `item_list` takes them.

    Raises:
        NotFound, Conflict: as `map_of_run`.
    """
    run_map = map_of_run(tx, tenant, id, step)
    shown: dict[str, Any] = {"items": None, "next_cursor": None, "matrix": None, "lane": None}
    if view == "matrix":
        shown["matrix"] = _kept(tx, run_map, view, 0, lambda: matrix_of(tx, run_map))
    elif view == "lane":
        shown["lane"] = _kept(tx, run_map, view, bins, lambda: lane_of(tx, run_map, bins))
    else:
        listing = item_list(tx, run_map, page, **filters)
        shown |= {"items": listing["items"], "next_cursor": listing["nextCursor"]}
    return ItemsAnswer.of(
        run_map,
        run_id=id,
        step_id=step,
        task_run_id=ids.task_run_id(id, run_map.times.ordinal),
        status=run_map.times.status,
        total=run_map.times.items or 0,
        **shown,
    )


def _kept(
    tx: Transaction, run_map: MapOfRun, view: str, bins: int, make: Callable[[], Document | None]
) -> Document | None:
    """An answer that holds while nothing happens in the run."""
    cache, key = tx.cache(_VIEWS), (run_map.run.id, run_map.times.ordinal, view, bins)
    kept = cache.get(key)
    if kept is not None and kept.seq == run_map.seq and (kept.until is None or time.monotonic() < kept.until):
        return kept.document
    document = make()
    is_over = run_map.run.finished_at is not None
    cache.put(key, _KeptItems(run_map.seq, None if is_over else time.monotonic() + OPEN_FOR_S, document))
    return document


# --- as a matrix ------------------------------------------------------------------------------------------

_LETTER = "CASE t.status {} END".format(
    " ".join(f"WHEN '{status}' THEN '{letter}'" for status, letter in matrix.LETTERS.items())
)
# What took equally long has the same level, by how many took less: the level k begins behind the item before
# which a share k / top of the others stands. So durations are sorted once, for the edges of the levels, and
# each is looked up among those. Items that have not ended have none. Indexes are read in order, and rows that
# are kept stay in it.
_MATRIX = f"""
WITH i AS MATERIALIZED (
    SELECT {_LETTER} AS letter, round(date_part('epoch', t.finished_at - t.started_at) * 1e6) AS took
    FROM task_runs AS t WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last ORDER BY t.run_id, t.id
), ended AS (
    SELECT count(i.took) AS n FROM i
), shape AS (
    SELECT percentile_disc((
            SELECT array_agg((ceil(k * (e.n - 1) / CAST(:top AS float8)) - 0.5) / e.n ORDER BY k)
            FROM ended AS e, generate_series(1, CAST(:top AS integer)) AS k WHERE e.n > 1))
            WITHIN GROUP (ORDER BY i.took) AS edges,
        max(i.took) / 1000 AS slowest_ms,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY i.took) / 1000 AS median_ms
    FROM i
)
SELECT string_agg(i.letter, '') AS letters,
    string_agg(CASE WHEN i.took IS NULL THEN '{matrix.NONE}' ELSE substr(:alphabet, 1 + coalesce(
        width_bucket(i.took - 1, (SELECT s.edges FROM shape AS s)), 0), 1) END, '') AS levels,
    (SELECT s.slowest_ms FROM shape AS s) AS slowest_ms, (SELECT s.median_ms FROM shape AS s) AS median_ms
FROM i
"""
_CODES = f"""
SELECT t.error_code, array_agg(CAST(t.map_index AS integer) ORDER BY t.map_index) AS indexes
FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.status IN {sql_in(FAILED_TASK)}
GROUP BY t.error_code ORDER BY count(*) DESC, t.error_code LIMIT :limit
"""


def matrix_of(tx: Transaction, run_map: MapOfRun) -> Document:
    """The statuses of the items, how long each took among all, and which failed with which error."""
    letters, levels, slowest, median = "", "", None, None
    codes: list[Document] = []
    if (span := run_map.span()) is not None:
        parameters = {"run_id": run_map.run.id, **span}
        more = {"alphabet": matrix.level_letters(), "top": matrix.LEVELS - 1}
        row = tx.execute(_MATRIX, {**parameters, **more}).one()
        letters, levels, slowest, median = row.letters, row.levels, row.slowest_ms, row.median_ms
        # Without a failed item, there is no second pass.
        if any(matrix.LETTERS[each] in letters for each in FAILED_TASK):
            codes = [_code(row) for row in tx.execute(_CODES, {**parameters, "limit": CODES_SHOWN})]
    return Matrix.of(
        statuses=matrix.run_lengths(letters),
        counts={
            status.value: count
            for status, letter in matrix.LETTERS.items()
            if (count := letters.count(letter))
        },
        durations=levels,
        slowest_ms=None if slowest is None else round(float(slowest), 1),
        median_ms=None if median is None else round(float(median), 1),
        error_codes=codes,
    )


def _code(row: Any) -> Document:
    ranges = matrix.ranges(row.indexes, RANGES_SHOWN)
    return ErrorCodeItems.of(code=row.error_code, count=len(row.indexes), ranges=ranges)


# --- as a lane --------------------------------------------------------------------------------------------


def lane_of(tx: Transaction, run_map: MapOfRun, bins: int) -> Document | None:
    """How many items ran at a time; None while the map was not laid out."""
    return lanes.lanes(tx, run_map.run, [run_map.times], bins, run_map.end).get(run_map.times.ordinal)


# --- as a list --------------------------------------------------------------------------------------------

_TOOK = "coalesce(CAST(extract(epoch FROM t.finished_at - t.started_at) * 1000000 AS bigint), -1)"
_ITEMS = f"""
SELECT {COLUMNS}, t.error - 'traceback' AS error, {_TOOK} AS took FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last
  AND (CAST(:status AS text) IS NULL OR t.status = :status)
  AND (CAST(:error_code AS text) IS NULL OR t.error_code = :error_code)"""
_BY_INDEX = f"{_ITEMS} AND t.id > :after ORDER BY t.run_id, t.id LIMIT :limit"
_SLOWEST_FIRST = f"""{_ITEMS} AND (-{_TOOK}, t.id) > (-CAST(:took AS bigint), CAST(:after AS uuid))
ORDER BY -{_TOOK}, t.id LIMIT :limit"""
# Before every key.
_LONGEST, _LOWEST = 1 << 62, UUID(int=0)


def item_list(
    tx: Transaction,
    run_map: MapOfRun,
    page: PageRequest,
    *,
    order: str = INDEX,
    first: int | None = None,
    last: int | None = None,
    status: str | None = None,
    error_code: str | None = None,
) -> Document:
    """The items by their index, or the slowest first; those that have not ended are the last of these.

    Args:
        first: no item before this index.
        last: no item after this index.
        status: only items with this status.
        error_code: only items whose error has this code.

    Raises:
        InvalidInput: the cursor was made for another order.
    """
    span = run_map.span(first or 0, last)
    if span is None:
        return {"items": [], "nextCursor": None}
    parameters = {
        "run_id": run_map.run.id,
        **span,
        "status": status,
        "error_code": error_code,
        "limit": page.limit + 1,
    }
    if order == SLOWEST:
        took, after = page.after("slowest-items", int, UUID) or (_LONGEST, _LOWEST)
        rows = tx.execute(_SLOWEST_FIRST, {**parameters, "took": took, "after": after}).all()
        shown = item_rows(tx, run_map.run.id, rows)
        return page.cut(rows, "slowest-items", lambda row: (row.took, row.id), lambda row: shown[row.id])
    [last] = page.after("items", UUID) or (_LOWEST,)
    rows = tx.execute(_BY_INDEX, {**parameters, "after": last}).all()
    shown = item_rows(tx, run_map.run.id, rows)
    return page.cut(rows, "items", lambda row: (row.id,), lambda row: shown[row.id])
