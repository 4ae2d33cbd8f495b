"""Authenticates requests: checks the bearer token or the browser's session, the tenant and the scopes.

A verified token or session is cached for TOKEN_CACHE_S, so that a busy client costs no query per request. A
revocation takes effect within two seconds in every process.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from uuid import UUID

from werkzeug.datastructures import Headers

from pipeweave.api.http.renewal import Renewal
from pipeweave.errors import (
    Forbidden,
    NotFound,
    PipeWeaveError,
    ProviderUnavailable,
    TenantRequired,
    Unauthenticated,
)
from pipeweave.ids import check_name
from pipeweave.orchestrator.queueing import quotas
from pipeweave.orchestrator.security import (
    EVERY_TENANT,
    IMPLIED,
    READ,
    WORKER,
    CallerAccess,
    Peer,
    access_tokens,
    person_sessions,
    sessions,
)
from pipeweave.orchestrator.store import Database, Transaction, Verb

log = logging.getLogger(__name__)

TOKEN_CACHE_S = 2.0
MAX_CACHED_TOKENS = 10_000
# At most so many tenants of a token are named in an error.
SHOWN_TENANTS = 10

# A request of which nothing is known: what is bound to a place refuses it.
NOWHERE = Peer()

Begin = Callable[[], AbstractContextManager[Transaction]]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request: what the token allows and, for a browser, the session that stands for it."""

    access: CallerAccess
    session_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may be served.

    Args:
        tenant: for this tenant; empty where a request that concerns several names none.
        identity: who sends it.
        tenants: the tenant of the request, or those of its token; None: every tenant.
    """

    tenant: str
    identity: Identity
    tenants: tuple[str, ...] | None = None


class Authenticator:
    """Admits requests or refuses them with an error.

    Args:
        database: the database that holds the tokens and the sessions.
        clock: a monotonic clock in seconds; tests pass their own.
        is_read_only: sessions of browsers may only read, whatever their tokens allow.
        renewal: asks what people may do; None: nobody logs in by an OpenID provider, and sessions of people
            are refused.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_read_only: bool = False,
        renewal: Renewal | None = None,
    ) -> None:
        self._renewal = renewal
        self._database = database
        self._clock = clock
        self._is_read_only = is_read_only
        self._known: dict[bytes, tuple[float, Identity]] = {}

    def admit(
        self,
        headers: Headers,
        scopes: tuple[str, ...],
        *,
        is_for_all: bool = False,
        spans_tenants: bool = False,
        is_about_caller: bool = False,
        session: str | None = None,
        peer: Peer = NOWHERE,
    ) -> Admission:
        """Check the request, and say for which tenant it may act and whose token it has.

        Args:
            headers: the headers of the request.
            scopes: the token needs one of these scopes.
            is_for_all: the request concerns every tenant, whichever tenant it names; it need not name one.
            spans_tenants: a request that names no tenant concerns all those of its token.
            is_about_caller: the request concerns the token itself; it need not name a tenant.
            session: the secret of the browser's session, if the request may use one (`browser.session_of`).
                A request with a token uses the token.
            peer: where the request comes from.

        Raises:
            Unauthenticated: there is no token and no session, or it is unknown, expired or revoked, or may
                not be used from there.
            TenantRequired: there is no X-Tenant header, and the token is valid for several tenants.
            NotFound: the token is not valid for the tenant. The answer does not tell whether the tenant
                exists.
            Forbidden: the token has none of the scopes, or must be valid for every tenant and is not.
            TenantDisabled: the tenant is disabled, or each one of the token is.
        """
        identity = self.identify(headers, session, peer)
        access = identity.access
        tenant = headers.get("X-Tenant", "").strip()
        if not tenant and not (is_for_all or spans_tenants or is_about_caller):
            tenant = _only_tenant(access)
        if tenant and not access.may_enter(check_name(tenant, "tenant")):
            raise NotFound(
                f"tenant {tenant[:80]!r} not found", hint=f"the token is valid for {_shown(access.tenants)}"
            )
        access = access.within(EVERY_TENANT if is_for_all else tenant or None, scopes)
        check_scopes(access, scopes, is_for_all=is_for_all)
        check_gate(access, tenant, scopes)
        tenants = (tenant,) if tenant else _tenants(access)
        return Admission(tenant, Identity(access, identity.session_id), tenants)

    def identify(self, headers: Headers, session: str | None = None, peer: Peer = NOWHERE) -> Identity:
        """Say who sends the request, whatever it asks for.

        Raises:
            Unauthenticated: as `admit`.
        """
        authorization = headers.get("Authorization", "")
        if session is None or authorization:
            identity = self._with_token(authorization, self._database.transaction)
        else:
            identity = self._verified(_key("session", session), lambda: self._of_session(session))
        check_place(identity.access, peer)
        return identity

    def remembered(self, authorization: str, session: str | None = None) -> Identity | None:
        """What `identify` answers without a look at the database; None: it would have to look. Whether the
        place fits is not checked.

        Args:
            authorization: the header; empty: there is none.
        """
        is_session = session is not None and not authorization
        key = _key("session", session or "") if is_session else _key("token", _token_in(authorization))
        known = self._known.get(key)
        return known[1] if known is not None and self._clock() < known[0] else None

    def forget_session(self, session: str) -> None:
        """Forget a session that has ended; other processes do so within TOKEN_CACHE_S."""
        self._known.pop(_key("session", session), None)

    def may_read_all(self, headers: Headers, peer: Peer = NOWHERE) -> bool:
        """Whether the request has a token that may read, and is valid for every tenant.

        Raises nothing, and waits for no connection that verbs or lists use.
        """
        try:
            access = self._with_token(headers.get("Authorization", ""), self._database.reserved).access
            check_place(access, peer)
        except PipeWeaveError:
            return False
        return access.may_enter(EVERY_TENANT) and access.allows(READ)

    def _with_token(self, header: str, begin: Begin) -> Identity:
        token = _token_in(header)
        if not token:
            raise Unauthenticated(
                hint=(
                    "create a token with `pipeweave token create NAME` and send the header "
                    "Authorization: Bearer <token>; with the CLI, --token or PIPEWEAVE_API_TOKEN"
                )
            )
        return self._verified(_key("token", token), lambda: _of_token(begin, token))

    def _verified(self, key: bytes, look: Callable[[], tuple[Identity, Verb | None]]) -> Identity:
        asked_at = self._clock()
        known = self._known.get(key)
        if known is not None and asked_at < known[0]:
            return known[1]
        try:
            caller, note = look()
        except Unauthenticated:
            self._known.pop(key, None)
            raise
        if note is not None:
            self._note(note)
        if len(self._known) >= MAX_CACHED_TOKENS:
            self._known.clear()
        self._known[key] = (asked_at + TOKEN_CACHE_S, caller)
        return caller

    def _note(self, verb: Verb) -> None:
        """Note that a token or session is in use; the request goes on when that cannot be written."""
        try:
            with self._database.transaction() as tx:
                verb(tx)
        except PipeWeaveError as error:
            log.info("access.not_noted", extra={"reason": error.detail})

    def _of_session(self, session: str) -> tuple[Identity, Verb | None]:
        open_session = self._opened(session)
        if open_session.rights_age >= person_sessions.RIGHTS_KEPT and self._renewal is not None:
            is_over = open_session.rights_age >= person_sessions.RIGHTS_LAST
            self._renewal.renew(open_session.id, waits=is_over)
            open_session = self._opened(session)
            if open_session.rights_age >= person_sessions.RIGHTS_LAST:
                raise ProviderUnavailable(
                    "the OpenID provider does not say what you may do now",
                    hint="try again in a moment; an access token logs in without the provider",
                )
        caller = Identity(
            _reading(open_session.access) if self._is_read_only else open_session.access, open_session.id
        )
        return caller, (lambda tx: sessions.see(tx, open_session.id)) if open_session.is_use_due else None

    def _opened(self, session: str) -> sessions.OpenSession:
        with self._database.transaction() as tx:
            open_session = sessions.verify_session(tx, session)
        if open_session is None or (self._renewal is None and open_session.access.subject is not None):
            raise Unauthenticated("the session is over", hint="log in again at /ui/login")
        return open_session


def _of_token(begin: Begin, token: str) -> tuple[Identity, Verb | None]:
    with begin() as tx:
        access = access_tokens.verify(tx, token)
    if access is None:
        raise Unauthenticated("the token is unknown, expired or revoked")
    return Identity(access), (
        lambda tx: access_tokens.record_use(tx, access.id)
    ) if access.is_use_due else None


def _reading(access: CallerAccess) -> CallerAccess:
    """What is left of it where browsers may only read."""
    roles = tuple(replace(each, scopes=_only_read(each.scopes)) for each in access.roles)
    return replace(access, scopes=_only_read(access.scopes), roles=roles)


def _only_read(scopes: tuple[str, ...]) -> tuple[str, ...]:
    return (READ,) if any(READ in IMPLIED[each] for each in scopes) else ()


def _token_in(header: str) -> str:
    """The token of a header Authorization; empty: it has none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _key(kind: str, secret: str) -> bytes:
    return hashlib.sha256(f"{kind} {secret}".encode(errors="surrogatepass")).digest()


def check_place(access: CallerAccess, peer: Peer) -> None:
    """Check that what a token is bound to holds for a request.

    Raises:
        Unauthenticated: it does not.
    """
    if fault := access.fault_of(peer):
        raise Unauthenticated(
            fault,
            hint="behind a proxy, the API knows addresses and certificates by the setting TRUSTED_PROXIES",
        )


def check_scopes(caller: CallerAccess, scopes: tuple[str, ...], *, is_for_all: bool = False) -> None:
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


def check_gate(caller: CallerAccess, tenant: str, scopes: tuple[str, ...]) -> None:
    """Check that the tenant is not disabled. Operators, whose tokens are valid for every tenant, go on; so do
    services, because work that is under way ends.

    Args:
        tenant: of the request; empty: it concerns those of the token.
        scopes: that the request needs.

    Raises:
        TenantDisabled: it is, or each tenant of the token is.
    """
    if not caller.gates or is_exempt(caller, scopes):
        return
    shut = {each for each in caller.tenants if is_disabled(caller, each)}
    if tenant in shut or (not tenant and shut.issuperset(caller.tenants)):
        name = tenant or min(shut)
        raise quotas.refusal(name, caller.gates[name].disabled_at, caller.gates[name].reason)


def is_exempt(caller: CallerAccess, scopes: tuple[str, ...]) -> bool:
    """Whether no gate of a tenant concerns the request: an operator sends it, or a service."""
    return caller.may_enter(EVERY_TENANT) or (WORKER in scopes and caller.allows(WORKER))


def is_disabled(caller: CallerAccess, tenant: str) -> bool:
    """Whether a tenant of the token is disabled."""
    gate = caller.gates.get(tenant)
    return gate is not None and gate.disabled_at is not None


def _tenants(caller: CallerAccess) -> tuple[str, ...] | None:
    if caller.may_enter(EVERY_TENANT):
        return None
    return tuple(each for each in caller.tenants if not is_disabled(caller, each))


def _lacks(caller: CallerAccess, scopes: tuple[str, ...]) -> Forbidden:
    own = ", ".join(map(_word, caller.scopes))
    return Forbidden(
        f"the token lacks the scope {' or '.join(map(_word, scopes))} (it has {own})",
        hint=f"create one with `pipeweave token create NAME --scope {_word(scopes[0])}`",
        needed=list(scopes),
    )


def _word(scope: str) -> str:
    """A scope as people write it: `write` is `orchestrator:write`."""
    return scope.rpartition(":")[2]


def _only_tenant(caller: CallerAccess) -> str:
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
