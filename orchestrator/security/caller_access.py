"""What a verified token, or the session of a person, allows: scopes, tenants, roles, and from where."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

from pipeweave.orchestrator.security.gates import NO_GATES, TenantGate
from pipeweave.orchestrator.security.places import Peer, is_within

READ, APPROVE, WRITE, ADMIN, WORKER, TICK = (
    "orchestrator:read",
    "orchestrator:approve",
    "orchestrator:write",
    "orchestrator:admin",
    "orchestrator:worker",
    "orchestrator:tick",
)

IMPLIED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        READ: frozenset({READ}),
        APPROVE: frozenset({APPROVE, READ}),
        WRITE: frozenset({WRITE, APPROVE, READ}),
        ADMIN: frozenset({ADMIN, WRITE, APPROVE, READ, TICK}),
        WORKER: frozenset({WORKER}),
        TICK: frozenset({TICK}),
    }
)
"""Scope -> the scopes it includes. No other scope includes a service's: an administrator is not a worker.

A token with the scope TICK alone, for a cloud's scheduler that calls the tick, can do nothing else. The tick
acts for all tenants: an administrator may call it with a token that is valid for all tenants."""

EVERY_TENANT = "*"


@dataclass(frozen=True, slots=True)
class Role:
    """What a group of people may do, and in which tenants."""

    tenants: tuple[str, ...]
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallerAccess:
    """A verified token with its tenants and scopes, or a person whom an OIDC provider vouches for.

    Args:
        id: of the token; of a person, of their session.
        is_use_due: it is time to call `record_use`.
        groups: of people, for which it may decide approvals.
        subject: a person's name at the provider; None: it is a token.
        roles: of a person with several: `tenants` and `scopes` are those of all of them. So what is allowed
            in one tenant is only known `within` it. Empty: all scopes count in all tenants.
        networks: of the peers that may use it; empty: any.
        service_id: the only service that it may register.
        certificate: SHA-256 of the certificate that its user has, as hex.
        gates: of its tenants that are disabled, or have a rate of requests.
    """

    id: UUID
    name: str
    tenants: tuple[str, ...]
    scopes: tuple[str, ...]
    is_use_due: bool = False
    groups: tuple[str, ...] = ()
    subject: str | None = None
    roles: tuple[Role, ...] = ()
    networks: tuple[str, ...] = ()
    service_id: str | None = None
    certificate: str | None = None
    gates: Mapping[str, TenantGate] = field(default_factory=lambda: NO_GATES, hash=False)

    @property
    def token_id(self) -> UUID | None:
        """The id of the token; None: it is a person."""
        return None if self.subject is not None else self.id

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

    def within(self, tenant: str | None, scopes: Collection[str] = ()) -> CallerAccess:
        """What is left of it for one request. No pair of a tenant and a scope is left that no role has.

        Args:
            tenant: the request's; `*`: it concerns every tenant; None: those for which it has the right.
            scopes: the request needs one of these; only for a request without a tenant.
        """
        if not self.roles:
            return self
        if tenant is not None:
            entered = _scopes_of(each for each in self.roles if {tenant, EVERY_TENANT} & {*each.tenants})
            everywhere = _scopes_of(each for each in self.roles if EVERY_TENANT in each.tenants)
            is_more = _implied(entered) > _implied(everywhere)
            return replace(self, tenants=(tenant if is_more else EVERY_TENANT,), scopes=entered, roles=())
        able = [each for each in self.roles if not scopes or any(map(_alone(self, each).allows, scopes))]
        common = set.intersection(*(_implied(each.scopes) for each in able)) if able else set[str]()
        tenants = sorted({name for each in able for name in each.tenants})
        return replace(self, tenants=tuple(tenants), scopes=tuple(sorted(common)), roles=())

    def fault_of(self, peer: Peer) -> str | None:
        """Why it may not be used from there; None: it may."""
        if self.networks and not is_within(peer.address, self.networks):
            return f"the token may not be used from {peer.address or 'an unknown address'}"
        if self.certificate and self.certificate != peer.certificate:
            came = "another" if peer.certificate else "no"
            return f"the token is bound to a certificate, and the request comes with {came} one"
        return None


def _alone(access: CallerAccess, role: Role) -> CallerAccess:
    return replace(access, tenants=role.tenants, scopes=role.scopes, roles=())


def _scopes_of(roles: Iterable[Role]) -> tuple[str, ...]:
    return tuple(sorted({scope for each in roles for scope in each.scopes}))


def _implied(scopes: Iterable[str]) -> set[str]:
    return {implied for scope in scopes for implied in IMPLIED.get(scope, ())}
