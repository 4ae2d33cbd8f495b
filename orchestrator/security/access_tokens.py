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
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.security import token_bounds
from pipeweave.orchestrator.security.caller_access import (
    ADMIN,
    APPROVE,
    EVERY_TENANT,
    IMPLIED,
    READ,
    TICK,
    WORKER,
    WRITE,
    CallerAccess,
)
from pipeweave.orchestrator.security.gates import GATES, gates_of
from pipeweave.orchestrator.security.token_bounds import (
    ADMIN_LIFE,
    NO_BOUNDS,
    NO_MORE_THAN_PERSON,
    NO_MORE_THAN_TOKEN,
    PERSON_PREFIX,
    TokenBounds,
    TokenWish,
)
from pipeweave.orchestrator.store.database import Transaction

__all__ = [
    "ADMIN",
    "ADMIN_LIFE",
    "APPROVE",
    "EVERY_TENANT",
    "IMPLIED",
    "PREFIX",
    "READ",
    "TICK",
    "TOKEN_ID",
    "USED_EVERY",
    "WORKER",
    "WRITE",
    "CallerAccess",
    "MadeToken",
    "TokenBounds",
    "access_of",
    "create_token",
    "make_token",
    "record_use",
    "revoke",
    "verify",
]

PREFIX = "pw_"
TOKEN_ID = "tok"
# A token or session in use is noted as used once in this time, not with each request.
USED_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A new token: its id, the text that is shown once, and its bounds, also those of its maker."""

    id: UUID
    token: str
    expires_at: datetime | None
    bounds: TokenBounds


# What the wish leaves out is as the maker has it.
_INSERT = """
INSERT INTO access_tokens (id, name, token_hash, tenants, scopes, created_at, expires_at, made_by,
    made_by_subject, groups, networks, service_id, certificate)
SELECT :id, :name, :hash, CAST(:tenants AS text[]), CAST(:scopes AS text[]), :now,
    COALESCE(:expires_at, LEAST(m.expires_at, CAST(:default_end AS timestamptz))), m.token_id, m.subject,
    CAST(:groups AS text[]),
    CASE WHEN cardinality(w.networks) = 0 THEN m.networks ELSE w.networks END, :service_id,
    COALESCE(:certificate, m.certificate)
FROM (SELECT CAST(CAST(:networks AS text[]) AS cidr[]) AS networks) AS w, {maker} AS m
RETURNING expires_at, CAST(networks AS text[]) AS networks, certificate
"""
_BY_COMMAND = _INSERT.format(
    maker="""(SELECT CAST(NULL AS uuid) AS token_id, CAST(NULL AS text) AS subject,
    CAST(NULL AS timestamptz) AS expires_at, CAST('{}' AS cidr[]) AS networks,
    CAST(NULL AS text) AS certificate)"""
)
# The maker's row is held until the commit: one that is revoked meanwhile makes none, or its new one is found
# with it.
_BY_TOKEN = _INSERT.format(
    maker=f"""(SELECT t.id AS token_id, CAST(NULL AS text) AS subject, t.expires_at, t.networks,
        t.certificate
    FROM access_tokens AS t
    WHERE t.id = :maker AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)
        AND {NO_MORE_THAN_TOKEN}
    FOR SHARE)"""
)
_BY_PERSON = _INSERT.format(
    maker=f"""(SELECT CAST(NULL AS uuid) AS token_id, s.subject, CAST(:longest AS timestamptz) AS expires_at,
        CAST('{{}}' AS cidr[]) AS networks, CAST(NULL AS text) AS certificate
    FROM ui_sessions AS s
    WHERE s.id = :session_id AND s.subject IS NOT NULL AND s.expires_at > :now
        AND {NO_MORE_THAN_PERSON}
    FOR SHARE)"""
)


def create_token(
    tx: Transaction,
    *,
    name: str,
    tenants: Collection[str],
    scopes: Collection[str],
    expires_at: datetime | None = None,
    groups: Collection[str] = (),
    bounds: TokenBounds = NO_BOUNDS,
) -> str:
    """As `make_token`; returns only the text."""
    return make_token(
        tx, name=name, tenants=tenants, scopes=scopes, expires_at=expires_at, groups=groups, bounds=bounds
    ).token


def make_token(
    tx: Transaction,
    *,
    name: str,
    tenants: Collection[str],
    scopes: Collection[str],
    expires_at: datetime | None = None,
    maker: UUID | None = None,
    person: UUID | None = None,
    groups: Collection[str] = (),
    bounds: TokenBounds = NO_BOUNDS,
) -> MadeToken:
    """Make a token `pw_` + 43 characters. It is returned once and cannot be read again.

    Args:
        name: a label for people; several tokens may have the same name.
        tenants: tenant ids, or `*` for every tenant.
        scopes: of `orchestrator:read`, `:approve`, `:write`, `:admin`, `:worker` and `:tick`.
        expires_at: aware time from which the token is refused; None: as its maker, and one of an
            administrator after ADMIN_LIFE at the latest; without both, never.
        maker: the token that makes it. The new one is good for nothing that its maker is not good for, and
            not for longer; None: a person, or a command on the database itself.
        person: the session of the person who makes it. One of their roles allows all that the new one does,
            and it ends after ADMIN_LIFE at the latest.
        groups: of people, for which it may decide approvals; names as of tenants.
        bounds: from where, and for which service; what is left out is as the maker has it.

    Raises:
        InvalidInput: naming each wrong field.
        Unauthenticated: the maker was revoked, or has expired, meanwhile.
        Forbidden: no role of the person allows it.
    """
    wish = TokenWish(name, tenants, scopes, expires_at, groups, bounds)
    if faults := token_bounds.faults_of(wish, tx.now):
        raise InvalidInput(f"{faults[0].field}: {faults[0].message}", errors=faults)
    made, token = tx.new_id(), PREFIX + secrets.token_urlsafe(32)
    parameters = {"id": made, "hash": _hash(token), **wish.parameters(tx.now)}
    if person is not None:
        longest = tx.now + ADMIN_LIFE
        row = tx.execute(_BY_PERSON, {**parameters, "session_id": person, "longest": longest}).one_or_none()
        if row is None:
            raise token_bounds.refusal_of_person(wish, longest)
    elif maker is None:
        row = tx.execute(_BY_COMMAND, parameters).one()
    else:
        row = tx.execute(_BY_TOKEN, {**parameters, "maker": maker}).one_or_none()
        if row is None:
            raise token_bounds.refusal(tx, wish, maker)
    whole = TokenBounds(tuple(row.networks), bounds.service_id, row.certificate)
    return MadeToken(made, token, row.expires_at, whole)


_VERIFY = f"""
SELECT t.id, t.name, t.tenants, t.scopes, t.used_at, t.groups, CAST(t.networks AS text[]) AS networks,
    t.service_id, t.certificate, {GATES} AS gates
FROM access_tokens AS t
WHERE t.token_hash = :hash AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)
"""


def verify(tx: Transaction, token: str, *, until: datetime | None = None) -> CallerAccess | None:
    """The tenants and scopes of a token; None when it is unknown, expired or revoked.

    It costs one look-up by a unique index.

    Args:
        until: the token must be valid until then; None: now.
    """
    if not token.startswith(PREFIX) or not token.isascii():
        return None
    row = tx.execute(_VERIFY, {"hash": _hash(token), "now": until or tx.now}).one_or_none()
    if row is None:
        return None
    is_use_due = row.used_at is None or tx.now - row.used_at >= USED_EVERY
    return access_of(row, is_use_due=is_use_due)


def access_of(row: Any, *, is_use_due: bool = False) -> CallerAccess:
    """What a token allows, by its row."""
    return CallerAccess(
        row.id,
        row.name,
        tuple(row.tenants),
        tuple(row.scopes),
        is_use_due,
        tuple(row.groups),
        networks=tuple(row.networks),
        service_id=row.service_id,
        certificate=row.certificate,
        gates=gates_of(row.gates),
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
        name_or_id: a name, an id, or the beginning of one with `tok_`; `oidc:…`: all that this person made.
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
    if not token_ids and name_or_id.startswith(PERSON_PREFIX):
        parameters["subject"] = name_or_id.removeprefix(PERSON_PREFIX).replace("\0", "")
        token_ids = list(tx.execute(_FIND.format(where="t.made_by_subject = :subject"), parameters).scalars())
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
