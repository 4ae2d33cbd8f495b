"""The grid of a pipeline: its runs by its steps, a bounded window of both that moves either way.

The cells are read by the ids of their task runs, which follow from the plans of the runs' versions: what a
window costs depends on its size alone. Items of maps are not read; those that failed are counted by their
dead letters. A row may be a class of steps, as in the pattern of the graph; a window of large classes has
fewer runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.pipelines import GridAnswer, GridRun, GridStep
from pipeweave.orchestrator.domain.json_shapes import duration_ms, run_took_ms
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run_kinds_sql import (
    NEWEST_OF_PIPELINE,
    OF_PIPELINE,
    OLDEST_OF_PIPELINE,
    of_whole,
)
from pipeweave.orchestrator.domain.states import FAILED_TASK, FINAL_TASK
from pipeweave.orchestrator.domain.step_classes import worst
from pipeweave.orchestrator.reading import grid_rows
from pipeweave.orchestrator.reading.grid_rows import GridRow
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

MOST_RUNS, MOST_STEPS = 50, 100
# Task runs of the steps of one window: of large classes, fewer runs are shown.
MOST_CELLS = 10_000
# Failed items of the maps of one run that are counted.
MOST_FAILED = 10_000


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a grid that is wanted.

    Args:
        runs: how many, 1 to MOST_RUNS.
        steps: how many rows, 1 to MOST_STEPS.
        before: only runs older than this one.
        after: only runs newer than this one; without both, the newest.
        from_step: the key of the first row; None for the first of all.
        view: `all` or `pattern`; None: what fits the size of the pipeline, as in its graph.
        opened: keys of the classes whose members have rows, too.
    """

    runs: int = 25
    steps: int = 50
    before: UUID | None = None
    after: UUID | None = None
    from_step: str | None = None
    view: str | None = None
    opened: tuple[str, ...] = ()


_SELECTED = f"""
SELECT r.id, r.pipeline_version, r.status, r.error_code, r.created_at, r.started_at, r.finished_at,
    r.over_ms
FROM runs AS r WHERE r.tenant_id = :tenant AND {OF_PIPELINE} AND {{kind}}
"""
_OLDER_ONES = of_whole(f"{_SELECTED} AND r.id < :before ORDER BY {NEWEST_OF_PIPELINE} LIMIT :limit")
_NEWER_ONES = of_whole(f"{_SELECTED} AND r.id > :after ORDER BY {OLDEST_OF_PIPELINE} LIMIT :limit")
_OLDER = f"SELECT r.* FROM ({_OLDER_ONES}) AS r ORDER BY r.id DESC LIMIT :limit"
_NEWER = f"SELECT r.* FROM ({_NEWER_ONES}) AS r ORDER BY r.id LIMIT :limit"
_LAST_ID = UUID(int=(1 << 128) - 1)


def grid(tx: Transaction, tenant: str, pipeline_id: str, window: Window) -> Document:
    """Runs, newest first, and for each step its status, attempt and duration in each of them.

    The steps are those of the newest version in its order, then those that only shown runs have.

    Raises:
        NotFound: the tenant has no such pipeline.
        InvalidInput: no shown version has the first step that is asked for.
    """
    newest = pipelines.get(tx, tenant, pipeline_id)
    runs, has_newer, has_older = _runs(tx, tenant, pipeline_id, window)
    versions = {each.pipeline_version for each in runs}
    plans = {each: pipelines.get(tx, tenant, pipeline_id, each).plan for each in versions}
    view = grid_rows.view_of(newest.plan, window.view)
    rows = grid_rows.rows(newest.plan, plans, view, window.opened)
    begin = grid_rows.begin(rows, window.from_step)
    shown = rows[begin : begin + window.steps]
    fitting = max(1, MOST_CELLS // max(1, sum(len(each.members) for each in shown)))
    if len(runs) > fitting:
        is_forward = window.after is not None and window.before is None
        has_newer, has_older = has_newer or is_forward, has_older or not is_forward
        runs = runs[-fitting:] if is_forward else runs[:fitting]
    cells = _cells(tx, runs, plans, shown)
    failed = _failed_items(tx, runs) if any(each.is_map for each in shown) else {}
    return GridAnswer.of(
        pipeline_id=pipeline_id,
        version=newest.version,
        view=view,
        open=[each.key for each in rows if each.is_open],
        runs=[_run(each) for each in runs],
        steps=[_row(cells, failed, at, each, runs) for at, each in enumerate(shown)],
        step_count=sum(len(each.members) for each in rows if each.class_key is None),
        has_newer=has_newer,
        has_older=has_older,
        previous_steps=rows[max(0, begin - window.steps)].key if begin else None,
        next_steps=rows[begin + window.steps].key if begin + window.steps < len(rows) else None,
    )


def _runs(tx: Transaction, tenant: str, pipeline_id: str, window: Window) -> tuple[Sequence[Any], bool, bool]:
    """The runs, newest first, and whether there are newer ones, and older ones.

    Behind a given run, there is at least that one.
    """
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "limit": window.runs + 1}
    if window.after is not None and window.before is None:
        rows = tx.execute(_NEWER, {**parameters, "after": window.after}).all()
        return rows[: window.runs][::-1], len(rows) > window.runs, True
    before = window.before or _LAST_ID
    rows = tx.execute(_OLDER, {**parameters, "before": before}).all()
    return rows[: window.runs], window.before is not None, len(rows) > window.runs


# --- cells ------------------------------------------------------------------------------------------------

# The members of a class are added up here: a cell of each status is all that is read of them.
_CELLS = """
SELECT c.run_id, c.place, t.status, count(*) AS number, max(t.attempt) AS attempt,
       sum(t.map_count) AS map_count, min(t.error_code) AS error_code, min(t.started_at) AS started_at,
       max(t.finished_at) AS finished_at
FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[]), CAST(:places AS integer[])) AS c(run_id, id, place)
    JOIN task_runs AS t ON t.run_id = c.run_id AND t.id = c.id
WHERE t.run_id >= :oldest AND t.run_id <= :newest
GROUP BY c.run_id, c.place, t.status
"""

# Run and place of the row -> its task runs by status.
Cells = Mapping[tuple[UUID, int], Sequence[Any]]


def _cells(
    tx: Transaction, runs: Sequence[Any], plans: Mapping[int, Plan], shown: Sequence[GridRow]
) -> Cells:
    """The task runs of each row in each run."""
    wanted = [
        (run.id, ids.task_run_id(run.id, ordinal), place)
        for run in runs
        for place, row in enumerate(shown)
        for step in row.members
        if (ordinal := plans[run.pipeline_version].ordinals.get(step)) is not None
    ]
    cells: Mapping[tuple[UUID, int], list[Any]] = defaultdict(list)
    if not wanted:
        return cells
    parameters = {
        "runs": [each for each, _, _ in wanted],
        "ids": [each for _, each, _ in wanted],
        "places": [each for _, _, each in wanted],
        "oldest": runs[-1].id,
        "newest": runs[0].id,
    }
    for row in tx.execute(_CELLS, parameters):
        cells[row.run_id, row.place].append(row)
    return cells


# An item that failed for good has a dead letter until it is retried.
_FAILED_ITEMS = """
SELECT u.id AS run_id, f.step_id, count(*) AS number
FROM unnest(CAST(:runs AS uuid[])) AS u(id)
CROSS JOIN LATERAL (
    SELECT d.step_id, d.task_run_id FROM dead_letters AS d
    WHERE d.run_id = u.id AND d.retried_at IS NULL LIMIT :most) AS f
GROUP BY u.id, f.step_id
"""

# Run and step -> how many items of the map failed.
Failed = Mapping[tuple[UUID, str], int]


def _failed_items(tx: Transaction, runs: Sequence[Any]) -> Failed:
    rows = tx.execute(_FAILED_ITEMS, {"runs": [each.id for each in runs], "most": MOST_FAILED})
    return {(each.run_id, each.step_id): each.number for each in rows}


def _row(cells: Cells, failed: Failed, place: int, row: GridRow, runs: Sequence[Any]) -> Document:
    """One value for each run; null where the run's version has no such step."""
    row_cells = [_cell(cells.get((run.id, place), ()), row, failed, run.id) for run in runs]
    return GridStep.of(
        row,
        id=row.key,
        task_id=row.task,
        step_count=len(row.members),
        class_id=row.class_key,
        **{name: [each and each[name] for each in row_cells] for name in _LISTS},
    )


# The fields that have an entry for each run.
_LISTS = ("statuses", "attempts", "ms", "items", "failed", "error_codes")


def _cell(parts: Sequence[Any], row: GridRow, failed: Failed, run: UUID) -> dict[str, Any] | None:
    """What one row shows of one run, from its task runs by status."""
    if not parts:
        return None
    status = worst(each.status for each in parts)
    is_over = all(each.status in FINAL_TASK for each in parts)
    began = [each.started_at for each in parts if each.started_at is not None]
    ended = [each.finished_at for each in parts if each.finished_at is not None]
    return {
        "statuses": status,
        "attempts": max(each.attempt for each in parts),
        "ms": duration_ms(min(began), max(ended)) if is_over and began and ended else None,
        "items": _sum(each.map_count for each in parts) if row.is_map else None,
        "failed": _failures(parts, row, failed, run),
        "error_codes": next((each.error_code for each in parts if each.status == status), None),
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [int(each) for each in counts if each is not None]
    return sum(known) if known else None


def _failures(parts: Sequence[Any], row: GridRow, failed: Failed, run: UUID) -> int | None:
    """Of maps, the items that failed; None where they failed so long ago that nobody knows how many."""
    steps: int = sum(each.number for each in parts if each.status in FAILED_TASK)
    if not row.is_map:
        return steps
    items = sum(failed.get((run, step), 0) for step in row.members)
    return None if steps and not items else items


def _run(row: Any) -> Document:
    return GridRun.of(row, version=row.pipeline_version, duration_ms=run_took_ms(row))
