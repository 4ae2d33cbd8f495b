"""Adds and revokes the keys that a tenant trusts. A key that is revoked stays so.

Verbs on keys and bundles of a tenant come one after the other, with its registrations: they hold the same
lock. So a key cannot be revoked between the check of a signature and the row that follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.bundles.bundle import TrustedKey
from pipeweave.bundles.signing_keys import key_id_of
from pipeweave.errors import BundleKeyRevoked, Conflict, FieldError, LimitExceeded, NotFound
from pipeweave.orchestrator.bundles import parking
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Transaction

MOST_KEYS = 100
"""The keys of one tenant, with those that are revoked."""

_KEYS = (
    "SELECT id, public_key, revoked_at IS NOT NULL AS is_revoked FROM bundle_keys WHERE tenant_id = :tenant"
)


def keys_of(tx: Transaction, tenant: str) -> dict[str, TrustedKey]:
    """All keys of a tenant, also those that are revoked, by id."""
    rows: list[Any] = list(tx.execute(_KEYS, {"tenant": tenant}))
    return {row.id: TrustedKey(bytes(row.public_key), row.is_revoked) for row in rows}


_SAME = """
SELECT id, name, revoked_at FROM bundle_keys
WHERE tenant_id = :tenant AND (id = :id OR (name = :name AND revoked_at IS NULL))
ORDER BY id = :id DESC LIMIT 1
"""
_COUNT = "SELECT count(*) FROM bundle_keys WHERE tenant_id = :tenant"
_ADD = """
INSERT INTO bundle_keys (tenant_id, id, name, public_key, added_at, added_by)
VALUES (:tenant, :id, :name, :public_key, :now, :by)
"""


def add(tx: Transaction, tenant: str, name: str, public_key: bytes, *, by: str) -> str:
    """Trust a key from now on; its id. Adding a key again changes nothing.

    Args:
        name: for people, unique among the keys that are trusted.
        by: who adds it.

    Raises:
        BundleKeyRevoked: it was revoked.
        Conflict: it has another name, or another key has this name.
        LimitExceeded: the tenant has as many keys as it may have.
    """
    service_registration.begin(tx, tenant)
    key_id = key_id_of(public_key)
    named = {"tenant": tenant, "id": key_id, "name": name}
    same = tx.execute(_SAME, named).one_or_none()
    if same is not None:
        _check_same(same, key_id, name)
        return key_id
    if tx.execute(_COUNT, named).scalar_one() >= MOST_KEYS:
        raise LimitExceeded(f"a tenant has at most {MOST_KEYS} keys")
    tx.execute(_ADD, {**named, "public_key": public_key, "now": tx.now, "by": by[:300]})
    return key_id


def _check_same(same: Any, key_id: str, name: str) -> None:
    if same.id != key_id:
        problem = f"is that of key {same.id}"
        raise Conflict(f"the name {name!r} {problem}", errors=[FieldError("name", problem, "taken")])
    if same.revoked_at is not None:
        raise BundleKeyRevoked(
            f"key {key_id} was revoked, and stays so",
            hint="sign with a new key: `pipeweave bundle keygen FILE`",
        )
    if same.name != name:
        raise Conflict(f"key {key_id} is trusted already, by the name {same.name!r}")


@dataclass(frozen=True, slots=True)
class RevokedKey:
    """What followed when a key was revoked: the bundles that wait for another signature."""

    key_id: str
    parked: tuple[str, ...]


_REVOKE = """
UPDATE bundle_keys SET revoked_at = :now, revoke_reason = :reason
WHERE tenant_id = :tenant AND (id = :key OR (name = :key AND revoked_at IS NULL)) AND revoked_at IS NULL
RETURNING id
"""
_IS_REVOKED = "SELECT id FROM bundle_keys WHERE tenant_id = :tenant AND id = :key"


def revoke(tx: Transaction, tenant: str, key: str, reason: str | None = None) -> RevokedKey:
    """Trust a key no more. Bundles that no other trusted key has signed are parked.

    Args:
        key: its id or its name.

    Raises:
        NotFound: the tenant has no such key.
    """
    service_registration.begin(tx, tenant)
    named = {"tenant": tenant, "key": key, "reason": reason, "now": tx.now}
    key_id = tx.execute(_REVOKE, named).scalar_one_or_none()
    if key_id is None:
        if (key_id := tx.execute(_IS_REVOKED, named).scalar_one_or_none()) is None:
            raise NotFound(
                f"the tenant has no bundle key {key[:100]!r}", hint="`pipeweave bundle keys list` lists them"
            )
        return RevokedKey(key_id, ())
    return RevokedKey(key_id, parking.park_untrusted(tx, tenant))
