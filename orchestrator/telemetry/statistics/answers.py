"""The answers of the endpoints of statistics, each some statements whose cost does not grow with history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.documents.statistics import (
    PipelineStats,
    RunPoint,
    RunStats,
    StatsByPipeline,
    StatsByQueue,
    StatsByTask,
    TaskColumn,
    TaskColumns,
    TaskPoint,
    TaskStats,
    VersionMark,
)
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.registry.pipelines import CURRENT
from pipeweave.orchestrator.registry.unknown_names import Listed
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.telemetry.statistics import buckets, documents, queue_rows, rows, series
from pipeweave.orchestrator.telemetry.statistics.place import AsOf, as_of
from pipeweave.orchestrator.telemetry.statistics.series import Series
from pipeweave.orchestrator.telemetry.statistics.tallies import SERVICE, TASK, TENANT
from pipeweave.orchestrator.telemetry.statistics.windows import StatsWindow, window

# Versions and tasks that are shown with a pipeline or a task.
MOST_VERSIONS = 100
MOST_TASKS = 50
# Columns of a map of durations by task.
COLUMNS = 31


def runs(tx: Transaction, tenant: str, chosen: StatsWindow, pipeline_id: str | None = None) -> Document:
    """The runs of a pipeline or of the tenant over time.

    Raises:
        NotFound: the tenant never had this pipeline.
    """
    run_series = series.of_runs(tx, tenant, chosen, pipeline_id)
    if pipeline_id is not None:
        _require_known_or_counted(tx, tenant, "pipeline", pipeline_id, run_series)
    return _of_runs(RunStats, run_series, as_of(tx))


def _of_runs(answer: type[RunStats], history: Series, current: AsOf, **more: Any) -> Document:
    points = [documents.runs(tally, RunPoint, at=at) for at, tally in history.points]
    summary = documents.runs(history.sum)
    return documents.window(answer, history.window, current, points=points, summary=summary, **more)


def tasks(
    tx: Transaction, tenant: str, chosen: StatsWindow, *, task_id: str | None, service_id: str | None
) -> Document:
    """Attempts over time; of a task also the versions of its code.

    Args:
        task_id: None: all tasks, or those of the service.
        service_id: not with `task_id`.

    Raises:
        NotFound: the tenant never had this task or service.
    """
    scope, id = _scope(task_id, service_id)
    task_series = series.of_tasks(tx, tenant, chosen, scope, id)
    if task_id is not None:
        _require_known_or_counted(tx, tenant, "task", task_id, task_series)
    elif service_id is not None:
        _require_known_or_counted(tx, tenant, "service", service_id, task_series)
    parameters = {"tenant": tenant, "id": id, **_span(chosen)}
    versions = tx.execute(_CODE_VERSIONS, parameters).all() if task_id is not None else ()
    return documents.window(
        TaskStats,
        task_series.window,
        as_of(tx),
        points=[documents.attempts(tally, TaskPoint, at=at) for at, tally in task_series.points],
        summary=documents.attempts(task_series.sum),
        versions=_versions(versions),
    )


def _scope(task_id: str | None, service_id: str | None) -> tuple[str, str]:
    if task_id is not None:
        return TASK, task_id
    return (TENANT, "") if service_id is None else (SERVICE, service_id)


_CODE_VERSIONS = f"""
SELECT h.code_version AS version, h.recorded_at AS at FROM task_code_history AS h
WHERE h.tenant_id = :tenant AND h.task_id = :id AND h.recorded_at >= :begin AND h.recorded_at < :end
ORDER BY h.code_version DESC LIMIT {MOST_VERSIONS}
"""
_PIPELINE_VERSIONS = f"""
SELECT v.version, v.created_at AS at FROM pipeline_versions AS v
WHERE v.tenant_id = :tenant AND v.pipeline_id = :id AND v.created_at >= :begin AND v.created_at < :end
ORDER BY v.version DESC LIMIT {MOST_VERSIONS}
"""
_TASKS_OF = f"""
SELECT DISTINCT s ->> 'task' AS task_id FROM pipelines AS p
JOIN pipeline_versions AS v
    ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id AND v.version = {CURRENT}
CROSS JOIN LATERAL jsonb_array_elements(v.spec -> 'steps') AS s
WHERE p.tenant_id = :tenant AND p.id = :id AND s ->> 'task' IS NOT NULL ORDER BY task_id LIMIT {MOST_TASKS}
"""


def pipeline(tx: Transaction, tenant: str, pipeline_id: str, chosen: StatsWindow) -> Document:
    """A pipeline's runs over time, its versions, and what the attempts of its newest version's tasks took, in
    up to COLUMNS steps. Attempts of a task in other pipelines are among them.

    Raises:
        NotFound: the tenant never had this pipeline.
    """
    run_series = series.of_runs(tx, tenant, chosen, pipeline_id)
    _require_known_or_counted(tx, tenant, "pipeline", pipeline_id, run_series)
    parameters = {"tenant": tenant, "id": pipeline_id, **_span(chosen)}
    versions = tx.execute(_PIPELINE_VERSIONS, parameters).all()
    ids = list(tx.execute(_TASKS_OF, {"tenant": tenant, "id": pipeline_id}).scalars())
    wide = window(tx.now, chosen.begin, chosen.end, most=COLUMNS)
    by_task = series.by_task(tx, tenant, ids, wide)
    columns = TaskColumns.of(from_=wide.begin, bucket=wide.step, rows=_p95s(by_task))
    return _of_runs(PipelineStats, run_series, as_of(tx), versions=_versions(versions), tasks=columns)


def _p95s(by_task: Mapping[str, Series]) -> list[Document]:
    return [
        TaskColumn.of(
            task_id=id, p95_ms=[documents.durations(tally.took)["p95"] for _, tally in task_series.points]
        )
        for id, task_series in by_task.items()
    ]


def _span(chosen: StatsWindow) -> dict[str, datetime]:
    return {"begin": chosen.begin, "end": chosen.end}


def _versions(version_rows: Any) -> list[Document]:
    return [VersionMark.of(row) for row in reversed(version_rows)]


def _require_known_or_counted(tx: Transaction, tenant: str, kind: Listed, id: str, history: Series) -> None:
    """Raise NotFound for an unknown name, unless something is counted of it: it was removed since."""
    if not any(history.sum.counts.values()):
        unknown_names.require(tx, tenant, kind, id)


def by_pipeline(
    tx: Transaction,
    tenant: str,
    chosen: StatsWindow,
    ids: Sequence[str],
    *,
    most: int,
    recent: int,
) -> Document:
    """Of each of these pipelines a row: `rows.pipeline_rows`.

    Args:
        ids: in this order; without any, those that fail most.
        most: so many, if no ids are given.
        recent: newest runs of each.
    """
    wanted = list(dict.fromkeys(ids)) or rows.failing_pipelines(tx, tenant, chosen, most)
    by_id = rows.pipeline_rows(tx, tenant, wanted, chosen, recent) if wanted else {}
    shown = [by_id[id] for id in wanted]
    return documents.window(StatsByPipeline, chosen, as_of(tx), pipelines=shown)


def by_task(tx: Transaction, tenant: str, chosen: StatsWindow, ids: Sequence[str]) -> Document:
    """Of each of these tasks a row, in the order of the ids: `rows.task_rows`."""
    by_id = rows.task_rows(tx, tenant, ids, chosen)
    shown = [by_id[id] for id in dict.fromkeys(ids)]
    return documents.window(StatsByTask, chosen, as_of(tx), tasks=shown)


def by_queue(tx: Transaction, tenant: str, chosen: StatsWindow, queues: Sequence[str]) -> Document:
    """Of each of these queues a row, in the order of the names: `queue_rows.queue_rows`."""
    by_name = queue_rows.queue_rows(tx, tenant, queues, chosen)
    shown = [by_name[name] for name in dict.fromkeys(queues)]
    return documents.window(StatsByQueue, chosen, as_of(tx), queues=shown)


def system(tx: Transaction, tenant: str, chosen: StatsWindow) -> Document:
    """The tenant's task runs and runs: `buckets.buckets`."""
    tasks, runs = series.of_tasks(tx, tenant, chosen), series.of_runs(tx, tenant, chosen)
    return buckets.buckets(tasks, runs, as_of(tx))


def of_tasks(tx: Transaction, tenant: str, chosen: StatsWindow, kind: Listed, id: str) -> Document:
    """The task runs of a task or a service: `buckets.buckets`.

    Args:
        kind: `task` or `service`.

    Raises:
        NotFound: the tenant never had it.
    """
    task_series = series.of_tasks(tx, tenant, chosen, kind, id)
    _require_known_or_counted(tx, tenant, kind, id, task_series)
    return buckets.buckets(task_series, None, as_of(tx))


def of_pipeline(tx: Transaction, tenant: str, chosen: StatsWindow, pipeline_id: str) -> Document:
    """The runs of a pipeline: `buckets.buckets`.

    Raises:
        NotFound: the tenant never had it.
    """
    run_series = series.of_runs(tx, tenant, chosen, pipeline_id)
    _require_known_or_counted(tx, tenant, "pipeline", pipeline_id, run_series)
    return buckets.buckets(None, run_series, as_of(tx))
