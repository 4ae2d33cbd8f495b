"""Keeps what operators decide about HTTP services: where dispatches go, and whether there are any."""

from __future__ import annotations

from typing import Any

from pipeweave.errors import Conflict
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.store.database import Transaction

PEER, REGISTERED = "peer", "registered"

_BASE_URL = "SELECT base_url_override FROM services WHERE tenant_id = :tenant AND id = :id"


def base_url_of(tx: Transaction, tenant: str, service_id: str) -> str | None:
    """The URL, or `peer`, that replaces what instances register; None if there is none."""
    row: Any = tx.execute(_BASE_URL, {"tenant": tenant, "id": service_id}).one_or_none()
    return None if row is None else row.base_url_override


_CHANGE = """
UPDATE services SET
    base_url_override = CASE CAST(:base_url AS text) WHEN '' THEN base_url_override WHEN :registered THEN NULL
        ELSE :base_url END,
    disabled_at = CASE WHEN CAST(:is_disabled AS boolean) IS NULL THEN disabled_at
        WHEN CAST(:is_disabled AS boolean) THEN coalesce(disabled_at, now()) END,
    base_url = CASE WHEN CAST(:base_url AS text) IN ('', :registered, :peer) THEN base_url ELSE :base_url END
WHERE tenant_id = :tenant AND id = :id RETURNING kind
"""

# A URL stands for all instances, of which there is one then.
_ONE_INSTANCE = """
WITH newest AS (
    SELECT i.base_url FROM service_instances AS i WHERE i.tenant_id = :tenant AND i.service_id = :id
    ORDER BY i.registered_at DESC LIMIT 1
), others AS (
    DELETE FROM service_instances AS i USING newest AS n
    WHERE i.tenant_id = :tenant AND i.service_id = :id AND i.base_url <> n.base_url
)
UPDATE service_instances AS i SET base_url = :base_url, set_aside_at = NULL, probe_at = NULL, refusals = 0,
    last_error = NULL
FROM newest AS n WHERE i.tenant_id = :tenant AND i.service_id = :id AND i.base_url = n.base_url
"""


def change(
    tx: Transaction, tenant: str, service_id: str, *, base_url: str | None, is_disabled: bool | None
) -> None:
    """Change what is given; None leaves it as it is.

    Args:
        base_url: a URL, PEER, or REGISTERED for what instances register.

    Raises:
        NotFound: the tenant has no such service.
        Conflict: it is not an HTTP service.
    """
    parameters = {
        "tenant": tenant,
        "id": service_id,
        "base_url": base_url or "",
        "is_disabled": is_disabled,
        "registered": REGISTERED,
        "peer": PEER,
    }
    row: Any = tx.execute(_CHANGE, parameters).one_or_none()
    if row is None:
        raise unknown_names.not_found(tx, tenant, "service", service_id, serviceId=service_id)
    if row.kind != "http":
        raise Conflict(f"service {service_id!r} has Celery workers: nothing is dispatched to it")
    if base_url not in (None, PEER, REGISTERED):
        tx.execute(_ONE_INSTANCE, parameters)
