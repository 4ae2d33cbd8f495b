"""Services, tasks and pipelines for tests, in few words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.runs.service_registration import Registered
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.orchestrator.store.keyset import Document, Page
from pipeweave.spec.document import parse_spec
from pipeweave.spec.pipeline_spec import PipelineSpec


def a_task(id: str, code: str = "first", **options: Any) -> TaskRegistration:
    """A task whose code hash follows from `code`."""
    return TaskRegistration(id, hashlib.sha256(code.encode()).hexdigest(), **options)


def a_service(*tasks: TaskRegistration | str, id: str = "python", version: str = "1.0.0") -> Registration:
    """A Python service with these tasks."""
    listed = [a_task(each) if isinstance(each, str) else each for each in tasks]
    return Registration(id, version, tasks=listed)


def register(tx: Transaction, tenant: str, *tasks: TaskRegistration | str, **service: Any) -> Registered:
    """Register a Python service with these tasks."""
    return service_registration.register(tx, tenant, a_service(*tasks, **service))


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


def all_pages(read: Callable[[Page], Document], limit: int) -> list[Document]:
    """The items of every page; each page but the last is full."""
    items: list[Document] = []
    cursor = None
    while True:
        found = read(Page(limit, cursor))
        items += found["items"]
        cursor = found["nextCursor"]
        if cursor is None:
            return items
        assert len(found["items"]) == limit
