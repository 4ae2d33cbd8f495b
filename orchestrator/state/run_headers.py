"""What never changes about a run: read once per process, not once per step."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec

# Runs whose header a process keeps: a worker sees the same few runs again and again.
CACHED_RUNS = 256
CACHED_PLANS = 128
# What `of_row` reads, of a run `r`.
COLUMNS = """r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.failure_mode, r.priority, r.input,
    r.input_path,
    CASE WHEN r.pipeline_id IS NULL THEN
        (SELECT o.task_id FROM task_runs AS o WHERE o.run_id = r.id LIMIT 1) END AS only_task"""

WIDTH = 9
_HEADER = f"SELECT {COLUMNS} FROM runs AS r WHERE r.id = :id"
_headers: OrderedDict[UUID, RunHeader] = OrderedDict()
_plans: OrderedDict[tuple[str, str, int, str], Plan] = OrderedDict()


def load(tx: Transaction, run_id: UUID) -> RunHeader | None:
    """The run's header; None when there is no such run (its history was dropped, the message stayed)."""
    found = known(run_id)
    if found is None:
        row = tx.execute(_HEADER, {"id": run_id}).one_or_none()
        found = None if row is None else of_row(tx, row)
    return found


def known(run_id: UUID) -> RunHeader | None:
    """The run's header, if this process has it."""
    return _headers.get(run_id)


def of_row(tx: Transaction, row: Any) -> RunHeader:
    """The header of a row that starts with COLUMNS; this process keeps it."""
    values: list[Any] = [*row[: WIDTH - 1], _plan(tx, row)]
    found = _headers[row[0]] = RunHeader(*values)
    if len(_headers) > CACHED_RUNS:
        _headers.popitem(last=False)
    return found


def _plan(tx: Transaction, row: Any) -> Plan:
    if row.pipeline_id is None:
        return single(row.only_task)
    stored = pipelines.get(tx, row.tenant_id, row.pipeline_id, row.pipeline_version)
    return plan_of(row.tenant_id, stored.version, stored.spec)


def plan_of(tenant: str, version: int, spec: PipelineSpec) -> Plan:
    """The compiled plan of a stored version; versions are immutable, so it is compiled once."""
    key = (tenant, spec.id, version, spec.spec_hash)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = compile_plan(spec)
        if len(_plans) > CACHED_PLANS:
            _plans.popitem(last=False)
    return plan


def single(task_id: str) -> Plan:
    """The plan of a standalone task: one step, named like its task."""
    return compile_plan(PipelineSpec(id=task_id, steps=(StepSpec(task_id, task_id),)))
