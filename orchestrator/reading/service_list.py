"""Read models of services: the list, and one service with the instances that its dispatches go to."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.documents.services import Instance, Service, ServiceDetail
from pipeweave.orchestrator.registry import instances, unknown_names
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

# A service comes with so many of its instances: as many as a dispatch chooses from.
INSTANCES_SHOWN = instances.MOST_CHOSEN_FROM

_SERVICES = """
SELECT s.id, s.kind, s.version, s.base_url, s.queue, s.status, s.registered_at, s.last_heartbeat,
       s.storage_access, s.token_format, s.base_url_override, s.disabled_at,
       (SELECT count(*) FROM tasks AS t
        WHERE t.tenant_id = s.tenant_id AND t.service_id = s.id AND t.orphaned_at IS NULL) AS task_count,
       w.worker_count, w.heartbeat_at, i.instance_count, i.ready_instances, i.last_seen_at
FROM services AS s LEFT JOIN LATERAL (
    SELECT count(*) AS worker_count, max(w.heartbeat_at) AS heartbeat_at FROM workers AS w
    WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id AND w.stopped_at IS NULL) AS w ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS instance_count, count(*) FILTER (WHERE i.set_aside_at IS NULL) AS ready_instances,
        max(i.last_seen_at) AS last_seen_at
    FROM service_instances AS i WHERE i.tenant_id = s.tenant_id AND i.service_id = s.id) AS i ON true
WHERE s.tenant_id = :tenant AND {where} ORDER BY s.id LIMIT :limit
"""


def services(tx: Transaction, tenant: str, page: PageRequest) -> Document:
    """The tenant's services by id, with the numbers of their instances: {items, nextCursor}."""
    after = page.after("services", str)
    where = "s.id > :after" if after else "true"
    parameters = {"tenant": tenant, "after": after and after[0], "limit": page.limit + 1}
    rows = tx.execute(_SERVICES.format(where=where), parameters).all()
    return page.cut(rows, "services", lambda row: (row.id,), _service)


def service(tx: Transaction, tenant: str, service_id: str) -> Document:
    """One service with its instances: first those that take dispatches, then the others; at most
    INSTANCES_SHOWN.

    Raises:
        NotFound: the tenant has no such service.
    """
    row = _row(tx, tenant, service_id)
    rows = [] if row.kind != "http" else tx.execute(_INSTANCES, _of_service(tenant, service_id)).all()
    return _service(row, ServiceDetail, instances=[Instance.of(each) for each in rows])


def require_service(tx: Transaction, tenant: str, service_id: str) -> None:
    """Check that a tenant has a service.

    Raises:
        NotFound: the tenant has no such service.
    """
    _row(tx, tenant, service_id)


def _row(tx: Transaction, tenant: str, service_id: str) -> Any:
    parameters = {"tenant": tenant, "id": service_id, "limit": 1}
    row = tx.execute(_SERVICES.format(where="s.id = :id"), parameters).one_or_none()
    if row is None:
        raise unknown_names.not_found(tx, tenant, "service", service_id, serviceId=service_id)
    return row


def _service(row: Any, answer: type[Service] = Service, **more: Any) -> Document:
    last_heartbeat = max(filter(None, (row.last_heartbeat, row.heartbeat_at)))
    last_seen = max(filter(None, (last_heartbeat, row.last_seen_at)))
    return answer.of(row, last_heartbeat=last_heartbeat, last_seen=last_seen, **more)


_INSTANCES = """
SELECT i.base_url, i.registered_url, i.version, i.registered_at, i.last_seen_at, i.set_aside_at, i.probe_at,
       i.refusals, i.last_error, i.tasks
FROM service_instances AS i WHERE i.tenant_id = :tenant AND i.service_id = :service
ORDER BY i.set_aside_at NULLS FIRST, i.base_url LIMIT :most
"""


def _of_service(tenant: str, service_id: str) -> dict[str, Any]:
    return {"tenant": tenant, "service": service_id, "most": INSTANCES_SHOWN}
