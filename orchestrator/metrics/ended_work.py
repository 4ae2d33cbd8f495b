"""Reads what has ended since the statistics began: counters that never go back, and how long things took."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pipeweave.orchestrator.metrics.catalogue import (
    ATTEMPT_FAILURES,
    CACHE_HITS,
    DEAD_LETTERS_ADDED,
    DISPATCH_FAILURES,
    DURATION_BOUNDS,
    DURATION_EDGES,
    FLOW_DURATION,
    FLOW_EXECUTIONS,
    FLOW_STEPS,
    RETRIES,
    RUN_DURATION,
    RUNS,
    RUNS_CREATED,
    STATISTICS_LAG,
    STEP_DURATION,
    STEP_EXECUTIONS,
    STEP_WAIT,
    WAIT_WAKEUP,
)
from pipeweave.orchestrator.metrics.samples import MOST_NAMES, Histogram, Samples
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.telemetry import statistics
from pipeweave.orchestrator.telemetry.statistics import RunTotals, TaskTotals
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations

# Pipelines and tasks of all tenants together.
MOST = 10_000
DISPATCH_FAILED = "DISPATCH_FAILED"
# The outcomes of attempts by the names of statuses.
_STATUS = {"timed_out": "timeout"}


def read(tx: Transaction) -> Samples:
    """The counters."""
    made = Samples()
    made.add(STATISTICS_LAG, max(0.0, (tx.now - statistics.as_of(tx).at).total_seconds()))
    totals = statistics.totals(tx, MOST)
    for runs in totals.runs:
        _add_runs(made, runs)
    for tasks in totals.tasks:
        _add_tasks(made, tasks)
    for waits in totals.waits:
        made.observe(WAIT_WAKEUP, of_durations(waits.late), waits.tenant, waits.kind)
    made.first.update(_first_pipelines(tx, totals.runs))
    made.first.update(_first_tasks(tx, totals.tasks))
    return made


def _add_runs(made: Samples, runs: RunTotals) -> None:
    made.add(RUNS_CREATED, runs.created, runs.tenant, runs.pipeline_id)
    for status, number in runs.ended.items():
        made.add(RUNS, number, runs.tenant, runs.pipeline_id, status)
        made.add(FLOW_EXECUTIONS, number, runs.tenant, status)
    took = of_durations(runs.took)
    made.observe(RUN_DURATION, took, runs.tenant, runs.pipeline_id)
    made.observe(FLOW_DURATION, took, runs.tenant)
    sizes = [runs.steps.get(bucket, 0) for bucket in range(len(FLOW_STEPS.bounds) + 1)]
    made.observe(FLOW_STEPS, Histogram.of(sizes, float(runs.steps_sum)), runs.tenant)


def _add_tasks(made: Samples, tasks: TaskTotals) -> None:
    labels = tasks.tenant, tasks.task_id
    for outcome, number in tasks.attempts.items():
        made.add(STEP_EXECUTIONS, number, *labels, _STATUS.get(outcome, outcome))
    made.add(RETRIES, tasks.retried, *labels)
    made.add(CACHE_HITS, tasks.cached, *labels)
    made.add(DEAD_LETTERS_ADDED, tasks.dead, *labels)
    made.add(DISPATCH_FAILURES, 0, *labels)
    for (outcome, code), number in tasks.codes.items():
        made.add(ATTEMPT_FAILURES, number, tasks.tenant, _STATUS.get(outcome, outcome), code)
        if code == DISPATCH_FAILED:
            made.add(DISPATCH_FAILURES, number, *labels)
    made.observe(STEP_DURATION, of_durations(tasks.took), *labels)
    made.observe(STEP_WAIT, of_durations(tasks.waited), *labels)


def of_durations(durations: Durations) -> Histogram:
    """A histogram with the bounds of metrics, which are edges of the buckets of statistics."""
    numbers = [0] * (len(DURATION_BOUNDS) + 1)
    for bucket, number in durations.buckets.items():
        numbers[bisect_left(DURATION_EDGES, bucket + 1)] += number
    return Histogram.of(numbers, durations.total / 1000)


_FIRST = """
SELECT n.tenant_id, n.id FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS text[])) AS n(tenant_id, id)
ORDER BY n.tenant_id, (
    SELECT min(s.at) FROM {table} AS s
    WHERE s.tenant_id = n.tenant_id AND s.scope = :scope AND s.id = n.id AND s.grain = 'day'), n.id
"""
_FIRST_PIPELINES, _FIRST_TASKS = _FIRST.format(table="run_stats"), _FIRST.format(table="task_stats")


def _first_pipelines(tx: Transaction, totals: Sequence[RunTotals]) -> dict[tuple[str, str], list[str]]:
    """Where a tenant has more pipelines than are shown: all of them, as they came into use."""
    parameters = _crowded("pipeline", [(each.tenant, each.pipeline_id) for each in totals])
    return _by_tenant("pipeline", tx.execute(_FIRST_PIPELINES, parameters)) if parameters else {}


def _first_tasks(tx: Transaction, totals: Sequence[TaskTotals]) -> dict[tuple[str, str], list[str]]:
    """The same of tasks."""
    parameters = _crowded("task", [(each.tenant, each.task_id) for each in totals])
    return _by_tenant("task", tx.execute(_FIRST_TASKS, parameters)) if parameters else {}


def _crowded(scope: str, names: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """The names of tenants that have more than are shown, as parameters; None if there are none."""
    of_tenant = Counter(tenant for tenant, _ in names)
    crowded = [(tenant, name) for tenant, name in names if of_tenant[tenant] > MOST_NAMES]
    if not crowded:
        return None
    return {"tenants": [each for each, _ in crowded], "ids": [each for _, each in crowded], "scope": scope}


def _by_tenant(label: str, rows: Iterable[Any]) -> dict[tuple[str, str], list[str]]:
    ordered: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        ordered[label, row.tenant_id].append(row.id)
    return ordered
