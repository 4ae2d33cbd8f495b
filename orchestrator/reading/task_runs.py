"""Read models of task runs: a run's list of task runs, and one task run in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.base import AnswerModel
from pipeweave.orchestrator.documents.task_runs import (
    Attempt,
    FoundTaskRun,
    KeptAttempt,
    MapItem,
    TaskRun,
    TaskRunDetail,
)
from pipeweave.orchestrator.domain import tracing, triggered_by
from pipeweave.orchestrator.domain.json_shapes import duration_ms, reference, task_run_id
from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.reading import runs_of_steps
from pipeweave.orchestrator.reading.runs_of_steps import NO_RUN, seen_row
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.storage import backend_of, plain_path

# Only `task_run` shows a traceback; lists leave tracebacks out.
_OF_ONE_RUN = """t.id, t.step_id, t.task_id, t.kind, t.map_index, t.map_parent, t.map_count, t.status,
t.attempt, t.max_attempts, t.priority, t.progress, t.progress_message, t.worker, t.code_version, t.code_hash,
t.output_size, t.error_code, t.created_at, t.due_at, t.queued_at, t.started_at, t.heartbeat_at,
t.finished_at"""
COLUMNS = f"t.run_id, {_OF_ONE_RUN}"


def of_run(
    tx: Transaction,
    run: UUID,
    page: PageRequest,
    *,
    status: str | None = None,
    step_id: str | None = None,
    map_index: int | None = None,
) -> Document:
    """A run's task runs in the order of their ids. The caller has checked that the tenant owns the run."""
    where = ["t.run_id = :run_id"]
    after = page.after("task-runs", UUID)
    parameters: dict[str, Any] = {
        "run_id": run,
        "after": after and after[0],
        "status": status,
        "step_id": step_id,
    }
    if after:
        where.append("t.id > :after")
    if status is not None:
        where.append("t.status = :status")
    if step_id is not None:
        where.append("t.step_id = :step_id")
    if map_index is not None:
        where.append("t.map_index = :map_index")
        parameters["map_index"] = map_index
    rows = tx.execute(
        f"SELECT {_OF_ONE_RUN}, t.error - 'traceback' AS error FROM task_runs AS t"
        f" WHERE {' AND '.join(where)} ORDER BY t.run_id, t.id LIMIT :limit",
        {**parameters, "limit": page.limit + 1},
    ).all()
    return page.cut(rows, "task-runs", lambda row: (row.id,), lambda row: _row_of_run(row, run))


def task_run_row(row: Any) -> Document:
    """A task run as lists of one run show it."""
    return TaskRun.of(row, duration_ms=duration_ms(row.started_at, row.finished_at))


def _row_of_run(row: Any, run: UUID) -> Document:
    """As `task_run_row`, of a row without its run: ids of a thousand rows are not read for that."""
    return TaskRun.of(row, run_id=run, duration_ms=duration_ms(row.started_at, row.finished_at))


def item_rows(tx: Transaction, run: UUID, rows: Sequence[Any]) -> dict[UUID, Document]:
    """The items of a map as its list shows them, by their ids."""
    inside = runs_of_steps.of_task_runs(tx, run, map(seen_row, rows))
    return {
        row.id: MapItem.of(
            row,
            duration_ms=duration_ms(row.started_at, row.finished_at),
            child_run_id=inside.get(row.id, NO_RUN).run,
        )
        for row in rows
    }


def task_run_of_any(row: Any, answer: type[AnswerModel] = FoundTaskRun, **more: Any) -> Document:
    """A task run of a row with its pipeline, which may be standalone: the API shows no run for such a one."""
    return answer.of(
        row,
        run_id=None if row.pipeline_id is None else row.run_id,
        duration_ms=duration_ms(row.started_at, row.finished_at),
        **more,
    )


# --- by the beginning of an id ----------------------------------------------------------------------------

# The ids of a run's task runs begin like the run's own.
_FIND = f"""
SELECT r.pipeline_id, t.* FROM (
    SELECT r.id, r.pipeline_id FROM runs AS r
    WHERE r.id BETWEEN :first_run AND :last_run AND r.tenant_id = :tenant
    ORDER BY r.id DESC LIMIT :limit) AS r
CROSS JOIN LATERAL (
    SELECT {COLUMNS}, t.error - 'traceback' AS error FROM task_runs AS t
    WHERE t.run_id = r.id AND t.id BETWEEN :first AND :last ORDER BY t.run_id, t.id LIMIT :limit) AS t
ORDER BY t.run_id DESC, t.id LIMIT :limit
"""


def find_task_runs(tx: Transaction, tenant: str, id_prefix: str, limit: int) -> list[Document]:
    """The task runs of a tenant whose ids begin like `id_prefix`, also standalone ones; at most `limit`.

    Raises:
        NotFound: no id begins like `id_prefix`.
    """
    first, last = ids.span(ids.TASK_RUN, id_prefix)
    parameters = {"first": first, "last": last, "tenant": tenant, "limit": limit}
    runs = {"first_run": ids.run_id_of(first), "last_run": ids.run_id_of(last)}
    return [task_run_of_any(row) for row in tx.execute(_FIND, parameters | runs)]


# --- one task run -----------------------------------------------------------------------------------------

_ONE = f"""
SELECT {COLUMNS}, t.error, t.item, t.output, t.output_path, t.output_hash, t.selected_next, t.map_first,
       t.idempotency_key, t.cached_from, t.awaits, t.dispatched_at, t.assets, t.logs_path,
       r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, r.input, r.input_path, r.input_size,
       r.inputs_hash, r.edits, r.metadata,
       r.triggered_kind, r.triggered_id, r.triggered_actor, r.traceparent,
       k.code_version AS current_version, k.code_hash AS current_hash
FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
    LEFT JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
WHERE t.run_id = :run_id AND t.id = :id AND t.tenant_id = :tenant
"""


def task_run(tx: Transaction, tenant: str, id: UUID, *, load: bool = False) -> Document:
    """One task run: attempts, error with traceback, source of its input, output, code version then and now.

    Args:
        load: hold a StoredValue for each large value (`load_values` loads it); otherwise
            `inputRef` and `outputRef` say where they are.

    Raises:
        NotFound: the tenant has no such task run.
        LimitExceeded: the values are too large to be loaded.
    """
    row = tx.execute(_ONE, {"run_id": ids.run_id_of(id), "id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise NotFound(f"task run {task_run_id(id)} not found", taskRunId=task_run_id(id))
    output, where, loading = None, None, Loading(load)
    inside = runs_of_steps.of_task_runs(tx, row.run_id, [seen_row(row)]).get(id, NO_RUN)
    cause = triggered_by.of_row(row)
    if row.status == "completed":
        output, where = outputs.of_task_run(tx, row.run_id, row, loading)
    return task_run_of_any(
        row,
        TaskRunDetail,
        child_run_id=inside.run,
        round=inside.round,
        **_input(tx, tenant, row, loading),
        output=output,
        output_ref=where,
        current_code_version=row.current_version,
        current_code_hash=row.current_hash,
        code_changed=row.current_hash is not None and row.current_hash != row.code_hash,
        assets=_assets(row.assets or {}),
        logs_path=attempts_log(row, id, row.attempt),
        awaits=row.awaits if row.status == "pending" else None,
        triggered_by=cause and cause.to_json(),
        trace_id=tracing.trace_id(row.run_id, row.traceparent),
        attempts=_attempts(tx, row),
    )


def _assets(stored: Mapping[str, Any]) -> Document:
    """Key -> {path, size, type, backend, sha256} of the files of an attempt."""
    return {
        key: {
            "path": plain_path(each["path"]),
            "size": each.get("size"),
            "type": each.get("type"),
            "backend": backend_of(each["path"]),
            "sha256": each.get("sha256"),
        }
        for key, each in stored.items()
    }


def _input(tx: Transaction, tenant: str, row: Any, loading: Loading) -> dict[str, Any]:
    """The run's input, the step's own `params` with their references, and the item of a map."""
    params, edits = None, RunEdits.of_json(row.edits)
    if row.pipeline_id is not None:
        params = edits.step(pipelines.of_run(tx, row).spec.by_id[row.step_id]).params
    is_stored = row.input_path is not None and not loading.is_wanted
    return {
        "input_source": "run" if params is None else "params",
        "input": loading.value_of(row.input, row.input_path, row.input_size),
        "input_ref": reference(row.input_path, row.input_size, row.inputs_hash) if is_stored else None,
        "params": None if params is None else dict(params),
        "is_edited": row.step_id in edits.params,
        "has_other_input": row.step_id in edits.seen,
        "item": row.item,
    }


_ATTEMPTS = """
SELECT a.number, a.status, a.worker, a.code_version, a.error, a.error_code, a.started_at, a.finished_at,
       a.dispatched_at, a.logs_path
FROM attempts AS a WHERE a.run_id = :run_id AND a.task_run_id = :id ORDER BY a.number LIMIT 1000
"""


def _attempts(tx: Transaction, row: Any) -> list[Document]:
    """The attempts recorded in `attempts`, then the present attempt from the task run's own row."""
    ended = tx.execute(_ATTEMPTS, {"run_id": row.run_id, "id": row.id}).all()
    shown = [_attempt(each, row.id, each.number, each.status) for each in ended]
    is_last_recorded = bool(ended) and ended[-1].number == row.attempt
    if row.started_at is not None and not is_last_recorded:
        shown.append(_attempt(row, row.id, row.attempt, row.status))
    return shown


def _attempt(row: Any, task_run: UUID, number: int, status: str) -> Document:
    return attempt_row(row, number, status, Attempt, logs_path=attempts_log(row, task_run, number))


def attempts_log(row: Any, task_run: UUID, number: int) -> str | None:
    """Where the log of an attempt is: as its HTTP service reported it, or where a Celery worker stores what
    the attempt writes. None where neither is so: nobody has begun it, or a service has stored no log.
    """
    if row.logs_path is not None:
        return plain_path(row.logs_path)
    if row.started_at is None or row.dispatched_at is not None:
        return None
    return paths.workers_log(task_run, number)


def attempt_row(
    row: Any, number: int, status: str, answer: type[KeptAttempt] = KeptAttempt, **more: Any
) -> Document:
    """An attempt as its row has it, from its own row or from its task run's row."""
    took = duration_ms(row.started_at, row.finished_at)
    return answer.of(row, number=number, status=status, duration_ms=took, **more)
