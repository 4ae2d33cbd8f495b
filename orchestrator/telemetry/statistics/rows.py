"""What lists of pipelines and tasks show: each function one statement for a page of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipeweave.orchestrator.documents.pipelines import RecentRun
from pipeweave.orchestrator.documents.statistics import PipelineRow, TaskRow
from pipeweave.orchestrator.domain.json_shapes import run_took_ms
from pipeweave.orchestrator.domain.run_kinds_sql import TOP
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.telemetry.statistics import documents, series
from pipeweave.orchestrator.telemetry.statistics.grains import Grain
from pipeweave.orchestrator.telemetry.statistics.series import Series
from pipeweave.orchestrator.telemetry.statistics.tallies import Tally
from pipeweave.orchestrator.telemetry.statistics.windows import StatsWindow

# Runs of a pipeline's strip.
LAST_RUNS = 20
# Pipelines among which those that fail most are found, by id.
MOST_RANKED = 1_000


def pipeline_rows(
    tx: Transaction, tenant: str, ids: Collection[str], chosen: StatsWindow, recent: int = 0
) -> Mapping[str, Document]:
    """By pipeline: the runs of the window, how many ended in each step, and so many of its newest runs."""
    series_by_id = series.by_pipeline(tx, tenant, ids, chosen)
    strips = last_runs(tx, tenant, ids, recent) if recent else {}
    return {
        id: documents.runs(
            each.sum,
            PipelineRow,
            pipeline_id=id,
            recent_runs=strips.get(id, []),
            **_rates(documents.ended_runs, each, tx),
        )
        for id, each in series_by_id.items()
    }


def task_rows(
    tx: Transaction, tenant: str, ids: Collection[str], chosen: StatsWindow
) -> Mapping[str, Document]:
    """By task: the attempts of the window, and how many ended in each step."""
    series_by_id = series.by_task(tx, tenant, ids, chosen)
    return {
        id: documents.attempts(each.sum, TaskRow, task_id=id, **_rates(documents.ended_attempts, each, tx))
        for id, each in series_by_id.items()
    }


def _rates(ended: Callable[[Tally], int], one_series: Series, tx: Transaction) -> dict[str, Any]:
    minutes = (min(tx.now, one_series.window.end) - one_series.window.begin) / timedelta(minutes=1)
    rate = ended(one_series.sum) / minutes if minutes > 0 else 0.0
    return {
        "per_minute": round(rate, 2),
        "per_day": round(rate * 1440, 1),
        "ends": [ended(tally) for _, tally in one_series.points],
    }


# Hours give the order, because they are few; a lookup for each pipeline, because history has many.
_FAILING = f"""
SELECT p.id FROM (
    SELECT p.id FROM pipelines AS p WHERE p.tenant_id = :tenant ORDER BY p.id LIMIT {MOST_RANKED}) AS p
CROSS JOIN LATERAL (
    SELECT sum(s.failed + s.partial) AS number FROM run_stats AS s
    WHERE s.tenant_id = :tenant AND s.scope = 'pipeline' AND s.id = p.id AND s.grain = :grain
        AND s.at >= :begin AND s.at < :end) AS f
WHERE f.number > 0 ORDER BY f.number DESC, p.id LIMIT :most
"""


def failing_pipelines(tx: Transaction, tenant: str, chosen: StatsWindow, most: int) -> Sequence[str]:
    """The pipelines with the most runs that failed or ended partly, in the whole hours of the window; of a
    longer one, in its days. Beyond MOST_RANKED pipelines, the others are left out.
    """
    grain = max((Grain.HOUR, chosen.grain), key=lambda each: each.length)
    parameters = {
        "tenant": tenant,
        "grain": grain.value,
        "begin": grain.begin_of(chosen.begin),
        "end": chosen.end,
        "most": most,
    }
    return list(tx.execute(_FAILING, parameters).scalars())


# The index of a pipeline's runs gives the newest, one pipeline after the other.
_LAST = f"""
SELECT w.id AS pipeline_id, r.* FROM unnest(CAST(:ids AS text[])) AS w(id) CROSS JOIN LATERAL (
    SELECT r.id, r.status, r.created_at, r.started_at, r.finished_at, r.over_ms FROM runs AS r
    WHERE r.tenant_id = :tenant AND r.pipeline_id = w.id AND {TOP} ORDER BY r.id DESC LIMIT :most
) AS r ORDER BY r.id DESC
"""


def last_runs(
    tx: Transaction, tenant: str, ids: Collection[str], most: int = LAST_RUNS
) -> Mapping[str, Sequence[Document]]:
    """By pipeline: its newest runs, the newest first."""
    chosen = sorted(set(ids))[: series.MOST_IDS]
    runs: dict[str, list[Any]] = {id: [] for id in chosen}
    for row in tx.execute(_LAST, {"tenant": tenant, "ids": chosen, "most": most}):
        runs[row.pipeline_id].append(RecentRun.of(row, duration_ms=run_took_ms(row)))
    return runs
