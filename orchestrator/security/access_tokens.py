"""Creates, verifies, lists and revokes access tokens. Only a token's SHA-256 is stored."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidId, InvalidInput, NotFound, Unauthenticated
from pipeweave.orchestrator.domain import in_utc
from pipeweave.orchestrator.store.database import Transaction

READ, APPROVE, WRITE, ADMIN, WORKER, TICK = (
    "orchestrator:read",
    "orchestrator:approve",
    "orchestrator:write",
    "orchestrator:admin",
    "orchestrator:worker",
    "orchestrator:tick",
)


IMPLIED: dict[str, frozenset[str]] = {
    READ: frozenset({READ}),
    APPROVE: frozenset({APPROVE, READ}),
    WRITE: frozenset({WRITE, APPROVE, READ}),
    ADMIN: frozenset({ADMIN, WRITE, APPROVE, READ, TICK}),
    WORKER: frozenset({WORKER}),
    TICK: frozenset({TICK}),
}
"""Scope -> the scopes it includes. No other scope includes a service's: an administrator is not a worker.

A token with the scope TICK alone, for a cloud's scheduler that calls the tick, can do nothing else. The tick
acts for all tenants: an administrator may call it with a token that is valid for all tenants."""


EVERY_TENANT = "*"


PREFIX = "pw_"


TOKEN_ID = "tok"


# A token or session in use is noted as used once in this time, not with each request.
USED_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class CallerAccess:
    """A verified token with its tenants and scopes.

    Args:
        is_use_due: it is time to call `record_use`.
        groups: of people, for which it may decide approvals.
    """

    id: UUID
    name: str
    tenants: tuple[str, ...]
    scopes: tuple[str, ...]
    is_use_due: bool = False
    groups: tuple[str, ...] = ()

    def allows(self, scope: str) -> bool:
        """Whether one of the token's scopes is this scope or includes it."""
        if scope == TICK and scope not in self.scopes and not self.may_enter(EVERY_TENANT):
            return False
        return any(scope in IMPLIED.get(own, ()) for own in self.scopes)

    def may_enter(self, tenant: str) -> bool:
        """Whether the token is valid for this tenant."""
        return tenant in self.tenants or EVERY_TENANT in self.tenants

    def covers(self, tenants: Collection[str]) -> bool:
        """Whether the token is valid for all of these tenants; `*` stands for every tenant."""
        return all(map(self.may_enter, tenants))


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A new token: its id, and the text that is shown once."""

    id: UUID
    token: str
    expires_at: datetime | None


# Held until the commit: a token that is revoked meanwhile makes none, or its new one is found with it.
_MAKER = """
SELECT expires_at FROM access_tokens
WHERE id = :id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) FOR SHARE
"""
_INSERT = """
INSERT INTO access_tokens (id, name, token_hash, tenants, scopes, created_at, expires_at, made_by, groups)
VALUES (:id, :name, :hash, CAST(:tenants AS text[]), CAST(:scopes AS text[]), :now, :expires_at, :made_by,
    CAST(:groups AS text[]))
"""


def create_token(
    tx: Transaction,
    *,
    name: str,
    tenants: Collection[str],
    scopes: Collection[str],
    expires_at: datetime | None = None,
    groups: Collection[str] = (),
) -> str:
    """As `make_token`; returns only the text."""
    made = make_token(tx, name=name, tenants=tenants, scopes=scopes, expires_at=expires_at, groups=groups)
    return made.token


def make_token(
    tx: Transaction,
    *,
    name: str,
    tenants: Collection[str],
    scopes: Collection[str],
    expires_at: datetime | None = None,
    maker: UUID | None = None,
    groups: Collection[str] = (),
) -> MadeToken:
    """Make a token `pw_` + 43 characters. It is returned once and cannot be read again.

    Args:
        name: a label for people; several tokens may have the same name.
        tenants: tenant ids, or `*` for every tenant.
        scopes: of `orchestrator:read`, `:approve`, `:write`, `:admin`, `:worker` and `:tick`.
        expires_at: aware time from which the token is refused; None: it never expires, or as its maker does.
        maker: the token that makes it, whose end is its latest; None: a command on the database itself.
        groups: of people, for which it may decide approvals; names as of tenants.

    Raises:
        InvalidInput: naming each wrong field.
        Unauthenticated: the maker was revoked, or has expired, meanwhile.
    """
    latest = None if maker is None else _end_of(tx, maker)
    expires_at = latest if expires_at is None else expires_at
    if faults := _faults(tx, name, tenants, scopes, expires_at, groups):
        raise InvalidInput(f"{faults[0].field}: {faults[0].message}", errors=faults)
    if latest is not None and expires_at is not None and expires_at > latest:
        late = FieldError(
            "expiresAt",
            "must not be later than the end of the token that makes it",
            "too_big",
            latest.isoformat(),
        )
        raise InvalidInput(f"expiresAt: {late.message}", errors=[late])
    token = PREFIX + secrets.token_urlsafe(32)
    parameters = {
        "id": (made := tx.new_id()),
        "name": name,
        "hash": _hash(token),
        "tenants": sorted(set(tenants)),
        "scopes": sorted(set(scopes)),
        "now": tx.now,
        "expires_at": None if expires_at is None else in_utc(expires_at),
        "made_by": maker,
        "groups": sorted(set(groups)),
    }
    tx.execute(_INSERT, parameters)
    return MadeToken(made, token, expires_at)


def _end_of(tx: Transaction, token_id: UUID) -> datetime | None:
    row = tx.execute(_MAKER, {"id": token_id, "now": tx.now}).one_or_none()
    if row is None:
        raise Unauthenticated("the token was revoked, or has expired")
    end: datetime | None = row.expires_at
    return end


_VERIFY = """
SELECT id, name, tenants, scopes, used_at, groups FROM access_tokens
WHERE token_hash = :hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
"""


def verify(tx: Transaction, token: str) -> CallerAccess | None:
    """The tenants and scopes of a token; None when it is unknown, expired or revoked.

    It costs one look-up by a unique index.
    """
    if not token.startswith(PREFIX) or not token.isascii():
        return None
    row = tx.execute(_VERIFY, {"hash": _hash(token), "now": tx.now}).one_or_none()
    if row is None:
        return None
    is_use_due = row.used_at is None or tx.now - row.used_at >= USED_EVERY
    return CallerAccess(
        row.id, row.name, tuple(row.tenants), tuple(row.scopes), is_use_due, tuple(row.groups)
    )


_USED = """
UPDATE access_tokens SET used_at = :now
WHERE id = :id AND (used_at IS NULL OR used_at <= CAST(:now AS timestamptz) - CAST(:every AS interval))
"""


def record_use(tx: Transaction, token_id: UUID) -> None:
    """Note that a token is in use, once in USED_EVERY."""
    tx.execute(_USED, {"id": token_id, "now": tx.now, "every": USED_EVERY})


# Locked, so that none of them makes another token meanwhile.
_FIND = """
SELECT t.id FROM access_tokens AS t
WHERE (t.revoked_at IS NULL OR :takes_children) AND (:is_all OR t.tenants <@ CAST(:tenants AS text[]))
  AND {where} FOR UPDATE
"""
_REVOKE = """
UPDATE access_tokens AS t SET revoked_at = :now
WHERE t.id = ANY(CAST(:ids AS uuid[])) AND t.revoked_at IS NULL RETURNING t.id
"""


# What a token made, and what that made; their tenants are among its own.
_REVOKE_CHILDREN = """
WITH RECURSIVE made (id) AS (
    SELECT t.id FROM access_tokens AS t WHERE t.made_by = ANY(CAST(:ids AS uuid[]))
    UNION
    SELECT t.id FROM access_tokens AS t JOIN made AS m ON t.made_by = m.id
)
UPDATE access_tokens AS t SET revoked_at = :now FROM made AS m
WHERE t.id = m.id AND t.revoked_at IS NULL RETURNING t.id
"""


def revoke(
    tx: Transaction,
    name_or_id: str,
    tenants: Collection[str] = (EVERY_TENANT,),
    *,
    takes_children: bool = False,
) -> list[str]:
    """Revoke every valid token of this name or, if there is none, the token with this id (`tok_…`).

    Args:
        name_or_id: a name, an id, or the beginning of one with `tok_`.
        tenants: those of the caller: a token that is valid for further tenants is not there for it.
        takes_children: also revoke the tokens that these made, and what those made, also where the makers
            were revoked before.

    Returns:
        The ids of the revoked tokens.

    Raises:
        NotFound: no valid token has this name or id, and none that is wanted was made by one.
        InvalidInput: the ids of several such tokens begin like this.
    """
    parameters: dict[str, Any] = {"name": name_or_id.replace("\0", ""), "takes_children": takes_children}
    parameters |= {"is_all": EVERY_TENANT in tenants, "tenants": list(tenants)}
    token_ids = list(tx.execute(_FIND.format(where="t.name = :name"), parameters).scalars())
    if not token_ids and name_or_id.startswith(f"{TOKEN_ID}_"):
        parameters["first"], parameters["last"] = ids.span(TOKEN_ID, name_or_id)
        token_ids = list(
            tx.execute(_FIND.format(where="t.id BETWEEN :first AND :last"), parameters).scalars()
        )
        if len(token_ids) > 1:
            named = ", ".join(sorted(ids.show(TOKEN_ID, each) for each in token_ids)[:5])
            raise InvalidInput(
                f"several tokens begin with {name_or_id!r}: {named}", hint="give more of the id"
            )
    revoked = list(tx.execute(_REVOKE, {"ids": token_ids, "now": tx.now}).scalars())
    if takes_children:
        revoked += _revoke_children(tx, token_ids)
    if not revoked:
        raise NotFound(f"token {name_or_id[:200]!r} not found", hint="see `pipeweave token list`")
    return [ids.show(TOKEN_ID, each) for each in revoked]


def _revoke_children(tx: Transaction, makers: Sequence[UUID]) -> list[UUID]:
    """Revoke what these made, until none is left: a child may have made one while its row was awaited."""
    revoked: list[UUID] = []
    while made := list(tx.execute(_REVOKE_CHILDREN, {"ids": makers, "now": tx.now}).scalars()):
        revoked += made
    return revoked


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _faults(
    tx: Transaction,
    name: str,
    tenants: Collection[str],
    scopes: Collection[str],
    expires_at: datetime | None,
    groups: Collection[str],
) -> Sequence[FieldError]:
    faults = []
    if not 1 <= len(name) <= 200 or "\0" in name:
        faults.append(FieldError("name", "must be a text of 1 to 200 characters"))
    if not tenants:
        faults.append(FieldError("tenants", "must name a tenant, or * for every tenant"))
    for tenant in tenants:
        if tenant != EVERY_TENANT and not _is_name(tenant):
            faults.append(FieldError("tenants", f"{tenant!r} is not a valid tenant id", "invalid_id"))
    for group in groups:
        if not _is_name(group):
            faults.append(FieldError("groups", f"{group!r} is not a valid name of a group", "invalid_id"))
    unknown = sorted(set(scopes) - IMPLIED.keys())
    if unknown or not scopes:
        prefix = f"unknown: {', '.join(unknown)}; " if unknown else ""
        faults.append(
            FieldError("scopes", f"{prefix}use one or more of {', '.join(IMPLIED)}", "invalid_value")
        )
    if expires_at is not None and (expires_at.tzinfo is None or expires_at <= tx.now):
        faults.append(FieldError("expiresAt", "must be a time in the future with a time zone"))
    return faults


def _is_name(text: str) -> bool:
    try:
        ids.check_name(text, "tenant")
    except InvalidId:
        return False
    return True
