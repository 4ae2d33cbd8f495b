"""Refuses pipelines that would send a secret to an HTTP service over a way that others can read."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import ParameterError, PipelineSpec, secret_errors, tasks_with_secrets

_REMOTE = """
SELECT k.id, i.base_url FROM tasks AS k
JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
LEFT JOIN service_instances AS i ON i.tenant_id = s.tenant_id AND i.service_id = s.id
WHERE k.tenant_id = :tenant AND k.id = ANY(CAST(:ids AS text[])) AND s.kind = 'http' ORDER BY k.id, i.base_url
"""


def errors_of_secrets(tx: Transaction, tenant: str, spec: PipelineSpec) -> list[ParameterError]:
    """The params whose secrets could not be given to their tasks. Reads nothing where none names a secret."""
    named = tasks_with_secrets(spec)
    if not named:
        return []
    rows = tx.execute(_REMOTE, {"tenant": tenant, "ids": sorted(named)}).all()
    remote: Collection[str] = {row.id for row in rows}
    exposed = {row.id: row.base_url for row in rows if row.base_url and not _is_private(row.base_url)}
    return list(secret_errors(spec, remote, exposed))


def _is_private(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
