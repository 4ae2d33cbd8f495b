"""Who asks: the bearer token, the tenant named with it, and whether its scopes reach that far.

A token that was good is believed for `TOKEN_CACHE_S`: a revocation takes effect within two seconds in every
process, and a busy client costs no query per request.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from werkzeug.datastructures import Headers

from pipeweave.errors import Forbidden, NotFound, TenantRequired, Unauthenticated
from pipeweave.ids import check_name
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import EVERY_TENANT, Access
from pipeweave.orchestrator.store.database import Database

TOKEN_CACHE_S = 2.0
MAX_CACHED_TOKENS = 10_000


class Gate:
    """Lets requests in, or says why not.

    Args:
        database: where tokens are kept.
        clock: seconds that only go forward; tests pass their own.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[bytes, tuple[float, Access]] = {}

    def admit(self, headers: Headers, scopes: tuple[str, ...], *, is_for_all: bool = False) -> str:
        """The tenant this request may act for.

        Args:
            headers: of the request.
            scopes: the token needs one of them.
            is_for_all: it acts for every tenant, whichever it names.

        Raises:
            Unauthenticated: no token, or one that is unknown, expired or revoked.
            TenantRequired: no X-Tenant header.
            NotFound: the tenant is not one of the token's: not yours is not there.
            Forbidden: the token has none of these scopes, or is not good for every tenant where it must be.
        """
        caller = self._caller(headers.get("Authorization", ""))
        tenant = headers.get("X-Tenant", "").strip()
        if not tenant:
            raise TenantRequired(hint="send the tenant's id in the X-Tenant header, e.g. X-Tenant: default")
        if not caller.may_enter(check_name(tenant, "tenant")):
            raise NotFound(f"there is no tenant {tenant[:80]!r}", hint="is it one of the token's tenants?")
        if not any(map(caller.allows, scopes)):
            raise Forbidden(f"the token needs the scope {' or '.join(scopes)}", needed=list(scopes))
        if is_for_all and not caller.may_enter(EVERY_TENANT):
            scope = scopes[0].rpartition(":")[2]
            how = f"pipeweave token create NAME --tenant '{EVERY_TENANT}' --scope {scope}"
            raise Forbidden(
                "this concerns every tenant, and the token is not good for all of them",
                hint=f"use a token that is: `{how}`",
                neededTenants=EVERY_TENANT,
            )
        return tenant

    def _caller(self, header: str) -> Access:
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated(
                hint="send the header Authorization: Bearer <token>; `pipeweave token create` makes one"
            )
        key = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        known = self._known.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        return self._verified(key, token)

    def _verified(self, key: bytes, token: str) -> Access:
        asked_at = self._clock()
        with self._database.transaction() as tx:
            caller = access_tokens.verify(tx, token)
        if caller is None:
            self._known.pop(key, None)
            raise Unauthenticated("the token is unknown, expired or revoked")
        if len(self._known) >= MAX_CACHED_TOKENS:
            self._known.clear()
        self._known[key] = (asked_at + TOKEN_CACHE_S, caller)
        return caller
