"""Counters that never go back: what was counted since the statistics began, of all tenants.

They are rows, so any process of the API answers the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations
from pipeweave.orchestrator.telemetry.statistics.tallies import (
    OUTCOMES,
    RUN_COUNTS,
    RUN_ENDS,
    TASK,
    TASK_COUNTS,
    WAIT,
)

# Pipelines and tasks that are told by themselves, those with the most runs or attempts first.
MOST = 1_000


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The runs of a pipeline, ever.

    Args:
        created: runs that were created.
        ended: end status -> runs; a run that was continued counts each time it ended.
        took: the durations of runs that ended (ms).
        waited: how long runs waited to be admitted (ms).
        steps: runs that ended by the bucket of their task runs (sizes.py); `steps_sum`: all of those.
    """

    tenant: str
    pipeline_id: str
    created: int
    ended: Mapping[str, int]
    took: Durations
    waited: Durations
    steps: Mapping[int, int]
    steps_sum: int


@dataclass(frozen=True, slots=True)
class TaskTotals:
    """The attempts of a task, ever; items of maps count, maps do not.

    Args:
        attempts: outcome (`completed`, `failed`, `timed_out`, `lost`, `interrupted`, `cancelled`) ->
            attempts.
        codes: (outcome, error code) -> attempts that did not complete; at most about a hundred codes, the
            others are OTHER.
        retried: attempts that another one followed.
        cached: task runs that completed by an idempotency key or a rerun, without an attempt.
        dead: task runs that failed for good.
        redriven: dead letters that were retried.
        took: the durations of attempts (ms).
        waited: how long they were queued before (ms), of those that were the last of their task run.
    """

    tenant: str
    task_id: str
    attempts: Mapping[str, int]
    codes: Mapping[tuple[str, str], int]
    retried: int
    cached: int
    dead: int
    redriven: int
    took: Durations
    waited: Durations


@dataclass(frozen=True, slots=True)
class WaitTotals:
    """The waits of a kind that ended, ever. `late`: how long after what ended them had come (ms)."""

    tenant: str
    kind: str
    late: Durations


@dataclass(frozen=True, slots=True)
class Totals:
    """All counters.

    Args:
        is_cut: there are more pipelines or tasks than MOST; the rest is left out.
    """

    runs: Sequence[RunTotals]
    tasks: Sequence[TaskTotals]
    waits: Sequence[WaitTotals]
    is_cut: bool


def _select(table: str, scopes: str, counts: Sequence[str], weight: str) -> str:
    return f"""
SELECT s.tenant_id, s.scope, s.id, {", ".join(f"s.{each}" for each in counts)}, s.took, s.took_sum,
    s.took_min, s.took_max, s.wait, s.wait_sum, s.wait_min, s.wait_max
FROM {table} AS s WHERE s.scope IN ({scopes}) AND s.grain = 'ever'
ORDER BY {weight} DESC, s.tenant_id, s.id LIMIT :limit
"""


_RUNS = _select("run_stats", "'pipeline'", (*RUN_COUNTS, "steps"), "s.created")
# Waits have few rows, and come first.
_TASKS = _select("task_stats", "'task', 'wait'", (*TASK_COUNTS, "codes"), "s.scope DESC, s.completed")


def totals(tx: Transaction, most: int = MOST) -> Totals:
    """The counters of all tenants' pipelines and tasks, at most `most` of each, in two statements."""
    runs = tx.execute(_RUNS, {"limit": most + 1}).all()
    of_tasks = tx.execute(_TASKS, {"limit": most + 1}).all()
    tasks = [row for row in of_tasks if row.scope == TASK]
    return Totals(
        [
            RunTotals(
                row.tenant_id,
                row.id,
                row.created,
                {each: getattr(row, each) for each in RUN_ENDS},
                Durations.of_row(row, "took"),
                Durations.of_row(row, "wait"),
                {int(bucket): number for bucket, number in row.steps.items()},
                row.steps_sum,
            )
            for row in runs[:most]
        ],
        [
            TaskTotals(
                row.tenant_id,
                row.id,
                {each: getattr(row, each) for each in OUTCOMES},
                {_split(name): number for name, number in sorted(row.codes.items())},
                row.retried,
                row.cached,
                row.dead,
                row.redriven,
                Durations.of_row(row, "took"),
                Durations.of_row(row, "wait"),
            )
            for row in tasks[:most]
        ],
        [
            WaitTotals(row.tenant_id, row.id, Durations.of_row(row, "took"))
            for row in of_tasks
            if row.scope == WAIT
        ],
        is_cut=max(len(runs), len(of_tasks)) > most,
    )


def _split(name: str) -> tuple[str, str]:
    outcome, _, code = name.partition("/")
    return outcome, code
