"""Services, tasks and pipelines for tests, in few words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.registry import LoadedTask, WorkerStart, pipelines, worker_processes
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration, task_removal
from pipeweave.orchestrator.runs.service_registration import Registered
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.spec.document import parse_spec
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.workers.process.served_queues import NO_LABELS, sets_of


def a_task(id: str, code: str = "first", **options: Any) -> TaskRegistration:
    """A task whose code hash follows from `code`."""
    return TaskRegistration(id, hashlib.sha256(code.encode()).hexdigest(), **options)


def a_service(
    *tasks: TaskRegistration | str,
    id: str = "python",
    version: str = "1.0.0",
    kind: str = "python",
    base_url: str = "http://localhost:9",
) -> Registration:
    """A service with these tasks."""
    listed = [a_task(each) if isinstance(each, str) else each for each in tasks]
    url = base_url if kind == "http" else None
    return Registration(id, version, kind, url, listed)


def register(tx: Transaction, tenant: str, *tasks: TaskRegistration | str, **service: Any) -> Registered:
    """Register a service with these tasks: as a worker of a Python service does, by default."""
    registration = a_service(*tasks, **service)
    by_worker = registration.kind == "python"
    return service_registration.register(tx, tenant, registration, by_worker=by_worker)


def remove_task(tx: Transaction, tenant: str, task_id: str) -> None:
    """Remove a task that no live worker has."""
    task_removal.remove(tx, tenant, task_id)


def a_worker(
    tx: Transaction,
    tenant: str,
    *tasks: TaskRegistration | str,
    service: str = "python",
    name: str = "w",
    labels: Labels = NO_LABELS,
) -> str:
    """A live worker that has loaded these tasks and serves all their queues, with these labels; its id. See
    `own_queue_of`.
    """
    listed = [a_task(each) if isinstance(each, str) else each for each in tasks]
    base = queue_names.service_queue(tenant, service)
    served = dict.fromkeys([base, *(queue_names.named_queue(base, each.queue) for each in listed)])
    start = WorkerStart(
        service,
        f"{name}@host",
        "host",
        2,
        len(listed),
        loaded=tuple(LoadedTask(each.id, each.code_hash) for each in listed),
        queues=(
            *(queue_names.labelled(each, chosen) for chosen in sets_of(labels) for each in served),
            own_queue_of(tenant, *listed, service=service),
        ),
        own_queue=own_queue_of(tenant, *listed, service=service),
        labels=labels,
    )
    return worker_processes.register(tx, tenant, start)


def own_queue_of(tenant: str, *tasks: TaskRegistration | str, service: str = "python") -> str:
    """The own queue of a worker with these tasks."""
    listed = [a_task(each) if isinstance(each, str) else each for each in tasks]
    code_set = "-".join(f"{each.id}{each.code_hash[:4]}" for each in listed)
    return queue_names.own_queue(queue_names.service_queue(tenant, service), code_set)


def a_chain(*tasks: str, id: str = "chain", **options: Any) -> PipelineSpec:
    """A pipeline whose steps follow each other."""
    return parse_spec({"id": id, "steps": [{"task": each} for each in tasks], **options})


def a_pipeline(tx: Transaction, tenant: str, *tasks: str, id: str = "chain") -> PipelineSpec:
    """A stored chain of tasks that are registered with it."""
    register(tx, tenant, *tasks)
    spec = a_chain(*tasks, id=id)
    pipelines.store(tx, tenant, spec, source="api")
    return spec


def end(tx: Transaction, run_id: UUID, ordinal: int, status: str = "completed", **columns: Any) -> None:
    """Write a task run as if it had ended."""
    error = {"message": "boom", "type": "ValueError", "traceback": "Traceback …"}
    failed = status in ("failed", "timeout")
    given = {
        "output": to_json(columns.get("output", {"step": ordinal})) if status == "completed" else None,
        "error": to_json(error) if failed else None,
        "code": "ValueError" if failed else None,
    }
    tx.execute(
        """UPDATE task_runs SET status = CAST(:status AS text), queued_at = :now, started_at = :now,
            worker = 'w@host',
            finished_at = CAST(:now AS timestamptz) + interval '1.5 s', output = CAST(:output AS jsonb),
            error = CAST(:error AS jsonb), error_code = :code
        WHERE run_id = :run_id AND id = :id""",
        {**given, "status": status, "run_id": run_id, "id": ids.task_run_id(run_id, ordinal), "now": tx.now},
    )


def end_run(tx: Transaction, run_id: UUID, status: str = "completed") -> None:
    """Write a run as if it had ended."""
    tx.execute(
        """UPDATE runs SET status = CAST(:status AS text), finished_at = :now,
            error_code = CASE WHEN :status = 'failed'
            THEN 'STEP_FAILED' END WHERE id = :id""",
        {"status": status, "now": tx.now + timedelta(seconds=2), "id": run_id},
    )


def all_pages(read: Callable[[PageRequest], Document], limit: int) -> list[Document]:
    """The items of every page; each page but the last is full."""
    items: list[Document] = []
    cursor = None
    while True:
        found = read(PageRequest(limit, cursor))
        items += found["items"]
        cursor = found["nextCursor"]
        if cursor is None:
            return items
        assert len(found["items"]) == limit
