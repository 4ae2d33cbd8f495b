"""Read models of tasks, code history and pipelines of a tenant."""

from __future__ import annotations

from typing import Any

from pipeweave.errors import FieldError
from pipeweave.orchestrator.documents.pipelines import Pipeline, PipelineSummary, RecentRun
from pipeweave.orchestrator.documents.tasks import CodeVersion, InputSchemaAnswer, Task
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.domain.run_kinds_sql import NEWEST_OF_PIPELINE, OF_PIPELINE, of_whole
from pipeweave.orchestrator.reading import bundle_list
from pipeweave.orchestrator.reading.service_list import require_service
from pipeweave.orchestrator.registry import code_versions, current_version, pipelines, unknown_names
from pipeweave.orchestrator.registry.loaded_tasks import last_seen_sql
from pipeweave.orchestrator.starts.schedules import declaring
from pipeweave.orchestrator.state.pause_sql import from_pauses
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest
from pipeweave.rates import Rate
from pipeweave.schema import task_input_errors, task_input_schema

# --- tasks ------------------------------------------------------------------------------------------------

_TASKS = f"""
SELECT t.id, t.service_id, t.code_hash, t.code_version, t.allowed_next, t.timeout_seconds, t.max_attempts,
       t.retry_backoff, t.retry_delay_ms, t.max_retry_delay_ms, t.retry_multiplier, t.retry_jitter,
       t.retry_on, coalesce(t.on_exhausted, 'fail') AS on_exhausted, t.heartbeat_interval_ms,
       t.concurrency, t.rate_limit, t.rate_seconds, t.priority,
       t.declared_concurrency, t.declared_rate, t.concurrency_override, t.rate_override, t.limits_set_at,
       t.limits_set_by, t.limits_reason,
       t.idempotency_ttl_seconds, t.description,
       t.input_schema IS NOT NULL OR t.parameters->'fields'->0 IS NOT NULL AS has_input_schema,
       t.orphaned_at, t.registered_at, t.updated_at, p.paused_at, p.reason AS pause_reason, t.queue,
       t.requires,
       (SELECT count(*) FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
        WHERE w.stopped_at IS NULL AND h.tenant_id = t.tenant_id AND h.task_id = t.id)
       + (SELECT count(*) FROM service_instances AS i WHERE i.tenant_id = t.tenant_id
        AND i.service_id = t.service_id AND t.id = ANY(i.tasks) AND i.set_aside_at IS NULL) AS worker_count,
       {last_seen_sql("t.tenant_id", "t.id")} AS last_seen
FROM tasks AS t LEFT JOIN LATERAL (
    SELECT p.paused_at, p.reason {from_pauses("t.tenant_id", "t.id")}
    ORDER BY p.task_id LIMIT 1) AS p ON true
WHERE t.tenant_id = :tenant AND {{where}} ORDER BY t.id LIMIT :limit
"""


def tasks(tx: Transaction, tenant: str, page: PageRequest, *, service_id: str | None = None) -> Document:
    """The tenant's tasks by id, orphaned tasks included: {items, nextCursor}.

    Args:
        service_id: only the tasks of this service.

    Raises:
        NotFound: the tenant has no such service.
    """
    after = page.after("tasks", str)
    where = ["true"]
    if after:
        where.append("t.id > :after")
    if service_id is not None:
        where.append("t.service_id = :service_id")
        require_service(tx, tenant, service_id)
    parameters = {
        "tenant": tenant,
        "after": after and after[0],
        "service_id": service_id,
        "limit": page.limit + 1,
    }
    rows = tx.execute(_TASKS.format(where=" AND ".join(where)), parameters).all()
    return page.cut(rows, "tasks", lambda row: (row.id,), _task)


def task(tx: Transaction, tenant: str, task_id: str) -> Document:
    """One task.

    Raises:
        NotFound: the tenant has no such task.
    """
    parameters = {"tenant": tenant, "id": task_id, "limit": 1}
    row = tx.execute(_TASKS.format(where="t.id = :id"), parameters).one_or_none()
    if row is None:
        raise unknown_names.not_found(tx, tenant, "task", task_id, taskId=task_id)
    return _task(row)


def _task(row: Any) -> Document:
    declared = code_versions.declared_of(row)
    return Task.of(
        row,
        timeout=row.timeout_seconds,
        retries=row.max_attempts - 1,
        rate_limit=None if row.rate_limit is None else str(Rate(row.rate_limit, row.rate_seconds)),
        declared_concurrency=declared.concurrency,
        declared_rate_limit=declared.rate or None,
        rate_limit_override=row.rate_override,
        idempotency_ttl=row.idempotency_ttl_seconds,
        queue=row.queue or queue_names.DEFAULT,
    )


_HISTORY = """
SELECT h.code_version, h.code_hash, h.service_version, h.recorded_at FROM task_code_history AS h
WHERE h.tenant_id = :tenant AND h.task_id = :id AND h.code_version < :before
ORDER BY h.code_version DESC LIMIT :limit
"""


def task_history(tx: Transaction, tenant: str, task_id: str, page: PageRequest) -> Document:
    """The code versions of a task, newest first, version 1 included: {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such task.
    """
    after = page.after("history", Int32)
    parameters = {"tenant": tenant, "id": task_id, "before": after[0] if after else pipelines.NO_VERSION}
    rows = tx.execute(_HISTORY, {**parameters, "limit": page.limit + 1}).all()
    if not rows:
        task(tx, tenant, task_id)
    return page.cut(rows, "history", lambda row: (row.code_version,), CodeVersion.of)


_INPUT_SCHEMA = "SELECT input_schema, parameters FROM tasks WHERE tenant_id = :tenant AND id = :id"


def input_schema(tx: Transaction, tenant: str, task_id: str) -> Document:
    """A task's input schema. Where the task declares none, it is that of its function's parameters.

    Raises:
        NotFound: the tenant has no such task.
    """
    row = _schemas(tx, tenant, task_id)
    schema = task_input_schema(row.input_schema, row.parameters)
    return InputSchemaAnswer.of(task_id=task_id, has_schema=schema is not None, schema_=schema)


def input_errors(tx: Transaction, tenant: str, task_id: str, value: Any) -> list[FieldError]:
    """What a task would refuse in an input; empty when it takes it, as far as its schema and the hints of its
    parameters tell.

    Raises:
        NotFound: the tenant has no such task.
    """
    row = _schemas(tx, tenant, task_id)
    return task_input_errors(row.input_schema, row.parameters, value)


def _schemas(tx: Transaction, tenant: str, task_id: str) -> Any:
    row = tx.execute(_INPUT_SCHEMA, {"tenant": tenant, "id": task_id}).one_or_none()
    if row is None:
        raise unknown_names.not_found(tx, tenant, "task", task_id, taskId=task_id)
    return row


# --- pipelines --------------------------------------------------------------------------------------------

_PIPELINES = f"""
SELECT p.id, p.description, {pipelines.CURRENT} AS version, p.latest_version, p.created_at, p.updated_at,
       v.spec_hash, v.source,
       jsonb_array_length(v.spec -> 'steps') AS step_count, v.spec ->> 'failureMode' AS failure_mode
FROM pipelines AS p JOIN pipeline_versions AS v
    ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id AND v.version = {pipelines.CURRENT}
WHERE p.tenant_id = :tenant AND {{where}} ORDER BY p.id LIMIT :limit
"""


# Of one pipeline: its index has them in this order, and a statement for many would read all runs instead.
_OF_PIPELINE = f"""
SELECT r.id, r.status, r.created_at, r.started_at, r.finished_at FROM runs AS r
WHERE r.tenant_id = :tenant AND {OF_PIPELINE} AND {{kind}} ORDER BY {NEWEST_OF_PIPELINE} LIMIT :recent
"""
_RECENT = f"SELECT r.* FROM ({of_whole(_OF_PIPELINE)}) AS r ORDER BY r.id DESC LIMIT :recent"


def _recent_runs(tx: Transaction, tenant: str, pipeline_id: str, number: int) -> list[Document]:
    """The newest runs of a pipeline, newest first."""
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "recent": number}
    return [
        RecentRun.of(row, duration_ms=duration_ms(row.started_at, row.finished_at))
        for row in tx.execute(_RECENT, parameters)
    ]


def pipeline_list(tx: Transaction, tenant: str, page: PageRequest, *, recent: int = 0) -> Document:
    """The tenant's pipelines in their current versions, by id, without their specs: {items, nextCursor}.

    Args:
        recent: so many of the newest runs of each come with it.
    """
    after = page.after("pipelines", str)
    where = "p.id > :after" if after else "true"
    parameters = {"tenant": tenant, "after": after and after[0], "limit": page.limit + 1}
    rows = tx.execute(_PIPELINES.format(where=where), parameters).all()
    listing = page.cut(rows, "pipelines", lambda row: (row.id,), PipelineSummary.of)
    for each in listing["items"]:
        each["recentRuns"] = _recent_runs(tx, tenant, each["id"], recent) if recent else []
    return listing


def pipeline(tx: Transaction, tenant: str, pipeline_id: str, version: int | None = None) -> Document:
    """One version of a pipeline with its spec, the current one by default.

    Raises:
        NotFound: the tenant has no such pipeline or version.
    """
    row = current_version.read(tx, tenant, pipeline_id)
    stored = pipelines.get(tx, tenant, pipeline_id, version or row.version)
    entries = [stored.plan[each].step for each in stored.plan.entries]
    ends = [stored.plan[each].step for each in stored.plan.ends]
    return Pipeline.of(
        stored,
        current_version=row.version,
        latest_version=row.latest_version,
        promoted_version=row.promoted_version,
        description=stored.spec.description,
        step_count=len(stored.spec.steps),
        failure_mode=stored.spec.failure_mode,
        entry_steps=[step.id for step in entries],
        end_steps=[step.id for step in ends],
        entry_tasks=list(dict.fromkeys(step.task for step in entries if step.has_task)),
        end_tasks=list(dict.fromkeys(step.task for step in ends if step.has_task)),
        bundle=bundle_list.origin_of(tx, tenant, stored.id, stored.version),
        spec={**stored.spec.to_json(), **_schedule(tx, tenant, stored)},
    )


def _schedule(tx: Transaction, tenant: str, stored: pipelines.StoredPipeline) -> Document:
    """The schedule that the newest version was stored with, so that its document can be stored again."""
    declared = declaring.declared(tx, tenant, stored.id, stored.version)
    return {} if declared is None else {"schedule": declared.to_json()}
