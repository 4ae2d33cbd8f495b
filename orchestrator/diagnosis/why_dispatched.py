"""Reasons why a task run of an HTTP service does not start: its service, its instances, nobody dispatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeweave.orchestrator.diagnosis.why_reasons import Reason, reason
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction

_SERVICE = """
SELECT s.id, s.kind, s.disabled_at, k.orphaned_at, count(i.base_url) AS instances,
    count(i.base_url) FILTER (WHERE i.set_aside_at IS NULL) AS ready,
    (array_agg(i.last_error ORDER BY i.set_aside_at DESC) FILTER (WHERE i.last_error IS NOT NULL))[1] AS error
FROM tasks AS k JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
    LEFT JOIN service_instances AS i ON i.tenant_id = s.tenant_id AND i.service_id = s.id
        AND k.id = ANY(i.tasks)
WHERE k.tenant_id = :tenant AND k.id = :task
GROUP BY s.id, s.kind, s.disabled_at, k.orphaned_at
"""


def service_reasons(tx: Transaction, row: Any) -> Iterator[Reason]:
    """Why its service cannot take a dispatch. `row` is a row of why.py's query."""
    service: Any = tx.execute(_SERVICE, {"tenant": row.tenant_id, "task": row.task_id}).one_or_none()
    if service is None or service.kind != "http":
        return
    if service.disabled_at is not None:
        text = (
            f"service {service.id} is switched off since {iso(service.disabled_at)}; "
            f"`pipeweave services set {service.id} --enable` switches it on"
        )
        yield reason("service_disabled", text, serviceId=service.id, since=iso(service.disabled_at))
    if not service.instances:
        text = f"service {service.id} has no instance with task {row.task_id}: start one, it registers itself"
        yield reason("service_away", text, serviceId=service.id, instances=0, lastError=None)
    elif not service.ready:
        because = f" (last error: {service.error})" if service.error else ""
        shown = "it" if service.instances == 1 else f"its {service.instances:,} instances"
        text = (
            f"service {service.id} has no instance that answers{because}; "
            f"`pipeweave services show {service.id}` shows {shown}"
        )
        numbers = {"serviceId": service.id, "instances": service.instances, "lastError": service.error}
        yield reason("service_away", text, **numbers)


def dispatcher_reasons(tx: Transaction, row: Any, *, is_serverless: bool) -> Iterator[Reason]:
    """Who dispatches it, or that nobody does."""
    alive, _ = worker_processes.alive_of_queue(tx, row.queue)
    if alive or is_serverless:
        return
    text = (
        "no running worker dispatches to HTTP services: start one (`pipeweave worker --app MODULE` without "
        "--queues), or `pipeweave dispatcher`"
    )
    yield reason("no_dispatcher", text, queue=row.queue, workers=0)
