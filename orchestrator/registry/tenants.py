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


_TAKES_ONLY_SIGNED = "SELECT takes_only_signed FROM tenants WHERE id = :id"


def takes_only_signed(tx: Transaction, tenant: str) -> bool:
    """Whether a tenant takes only pipelines that signed bundles bring."""
    return bool(tx.execute(_TAKES_ONLY_SIGNED, {"id": tenant}).scalar_one_or_none())


_SET_ONLY_SIGNED = "UPDATE tenants SET takes_only_signed = :is_so WHERE id = :id"


def set_only_signed(tx: Transaction, tenant: str, *, is_so: bool) -> None:
    """Take only pipelines of signed bundles from now on, or others, too. What is stored stays as it is.

    Raises:
        NotFound: the tenant does not exist.
    """
    require_tenant(tx, tenant)
    tx.execute(_SET_ONLY_SIGNED, {"id": tenant, "is_so": is_so})


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
