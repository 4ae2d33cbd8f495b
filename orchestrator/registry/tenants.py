"""Creates the row of a tenant when the tenant is first named, and refuses names of none where that counts."""

from __future__ import annotations

from pipeweave import ids
from pipeweave.errors import FieldError, NotFound
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.suggestions import did_you_mean


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


# The most names that are compared with a wrong one.
_COMPARED = 500
_BEGINS = "a tenant begins when a worker with an --app or an HTTP service registers for it"


def require_tenant(tx: Transaction, tenant: str) -> None:
    """Make sure that a tenant exists.

    Raises:
        NotFound: it does not.
    """
    if tx.execute("SELECT 1 FROM tenants WHERE id = :id", {"id": tenant}).first() is None:
        known = tx.execute("SELECT id FROM tenants ORDER BY id LIMIT :most", {"most": _COMPARED}).scalars()
        raise NotFound(
            f"there is no tenant {tenant!r}",
            errors=[FieldError("tenant", "does not exist", "unknown")],
            hint=did_you_mean(tenant, list(known), default=_BEGINS),
        )
