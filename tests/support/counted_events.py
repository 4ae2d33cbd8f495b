"""What the statistics of a database should say, computed from its events and rows one by one; and what they
say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.telemetry.statistics import fold, sizes
from pipeweave.orchestrator.telemetry.statistics.histogram import bucket_of

# Of a pipeline or task: numbers by name; those of a histogram as `took 31`, of an error code as `code …`.
Numbers = dict[str, Counter[str]]

_RUN_ENDS = ("completed", "partial", "failed", "cancelled")
_FAILURES = ("task_run.retrying", "task_run.failed", "task_run.timed_out")
_NOT_COUNTED = {"tenant_id", "scope", "id", "grain", "at"}


def fold_all(database: Database, batch: int | None = None) -> int:
    """Count all events that there are; in how many transactions."""
    done, more = 0, True
    while more:
        counted, more = database.run(lambda tx: fold.fold(tx, batch))
        done += counted
    return done


def stored(database: Database, table: str, scope: str, grain: str = "ever") -> Numbers:
    """The rows of statistics by id, those of all times added up."""
    statement = f"SELECT to_jsonb(s) AS row FROM {table} AS s WHERE s.scope = :scope AND s.grain = :grain"
    found: Numbers = defaultdict(Counter)
    with database.transaction() as tx:
        rows = list(tx.execute(statement, {"scope": scope, "grain": grain}).scalars())
    for row in rows:
        found[row["id"]].update(_flat(row))
    return {id: +numbers for id, numbers in found.items()}


def _flat(row: Mapping[str, Any]) -> dict[str, int]:
    flat: dict[str, int] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            prefix = "code" if name == "codes" else name
            flat |= {f"{prefix} {key}": number for key, number in value.items()}
        elif name not in _NOT_COUNTED and not name.startswith(("took_", "wait_")):
            flat[name] = value
    return flat


def expected_runs(database: Database) -> Numbers:
    """What the rows of pipelines should say."""
    found: Numbers = defaultdict(Counter)
    with database.transaction() as tx:
        rows = {row.id: row for row in tx.execute("SELECT * FROM runs WHERE pipeline_id IS NOT NULL")}
        events = tx.execute("SELECT * FROM events WHERE type LIKE 'run.%'").all()
    for event in events:
        if (run := rows.get(event.run_id)) is None:
            continue
        numbers, kind = found[run.pipeline_id], event.type.removeprefix("run.")
        data = event.data or {}
        if kind == "created":
            numbers["created"] += 1
        if kind == "running" or (kind == "created" and "status" not in data):
            wait = (event.at - run.created_at).total_seconds() * 1000 if kind == "running" else 0
            numbers.update(["started", f"wait {bucket_of(wait)}"])
        if kind in _RUN_ENDS:
            numbers.update({kind: 1, "steps_sum": run.task_run_count})
            numbers[f"steps {sizes.bucket_of(run.task_run_count)}"] += 1
            if run.started_at is not None:
                again = run.reopened_at is not None and run.reopened_at <= event.at
                began = run.reopened_at if again else run.started_at
                took = (event.at - began).total_seconds() * 1000 - run.paused_ms
                numbers[f"took {bucket_of(took)}"] += 1
    return {id: +numbers for id, numbers in found.items()}


def expected_tasks(database: Database) -> Numbers:
    """What the rows of tasks should say."""
    found: Numbers = defaultdict(Counter)
    with database.transaction() as tx:
        rows = {row.id: row for row in tx.execute("SELECT * FROM task_runs WHERE kind <> 'map'")}
        attempts = {(row.task_run_id, row.number): row for row in tx.execute("SELECT * FROM attempts")}
        events = tx.execute("SELECT * FROM events WHERE type LIKE 'task_run%'").all()
    for event in events:
        row = rows.get(event.task_run_id)
        data = event.data or {}
        if event.type == "task_runs.cancelled":
            for first, last in data["ordinals"]:
                for ordinal in range(first, last + 1):
                    task_run = rows.get(ids.task_run_id(event.run_id, ordinal))
                    if task_run is not None and task_run.started_at and task_run.status == "cancelled":
                        took = _ms(task_run.started_at, event.at)
                        numbers = ["cancelled", f"took {took}", f"code cancelled/{data['errorCode']}"]
                        found[task_run.task_id].update(numbers)
        if row is None:
            continue
        numbers_of = found[row.task_id]
        is_last = row.attempt == event.attempt
        if event.type == "task_run.reopened":
            numbers_of["redriven"] += 1
        if event.type == "task_run.completed":
            numbers_of["cached" if data.get("cached") else "completed"] += 1
            if not data.get("cached"):
                numbers_of["again"] += event.attempt > 1
                numbers_of.update([f"took {_ms(row.started_at, event.at)}"] if is_last else [])
                numbers_of.update([f"wait {_ms(row.queued_at, row.started_at)}"] if is_last else [])
        if event.type in _FAILURES:
            attempt = attempts.get((event.task_run_id, event.attempt))
            if attempt is not None:
                outcome = {"timeout": "timed_out"}.get(data["outcome"], data["outcome"])
                numbers_of.update([outcome, f"code {outcome}/{data['errorCode']}"])
                numbers_of[f"took {_ms(attempt.started_at, attempt.finished_at)}"] += 1
                numbers_of["retried"] += event.type == "task_run.retrying"
            if event.type != "task_run.retrying":
                numbers_of["dead"] += 1
                numbers_of["dead_timed_out"] += event.type == "task_run.timed_out"
                if is_last and row.started_at is not None:
                    numbers_of[f"wait {_ms(row.queued_at, row.started_at)}"] += 1
    return {id: +numbers for id, numbers in found.items() if +numbers}


def _ms(earlier: Any, later: Any) -> int:
    return bucket_of(max(0.0, (later - earlier).total_seconds() * 1000))
