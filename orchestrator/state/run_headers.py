"""Loads run headers, the part of a run that never changes, and caches them: one read per process and run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.places import BodyScope
from pipeweave.orchestrator.domain.plan import Plan, standalone_plan
from pipeweave.orchestrator.domain.run import Parent, RunHeader
from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction

# A worker works on few runs at a time. A header holds at most an inline input; plans are shared.
HEADERS = CacheSpec[UUID, RunHeader]("run headers", 256)


def _only_task(run_id: str) -> str:
    return f"""CASE WHEN r.pipeline_id IS NULL THEN
        (SELECT o.task_id FROM task_runs AS o WHERE o.run_id = {run_id} LIMIT 1) END AS only_task"""


# The columns of the run `r` with the id `:run_id` that `of_row` reads. PostgreSQL would open the task runs of
# every month for a run that it does not know before it begins.
COLUMNS = f"""r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.failure_mode, r.priority, r.input,
    r.input_path, {_only_task(":run_id")},
    r.triggered_kind, r.triggered_id, r.triggered_actor, r.traceparent, r.rerun_from,
    r.parent_run_id, r.parent_task_run_id, r.root_run_id, r.depth, r.body, r.scope, r.edits, r.queue_name,
    r.requires"""

# Those of any run `r` that `plan_of` reads, and the id.
PLAN_COLUMNS = f"r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, r.edits, {_only_task('r.id')}"

WIDTH = 23
# Of them, the first columns are fields of the header as they are.
_OWN = 8
_HEADER = f"SELECT {COLUMNS} FROM runs AS r WHERE r.id = :run_id"


def load(tx: Transaction, run_id: UUID) -> RunHeader | None:
    """The run's header; None when there is no such run: its month was dropped while a message was left."""
    header = cached(tx, run_id)
    if header is None:
        row = tx.execute(_HEADER, {"run_id": run_id}).one_or_none()
        header = None if row is None else of_row(tx, row)
    return header


def cached(tx: Transaction, run_id: UUID) -> RunHeader | None:
    """The run's header if it is in the cache, else None."""
    return tx.cache(HEADERS).get(run_id)


def of_row(tx: Transaction, row: Any) -> RunHeader:
    """The header of a row that starts with COLUMNS.

    It is cached at once, before the commit: if this transaction created the run and is rolled back, nothing
    will ask for the run's id again.
    """
    values: list[Any] = [
        *row[:_OWN],
        plan_of(tx, row),
        triggered_by.of_row(row),
        row.rerun_from,
        _parent(row),
    ]
    values += [row.body, None if row.scope is None else BodyScope.of_json(row.scope)]
    values += [row.queue_name, row.requires]
    header = RunHeader(*values)
    tx.cache(HEADERS).put(header.id, header)
    return header


def _parent(row: Any) -> Parent | None:
    if row.parent_run_id is None:
        return None
    return Parent(row.parent_run_id, row.parent_task_run_id, row.root_run_id, row.depth)


def plan_of(tx: Transaction, row: Any) -> Plan:
    """The plan of a run by its row with PLAN_COLUMNS.

    Raises:
        NotFound: its version is not there any more.
    """
    if row.pipeline_id is None:
        return standalone_plan(row.only_task)
    return RunEdits.of_json(row.edits).plan(pipelines.of_run(tx, row).plan)
