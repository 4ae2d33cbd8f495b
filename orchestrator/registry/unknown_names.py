"""Answers an unknown name with the nearest known one, or with some that exist: of the same tenant only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pipeweave.errors import NotFound
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.suggestions import nearest

Kind = Literal["pipeline", "task", "service", "schedule", "trigger", "bundle"]
# What lists are chosen by.
Listed = Literal["pipeline", "task", "service"]

# The most names that are compared with a wrong one, and the most that the error shows.
MOST_COMPARED = 500
SHOWN = 5

_NAMES: dict[Kind, str] = {
    "pipeline": "SELECT id FROM pipelines WHERE tenant_id = :tenant ORDER BY id LIMIT :most",
    "task": (
        "SELECT id FROM tasks WHERE tenant_id = :tenant AND orphaned_at IS NULL ORDER BY id LIMIT :most"
    ),
    "service": "SELECT id FROM services WHERE tenant_id = :tenant ORDER BY id LIMIT :most",
    "schedule": "SELECT id FROM schedules WHERE tenant_id = :tenant ORDER BY id LIMIT :most",
    "trigger": "SELECT id FROM triggers WHERE tenant_id = :tenant ORDER BY id LIMIT :most",
    "bundle": "SELECT DISTINCT id FROM bundles WHERE tenant_id = :tenant ORDER BY id LIMIT :most",
}

_KNOWN: dict[Listed, str] = {
    "pipeline": "SELECT 1 FROM pipelines AS p WHERE p.tenant_id = :tenant AND p.id = :id",
    "task": "SELECT 1 FROM tasks AS t WHERE t.tenant_id = :tenant AND t.id = :id",
    "service": "SELECT 1 FROM services AS s WHERE s.tenant_id = :tenant AND s.id = :id",
}

_HOW_TO_MAKE: dict[Kind, str] = {
    "pipeline": "a worker stores those of its --app when it starts, or PUT /api/pipelines/{id} stores one",
    "task": "a worker registers those of its --app when it starts",
    "service": "a worker registers its service when it starts",
    "schedule": "PUT /api/schedules/{id} stores one, as does `pipeweave schedule set`",
    "bundle": "`pipeweave bundle install` installs one",
    "trigger": "PUT /api/triggers/{id} stores one, as does `pipeweave triggers webhook`",
}


def not_found(tx: Transaction, tenant: str, kind: Kind, name: str, **context: Any) -> NotFound:
    """The error for a name that the tenant does not have. Costs one statement, and one more if it has none.

    Args:
        context: further members of the problem document.
    """
    known = names(tx, tenant, kind)
    said = hint(kind, name, known) if known or _exists(tx, tenant) else _no_tenant(kind, tenant)
    return NotFound(f"{kind} {name[:200]!r} not found", hint=said, **context)


def require(tx: Transaction, tenant: str, kind: Listed, *named: str) -> None:
    """Tell a misspelt name from one that has nothing yet: both leave a list empty.

    For a list that is empty: what is gone, and left something, is still found by its name.

    Raises:
        NotFound: the tenant never had one of these names, or has it no more.
    """
    for name in named:
        if tx.execute(_KNOWN[kind], {"tenant": tenant, "id": name}).first() is None:
            raise not_found(tx, tenant, kind, name)


def _exists(tx: Transaction, tenant: str) -> bool:
    return tx.execute("SELECT 1 FROM tenants WHERE id = :id", {"id": tenant}).first() is not None


def _no_tenant(kind: Kind, tenant: str) -> str:
    return f"tenant {tenant!r} does not exist yet; is its name right? {_HOW_TO_MAKE[kind]}"


def names(tx: Transaction, tenant: str, kind: Kind) -> Sequence[str]:
    """The names that a tenant has, in their order, at most MOST_COMPARED."""
    return list(tx.execute(_NAMES[kind], {"tenant": tenant, "most": MOST_COMPARED}).scalars())


def hint(kind: Kind, name: str, known: Sequence[str]) -> str:
    """`did you mean 'orders'?`, or some of the names that exist, or how to make one (pure)."""
    if not known:
        return f"the tenant has no {kind} yet; {_HOW_TO_MAKE[kind]}"
    if (near := nearest(name, known)) is not None:
        return f"did you mean {near!r}?"
    more = "" if len(known) <= SHOWN else f" and {len(known) - SHOWN} more"
    more = " and many more" if len(known) >= MOST_COMPARED else more
    return f"known {kind}s: {', '.join(known[:SHOWN])}{more}"
