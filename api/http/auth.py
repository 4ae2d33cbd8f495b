"""Authenticates requests: checks the bearer token, the tenant and the scopes.

A verified token is cached for TOKEN_CACHE_S, so that a busy client costs no query per request. A revocation
takes effect within two seconds in every process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from werkzeug.datastructures import Headers

from pipeweave.errors import Forbidden, NotFound, PipeWeaveError, TenantRequired, Unauthenticated
from pipeweave.ids import check_name
from pipeweave.orchestrator.security import EVERY_TENANT, READ, Access, access_tokens
from pipeweave.orchestrator.store import Database, Transaction

TOKEN_CACHE_S = 2.0
MAX_CACHED_TOKENS = 10_000
# At most so many tenants of a token are named in an error.
SHOWN_TENANTS = 10

Begin = Callable[[], AbstractContextManager[Transaction]]


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may be served.

    Args:
        tenant: for this tenant; empty where a request that concerns several names none.
        token_name: with the token of this name.
        tenants: the tenant of the request, or those of its token; None: every tenant.
    """

    tenant: str
    token_name: str
    tenants: tuple[str, ...] | None = None


class Authenticator:
    """Admits requests or refuses them with an error.

    Args:
        database: the database that holds the tokens.
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[bytes, tuple[float, Access]] = {}

    def admit(
        self,
        headers: Headers,
        scopes: tuple[str, ...],
        *,
        is_for_all: bool = False,
        spans_tenants: bool = False,
    ) -> Admission:
        """Check the request, and say for which tenant it may act and whose token it has.

        Args:
            headers: the headers of the request.
            scopes: the token needs one of these scopes.
            is_for_all: the request concerns every tenant, whichever tenant it names; it need not name one.
            spans_tenants: a request that names no tenant concerns all those of its token.

        Raises:
            Unauthenticated: there is no token, or the token is unknown, expired or revoked.
            TenantRequired: there is no X-Tenant header, and the token is valid for several tenants.
            NotFound: the token is not valid for the tenant. The answer does not tell whether the tenant
                exists.
            Forbidden: the token has none of the scopes, or must be valid for every tenant and is not.
        """
        caller = self._caller(headers.get("Authorization", ""), self._database.transaction)
        tenant = headers.get("X-Tenant", "").strip()
        if not tenant and not is_for_all and not spans_tenants:
            tenant = _only_tenant(caller)
        if tenant and not caller.may_enter(check_name(tenant, "tenant")):
            raise NotFound(
                f"tenant {tenant[:80]!r} not found", hint=f"the token is valid for {_shown(caller.tenants)}"
            )
        check_scopes(caller, scopes, is_for_all=is_for_all)
        return Admission(tenant, caller.name, (tenant,) if tenant else _tenants(caller))

    def caller(self, headers: Headers) -> Access:
        """Whose request this is.

        Raises:
            Unauthenticated: as `admit`.
        """
        return self._caller(headers.get("Authorization", ""), self._database.transaction)

    def may_read_all(self, headers: Headers) -> bool:
        """Whether the request has a token that may read, and is valid for every tenant.

        Raises nothing, and waits for no connection that verbs or lists use.
        """
        try:
            caller = self._caller(headers.get("Authorization", ""), self._database.reserved)
        except PipeWeaveError:
            return False
        return caller.may_enter(EVERY_TENANT) and caller.allows(READ)

    def _caller(self, header: str, begin: Begin) -> Access:
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated(
                hint=(
                    "create a token with `pipeweave token create NAME` and send the header "
                    "Authorization: Bearer <token>; with the CLI, --token or PIPEWEAVE_API_TOKEN"
                )
            )
        key = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        known = self._known.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        return self._verified(key, token, begin)

    def _verified(self, key: bytes, token: str, begin: Begin) -> Access:
        asked_at = self._clock()
        with begin() as tx:
            caller = access_tokens.verify(tx, token)
        if caller is None:
            self._known.pop(key, None)
            raise Unauthenticated("the token is unknown, expired or revoked")
        if len(self._known) >= MAX_CACHED_TOKENS:
            self._known.clear()
        self._known[key] = (asked_at + TOKEN_CACHE_S, caller)
        return caller


def check_scopes(caller: Access, scopes: tuple[str, ...], *, is_for_all: bool = False) -> None:
    """Check what a token allows.

    Args:
        scopes: it needs one of these scopes; empty: none.
        is_for_all: it must be valid for every tenant.

    Raises:
        Forbidden: it does not allow this.
    """
    if scopes and not any(map(caller.allows, scopes)):
        raise _lacks(caller, scopes)
    if is_for_all and not caller.may_enter(EVERY_TENANT):
        command = f"pipeweave token create NAME --tenant '{EVERY_TENANT}' --scope {_word(scopes[0])}"
        raise Forbidden(
            "this request concerns every tenant, and the token is not valid for all tenants",
            hint=f"create a token for every tenant: `{command}`",
            neededTenants=EVERY_TENANT,
        )


def _tenants(caller: Access) -> tuple[str, ...] | None:
    return None if caller.may_enter(EVERY_TENANT) else caller.tenants


def _lacks(caller: Access, scopes: tuple[str, ...]) -> Forbidden:
    own = ", ".join(map(_word, caller.scopes))
    return Forbidden(
        f"the token lacks the scope {' or '.join(map(_word, scopes))} (it has {own})",
        hint=f"create one with `pipeweave token create NAME --scope {_word(scopes[0])}`",
        needed=list(scopes),
    )


def _word(scope: str) -> str:
    """A scope as people write it: `write` is `orchestrator:write`."""
    return scope.rpartition(":")[2]


def _only_tenant(caller: Access) -> str:
    """The tenant of a request that names none: the only one for which its token is valid."""
    if len(caller.tenants) == 1 and caller.tenants[0] != EVERY_TENANT:
        return caller.tenants[0]
    raise TenantRequired(
        f"the token is valid for {_shown(caller.tenants)}, so the request must name one",
        hint="send the header X-Tenant, e.g. X-Tenant: default; with the CLI, --tenant or PIPEWEAVE_TENANT",
    )


def _shown(tenants: tuple[str, ...]) -> str:
    if EVERY_TENANT in tenants:
        return "every tenant"
    more = f" and {len(tenants) - SHOWN_TENANTS} more" if len(tenants) > SHOWN_TENANTS else ""
    return f"the {'tenant' if len(tenants) == 1 else 'tenants'} {', '.join(tenants[:SHOWN_TENANTS])}{more}"
