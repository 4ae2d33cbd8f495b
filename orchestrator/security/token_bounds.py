"""Says what a wish for a token lacks, and why another token may not make it.

A token is good for nothing that its maker is not good for, and not for longer. `NO_MORE_THAN_TOKEN` holds
this in the statement that makes it; what is read here only explains a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, Forbidden, InvalidId, InvalidInput, PipeWeaveError, Unauthenticated
from pipeweave.orchestrator.domain import in_utc
from pipeweave.orchestrator.security.caller_access import ADMIN, EVERY_TENANT, IMPLIED, WORKER
from pipeweave.orchestrator.security.places import network_of
from pipeweave.orchestrator.store.database import Transaction

# A token of an administrator ends after this time, unless who makes it says when.
ADMIN_LIFE = timedelta(days=90)
MAX_NETWORKS = 50
# Names that begin like this are those of people whom an OIDC provider vouches for.
PERSON_PREFIX = "oidc:"


@dataclass(frozen=True, slots=True)
class TokenBounds:
    """What a token is bound to.

    Args:
        networks: it may be used from these alone, e.g. `10.1.0.0/16`; empty: from everywhere.
        service_id: of a worker: the only service that it may register.
        certificate: SHA-256 of the certificate that its user must have, as 64 hexadecimal digits.
    """

    networks: tuple[str, ...] = ()
    service_id: str | None = None
    certificate: str | None = None


NO_BOUNDS = TokenBounds()


@dataclass(frozen=True, slots=True)
class TokenWish:
    """A token that somebody wants to have; see `access_tokens.make_token`."""

    name: str
    tenants: Collection[str]
    scopes: Collection[str]
    expires_at: datetime | None = None
    groups: Collection[str] = ()
    bounds: TokenBounds = NO_BOUNDS

    def parameters(self, now: datetime) -> dict[str, Any]:
        """The parameters of the statement that makes it."""
        certificate = self.bounds.certificate
        return {
            "name": self.name,
            "tenants": sorted(set(self.tenants)),
            "scopes": sorted(set(self.scopes)),
            "now": now,
            "expires_at": None if self.expires_at is None else in_utc(self.expires_at),
            "default_end": now + ADMIN_LIFE if ADMIN in self.scopes else None,
            "groups": sorted(set(self.groups)),
            "networks": sorted({network_of(each) for each in self.bounds.networks}),
            "service_id": self.bounds.service_id,
            "certificate": None if certificate is None else certificate.lower(),
        }


# Of a maker `t`. Only an administrator makes tokens, and may give each scope.
NO_MORE_THAN_TOKEN = """(t.expires_at IS NULL OR CAST(:expires_at AS timestamptz) IS NULL
            OR :expires_at <= t.expires_at)
        AND ('*' = ANY(t.tenants) OR CAST(:tenants AS text[]) <@ t.tenants)
        AND ('orchestrator:admin' = ANY(t.scopes) OR CAST(:scopes AS text[]) <@ t.scopes)
        AND ('*' = ANY(t.tenants) OR NOT CAST(:scopes AS text[]) @> '{orchestrator:tick}')
        AND (t.networks = '{}' OR NOT EXISTS (SELECT 1
            FROM unnest(CAST(CAST(:networks AS text[]) AS cidr[])) AS n (network)
            WHERE NOT EXISTS (SELECT 1 FROM unnest(t.networks) AS o (network) WHERE n.network <<= o.network)))
        AND (t.service_id IS NULL OR t.service_id = :service_id)
        AND (t.certificate IS NULL OR CAST(:certificate AS text) IS NULL OR t.certificate = :certificate)"""

# Of the session `s` of a person: one role has all of it.
NO_MORE_THAN_PERSON = """(CAST(:expires_at AS timestamptz) IS NULL OR :expires_at <= :longest)
        AND EXISTS (SELECT 1 FROM jsonb_to_recordset(s.roles) AS r (tenants text[], scopes text[])
            WHERE 'orchestrator:admin' = ANY(r.scopes)
                AND ('*' = ANY(r.tenants) OR (CAST(:tenants AS text[]) <@ r.tenants
                    AND NOT CAST(:scopes AS text[]) @> '{orchestrator:tick}')))"""

_MAKER = """
SELECT t.expires_at, t.tenants, t.scopes, CAST(t.networks AS text[]) AS networks, t.service_id, t.certificate
FROM access_tokens AS t
WHERE t.id = :id AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)
"""


def refusal(tx: Transaction, wish: TokenWish, maker: UUID) -> PipeWeaveError:
    """Why the statement made no token."""
    row = tx.execute(_MAKER, {"id": maker, "now": tx.now}).one_or_none()
    faults = [] if row is None else list(_beyond(wish, row))
    if not faults:
        return Unauthenticated("the token was revoked, or has expired")
    hint = "a token is good for nothing that the token which makes it is not good for, and not for longer"
    return InvalidInput(f"{faults[0].field}: {faults[0].message}", errors=faults, hint=hint)


def refusal_of_person(wish: TokenWish, longest: datetime) -> PipeWeaveError:
    """Why the statement made no token for a person."""
    if wish.expires_at is not None and wish.expires_at > longest:
        late = f"must be within {ADMIN_LIFE.days} days: a person makes the token"
        fault = FieldError("expiresAt", late, "too_big", longest.isoformat())
        return InvalidInput(f"expiresAt: {late}", errors=[fault])
    return Forbidden("none of your roles allows what the token would allow, or the session is over")


def _beyond(wish: TokenWish, maker: Any) -> Iterator[FieldError]:
    bounds = wish.bounds
    if maker.expires_at and wish.expires_at and wish.expires_at > maker.expires_at:
        late = "must not be later than the end of the token that makes it"
        yield FieldError("expiresAt", late, "too_big", maker.expires_at.isoformat())
    if EVERY_TENANT not in maker.tenants and not {*wish.tenants} <= {*maker.tenants}:
        yield _more("tenants", maker.tenants)
    if ADMIN not in maker.scopes and not {*wish.scopes} <= {*maker.scopes}:
        yield _more("scopes", maker.scopes)
    if maker.networks and bounds.networks:
        yield _more("networks", maker.networks)
    if maker.service_id not in (None, bounds.service_id):
        yield _more("serviceId", [maker.service_id])
    if maker.certificate and bounds.certificate not in (None, maker.certificate):
        yield _more("certificate", [maker.certificate])


def _more(field: str, own: Collection[str]) -> FieldError:
    return FieldError(
        field, f"must be among those of the token that makes it: {', '.join(own)}", "invalid_value"
    )


def faults_of(wish: TokenWish, now: datetime) -> list[FieldError]:
    """What is wrong with a wish, whoever has it; a FieldError for each fault."""
    return [*_of_label(wish), *_of_rights(wish), *_of_end(wish, now), *_of_bounds(wish)]


def _of_label(wish: TokenWish) -> Iterator[FieldError]:
    if not 1 <= len(wish.name) <= 200 or "\0" in wish.name:
        yield FieldError("name", "must be a text of 1 to 200 characters")
    if wish.name.startswith(PERSON_PREFIX):
        yield FieldError("name", f"must not begin with {PERSON_PREFIX}: such are the names of people")


def _of_rights(wish: TokenWish) -> Iterator[FieldError]:
    if not wish.tenants:
        yield FieldError("tenants", "must name a tenant, or * for every tenant")
    for tenant in wish.tenants:
        if tenant != EVERY_TENANT and not _is_name(tenant):
            yield FieldError("tenants", f"{tenant!r} is not a valid tenant id", "invalid_id")
    for group in wish.groups:
        if not _is_name(group):
            yield FieldError("groups", f"{group!r} is not a valid name of a group", "invalid_id")
    unknown = sorted(set(wish.scopes) - IMPLIED.keys())
    if unknown or not wish.scopes:
        prefix = f"unknown: {', '.join(unknown)}; " if unknown else ""
        yield FieldError("scopes", f"{prefix}use one or more of {', '.join(IMPLIED)}", "invalid_value")


def _of_end(wish: TokenWish, now: datetime) -> Iterator[FieldError]:
    if wish.expires_at is not None and (wish.expires_at.tzinfo is None or wish.expires_at <= now):
        yield FieldError("expiresAt", "must be a time in the future with a time zone")


def _of_bounds(wish: TokenWish) -> Iterator[FieldError]:
    bounds = wish.bounds
    if len(bounds.networks) > MAX_NETWORKS:
        yield FieldError("networks", f"must be at most {MAX_NETWORKS}", "too_long")
    for each in bounds.networks:
        try:
            network_of(each)
        except ValueError as error:
            yield FieldError("networks", f"{each[:50]!r}: {error}", "invalid_value")
    if bounds.service_id is not None and not _is_name(bounds.service_id, "service"):
        yield FieldError("serviceId", "is not a valid service id", "invalid_id")
    if bounds.service_id is not None and {*wish.scopes} != {WORKER}:
        yield FieldError("serviceId", f"needs the scope {WORKER}, and no other", "invalid_value")
    if bounds.certificate is not None and not re.fullmatch("[0-9a-fA-F]{64}", bounds.certificate):
        yield FieldError("certificate", "must be the SHA-256 of a certificate: 64 hexadecimal digits")


def _is_name(text: str, kind: str = "tenant") -> bool:
    try:
        ids.check_name(text, kind)
    except InvalidId:
        return False
    return True
