"""Statistics in the shape of the worker protocol's documentation: buckets and a summary (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeweave.orchestrator.documents.statistics import BucketSummary, Statistics
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.telemetry.statistics.documents import by_code, durations, share, window
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations
from pipeweave.orchestrator.telemetry.statistics.place import AsOf
from pipeweave.orchestrator.telemetry.statistics.series import Series
from pipeweave.orchestrator.telemetry.statistics.tallies import RUN_ENDS, Tally


def buckets(tasks: Series | None, runs: Series | None, as_of: AsOf) -> Document:
    """What was counted in each bucket, and in all together.

    Args:
        tasks: the attempts of the same window; None for what has none of its own.
        runs: the runs of the same window; None for what has none.
    """
    one = tasks or runs
    assert one is not None
    empty = [(at, None) for at, _ in one.points]
    of_tasks: Iterable[tuple[Any, Tally | None]] = tasks.points if tasks else empty
    of_runs: Iterable[tuple[Any, Tally | None]] = runs.points if runs else empty
    return window(
        Statistics,
        one.window,
        as_of,
        buckets=[
            _bucket(at, task_tally, run_tally)
            for (at, task_tally), (_, run_tally) in zip(of_tasks, of_runs, strict=True)
        ],
        summary=_summary(tasks.sum if tasks else None, runs.sum if runs else None),
    )


# One answer has up to 1,500 `Bucket`s of nine documents each: they are written out.
def _bucket(at: Any, tasks: Tally | None, runs: Tally | None) -> Document:
    failed = _failed(tasks) if tasks else (runs.counts.get("failed", 0) if runs else 0)
    return {
        "timestamp": iso(at),
        "taskRuns": tasks and _task_runs(tasks),
        "pipelineRuns": runs and _pipeline_runs(runs),
        "errors": {"total": failed, "byCode": dict(by_code(tasks)) if tasks else {}},
        "dlq": {
            "added": tasks.counts.get("dead", 0) if tasks else 0,
            "retried": tasks.counts.get("redriven", 0) if tasks else 0,
        },
    }


def _failed(tasks: Tally) -> int:
    return sum(tasks.codes.values())


def _task_runs(tally: Tally) -> Document:
    by_status = _task_statuses(tally)
    return {
        "count": sum(by_status.values()),
        "byStatus": by_status,
        "runtime": _durations(tally.took),
        "waitTime": _durations(tally.wait),
        "retries": {"total": tally.counts.get("retried", 0), "successful": tally.counts.get("again", 0)},
    }


def _task_statuses(tally: Tally) -> dict[str, int]:
    """Task runs by the status in which they ended; attempts that another one followed ended none."""
    dead, timed_out = tally.counts.get("dead", 0), tally.counts.get("dead_timed_out", 0)
    return {
        "completed": tally.counts.get("completed", 0) + tally.counts.get("cached", 0),
        "failed": dead - timed_out,
        "timeout": timed_out,
        "cancelled": tally.counts.get("cancelled", 0),
    }


def _pipeline_runs(tally: Tally) -> Document:
    by_status = {name: tally.counts.get(name, 0) for name in RUN_ENDS}
    return {
        "count": sum(by_status.values()),
        "byStatus": by_status,
        "runtime": _durations(tally.took),
    }


def _durations(histogram: Durations) -> Document:
    shown = durations(histogram)
    return {
        "count": shown["count"],
        "min": shown["min"],
        "max": shown["max"],
        "avg": shown["mean"],
        "median": shown["p50"],
        "p50": shown["p50"],
        "p95": shown["p95"],
        "p99": shown["p99"],
    }


def _summary(tasks: Tally | None, runs: Tally | None) -> Document:
    statuses = _task_statuses(tasks) if tasks else {}
    ended = {name: runs.counts.get(name, 0) for name in RUN_ENDS} if runs else {}
    judged = statuses or ended
    one = tasks or runs or Tally()
    return BucketSummary.of(
        total_task_runs=sum(statuses.values()),
        total_pipeline_runs=sum(ended.values()),
        avg_success_rate=share(judged.get("completed", 0), sum(judged.values())),
        avg_runtime=durations(one.took)["mean"],
        avg_wait_time=durations(one.wait)["mean"],
    )
