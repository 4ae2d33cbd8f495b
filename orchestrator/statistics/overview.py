"""What the overview and lists of pipelines and tasks show: each function one statement for a page of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipeweave.orchestrator.domain.json_shapes import duration_ms, iso, run_id
from pipeweave.orchestrator.statistics import documents, series
from pipeweave.orchestrator.statistics.series import Series
from pipeweave.orchestrator.statistics.windows import StatsWindow, window
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# Points of the sparklines of a list.
POINTS = 24
# Runs of a pipeline's strip.
LAST_RUNS = 20
_HOUR = timedelta(hours=1)


def overview(tx: Transaction, tenant: str, last: timedelta = 6 * _HOUR) -> tuple[Series, Document]:
    """The tenant's runs over the last hours, and what they come to.

    Returns:
        The runs in steps, and {runsPerHour, errorRate, meanMs, p95Ms, ended}. The rate is of the runs that
        completed, failed or ended partly.
    """
    chosen = window(tx.now, None, None, last=last)
    found = series.of_runs(tx, tenant, chosen)
    shown = documents.runs(found.sum)
    hours = (min(tx.now, chosen.end) - chosen.begin) / _HOUR
    success = shown["successRate"]
    return found, {
        "runsPerHour": round(shown["ended"] / hours, 1),
        "errorRate": None if success is None else round(1 - success, 4),
        "meanMs": shown["durationMs"]["mean"],
        "p95Ms": shown["durationMs"]["p95"],
        "ended": shown["ended"],
    }


def pipeline_rows(
    tx: Transaction, tenant: str, ids: Collection[str], last: timedelta = 24 * _HOUR
) -> Mapping[str, Document]:
    """By pipeline: `documents.runs` of the window, `perDay`, and `ends`, how many ended in each step."""
    chosen = window(tx.now, None, None, last=last, most=POINTS + 1)
    found = series.by_pipeline(tx, tenant, ids, chosen)
    return {id: _with_rate(documents.runs(each.sum), "ended", each, tx) for id, each in found.items()}


def task_rows(
    tx: Transaction, tenant: str, ids: Collection[str], last: timedelta = 24 * _HOUR
) -> Mapping[str, Document]:
    """By task: `documents.attempts` of the window, `perMinute`, and `ends`, how many ended in each step."""
    chosen = window(tx.now, None, None, last=last, most=POINTS + 1)
    found = series.by_task(tx, tenant, ids, chosen)
    return {id: _with_rate(documents.attempts(each.sum), "attempts", each, tx) for id, each in found.items()}


def _with_rate(shown: Document, name: str, found: Series, tx: Transaction) -> Document:
    show = documents.runs if name == "ended" else documents.attempts
    minutes = _minutes(found.window, tx)
    return {
        **shown,
        "perMinute": round(shown[name] / minutes, 2),
        "perDay": round(shown[name] / minutes * 1440, 1),
        "ends": [show(tally)[name] for _, tally in found.points],
    }


def _minutes(chosen: StatsWindow, tx: Transaction) -> float:
    return (min(tx.now, chosen.end) - chosen.begin) / timedelta(minutes=1)


# The index of a pipeline's runs gives the newest, one pipeline after the other.
_LAST = """
SELECT w.id AS pipeline_id, r.* FROM unnest(CAST(:ids AS text[])) AS w(id) CROSS JOIN LATERAL (
    SELECT r.id, r.status, r.started_at, r.finished_at FROM runs AS r
    WHERE r.tenant_id = :tenant AND r.pipeline_id = w.id ORDER BY r.id DESC LIMIT :most
) AS r ORDER BY r.id
"""


def last_runs(
    tx: Transaction, tenant: str, ids: Collection[str], most: int = LAST_RUNS
) -> Mapping[str, Sequence[Document]]:
    """By pipeline: its newest runs, the oldest of them first: {id, status, startedAt, durationMs}."""
    chosen = sorted(set(ids))[: series.MOST_IDS]
    found: dict[str, list[Any]] = {id: [] for id in chosen}
    for row in tx.execute(_LAST, {"tenant": tenant, "ids": chosen, "most": most}):
        found[row.pipeline_id].append(
            {
                "id": run_id(row.id),
                "status": row.status,
                "startedAt": iso(row.started_at),
                "durationMs": duration_ms(row.started_at, row.finished_at),
            }
        )
    return found
