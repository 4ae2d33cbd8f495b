"""Creates the row of a tenant when the tenant is first named."""

from __future__ import annotations

from pipeweave import ids
from pipeweave.orchestrator.store.database import Transaction


def ensure_tenant(tx: Transaction, tenant: str) -> None:
    """Create the tenant, if it does not exist yet.

    Raises:
        InvalidId: the text is not a valid tenant id.
    """
    ids.check_name(tenant, "tenant")
    parameters = {"id": tenant, "now": tx.now}
    # Looked up first: most tenants exist, and a refused INSERT still costs a write.
    if tx.execute("SELECT 1 FROM tenants WHERE id = :id", parameters).first() is None:
        tx.execute(
            "INSERT INTO tenants (id, created_at) VALUES (:id, :now) ON CONFLICT DO NOTHING", parameters
        )
