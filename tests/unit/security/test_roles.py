"""A person with several roles may do in a tenant what their roles for it allow, and nothing else."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

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
    Role,
)

SCOPES = [READ, APPROVE, WRITE, ADMIN, WORKER, TICK]
TENANTS = ["shop", "bank", "mill"]
names = st.sampled_from([*TENANTS, EVERY_TENANT])
roles = st.lists(
    st.builds(
        Role,
        st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
        st.lists(st.sampled_from(SCOPES), min_size=1, max_size=2, unique=True).map(tuple),
    ),
    min_size=2,
    max_size=4,
).map(tuple)


def access_of(*roles: Role) -> CallerAccess:
    tenants = tuple(sorted({each for role in roles for each in role.tenants}))
    scopes = tuple(sorted({each for role in roles for each in role.scopes}))
    return CallerAccess(UUID(int=1), "oidc:ann", tenants, scopes, subject="ann", roles=roles)


def has(roles: tuple[Role, ...], tenant: str, scope: str) -> bool:
    return any(
        {tenant, EVERY_TENANT} & {*role.tenants} and any(scope in IMPLIED[each] for each in role.scopes)
        for role in roles
    )


@given(roles, st.sampled_from(TENANTS), st.sampled_from(SCOPES))
def test_no_pair_of_a_tenant_and_a_scope_comes_from_two_roles(
    roles: tuple[Role, ...], tenant: str, scope: str
) -> None:
    access = access_of(*roles)
    within = access.within(tenant)
    if scope != TICK:
        assert (within.may_enter(tenant) and within.allows(scope)) is has(roles, tenant, scope)
    for other in TENANTS:
        if within.may_enter(other) and within.allows(scope):
            assert has(roles, other, scope)


@given(roles, st.lists(st.sampled_from(SCOPES), max_size=2), st.sampled_from(SCOPES))
def test_a_request_without_a_tenant_has_no_more_than_each_of_its_tenants(
    roles: tuple[Role, ...], needed: list[str], scope: str
) -> None:
    within = access_of(*roles).within(None, needed)
    for tenant in TENANTS:
        if within.may_enter(tenant) and within.allows(scope):
            assert has(roles, tenant, scope)


@given(roles, st.sampled_from(SCOPES))
def test_a_request_about_every_tenant_needs_a_role_for_every_tenant(
    roles: tuple[Role, ...], scope: str
) -> None:
    within = access_of(*roles).within(EVERY_TENANT)
    assert not within.allows(scope) or any(
        EVERY_TENANT in role.tenants and any(scope in IMPLIED[each] for each in role.scopes) for role in roles
    )


def test_everybody_may_read_and_a_team_may_write_in_its_tenant() -> None:
    access = access_of(Role(("*",), (READ,)), Role(("shop",), (WRITE,)))
    assert access.within("shop").allows(WRITE) and access.within("shop").tenants == ("shop",)
    assert access.within("bank").allows(READ) and not access.within("bank").allows(WRITE)
    assert access.within("bank").tenants == ("*",)
    assert access.within(None, (READ,)).tenants == ("*", "shop")
    assert not access.within(None, (READ,)).allows(WRITE)


def test_a_token_is_as_it_is() -> None:
    token = CallerAccess(UUID(int=1), "ci", ("shop",), (READ,))
    assert token.within("bank") is token
