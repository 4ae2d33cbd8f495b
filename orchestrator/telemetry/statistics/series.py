"""Reads statistics over time: what happened in each step of a window, of one thing or of many.

Each function is one statement, which reads rows of statistics alone: at most some thousands for one thing,
however much history there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations
from pipeweave.orchestrator.telemetry.statistics.tallies import (
    PIPELINE,
    RUN_COUNTS,
    TASK,
    TASK_COUNTS,
    TENANT,
    Tally,
)
from pipeweave.orchestrator.telemetry.statistics.windows import StatsWindow

# Things that one statement is asked about.
MOST_IDS = 200


@dataclass(frozen=True, slots=True)
class Series:
    """What happened in a window.

    Args:
        points: (when a step began, its tally), one for each step.
        sum: of all of them.
    """

    window: StatsWindow
    points: Sequence[tuple[datetime, Tally]]
    sum: Tally


def _select(table: str, counts: Sequence[str]) -> str:
    return f"""
SELECT s.id, s.at, {", ".join(f"s.{each}" for each in counts)}, s.took, s.took_sum, s.took_min, s.took_max,
    s.wait, s.wait_sum, s.wait_min, s.wait_max
FROM unnest(CAST(:ids AS text[])) AS w(id) JOIN {table} AS s
    ON s.tenant_id = :tenant AND s.scope = :scope AND s.id = w.id AND s.grain = :grain
        AND s.at >= :begin AND s.at < :end
"""


_RUNS = _select("run_stats", RUN_COUNTS)
_TASKS = _select("task_stats", (*TASK_COUNTS, "codes"))


def of_runs(tx: Transaction, tenant: str, window: StatsWindow, pipeline_id: str | None = None) -> Series:
    """The runs of a pipeline, or of the tenant: all but those of standalone tasks."""
    scope, id = (TENANT, "") if pipeline_id is None else (PIPELINE, pipeline_id)
    rows = tx.execute(_RUNS, _parameters(tenant, scope, [id], window))
    return _series(rows, RUN_COUNTS, window)


def of_tasks(tx: Transaction, tenant: str, window: StatsWindow, scope: str = TENANT, id: str = "") -> Series:
    """The attempts of a task, of a service's tasks, or of the tenant.

    Args:
        scope: `task`, `service` or `tenant`.
        id: of the task or service.
    """
    return _series(tx.execute(_TASKS, _parameters(tenant, scope, [id], window)), (*TASK_COUNTS,), window)


def by_pipeline(
    tx: Transaction, tenant: str, ids: Collection[str], window: StatsWindow
) -> Mapping[str, Series]:
    """The runs of each of these pipelines, at most MOST_IDS; those without any have empty series."""
    rows = tx.execute(_RUNS, _parameters(tenant, PIPELINE, ids, window))
    return _by_id(rows, ids, RUN_COUNTS, window)


def by_task(tx: Transaction, tenant: str, ids: Collection[str], window: StatsWindow) -> Mapping[str, Series]:
    """The attempts of each of these tasks, at most MOST_IDS; those without any have empty series."""
    rows = tx.execute(_TASKS, _parameters(tenant, TASK, ids, window))
    return _by_id(rows, ids, TASK_COUNTS, window)


def _parameters(tenant: str, scope: str, ids: Collection[str], window: StatsWindow) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "scope": scope,
        "ids": sorted(set(ids))[:MOST_IDS],
        "grain": window.grain.value,
        "begin": window.begin,
        "end": window.end,
    }


def _by_id(
    rows: Iterable[Any], ids: Collection[str], counts: Sequence[str], window: StatsWindow
) -> Mapping[str, Series]:
    rows_by_id: dict[str, list[Any]] = {id: [] for id in ids}
    for row in rows:
        rows_by_id[row.id].append(row)
    return {id: _series(of_id, counts, window) for id, of_id in rows_by_id.items()}


def _series(rows: Iterable[Any], counts: Sequence[str], window: StatsWindow) -> Series:
    points = {start: Tally() for start in window.starts()}
    total = Tally()
    for row in rows:
        tally = _tally(row, counts)
        points[window.start_of(row.at)].add(tally)
        total.add(tally)
    return Series(window, list(points.items()), total)


def _tally(row: Any, counts: Sequence[str]) -> Tally:
    return Tally(
        {name: getattr(row, name) for name in counts},
        Durations.of_row(row, "took"),
        Durations.of_row(row, "wait"),
        getattr(row, "codes", {}),
    )
