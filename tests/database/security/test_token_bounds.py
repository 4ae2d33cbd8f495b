"""A token is good for nothing that its maker is not good for, and not for longer."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import psycopg2
import pytest
from sqlalchemy.exc import DBAPIError
from support.servers import WAIT_DEADLINE_S, wait_until

from pipeweave.errors import InvalidInput, Unauthenticated
from pipeweave.orchestrator.reading import tokens
from pipeweave.orchestrator.security import access_tokens, sessions
from pipeweave.orchestrator.security.access_tokens import (
    ADMIN,
    ADMIN_LIFE,
    READ,
    TICK,
    WORKER,
    CallerAccess,
    MadeToken,
    TokenBounds,
)
from pipeweave.orchestrator.store.database import Database, Transaction

CERTIFICATE, OTHER = "ab" * 32, "cd" * 32


def make(tx: Transaction, scopes: Collection[str] = (ADMIN,), **options: Any) -> MadeToken:
    return access_tokens.make_token(tx, **{"name": "maker", "tenants": ["shop"], "scopes": scopes, **options})


def child(tx: Transaction, maker: MadeToken, scopes: Collection[str] = (READ,), **options: Any) -> MadeToken:
    return make(tx, scopes, maker=maker.id, **{"name": "child", **options})


def verified(tx: Transaction, made: MadeToken) -> CallerAccess:
    access = access_tokens.verify(tx, made.token)
    assert access is not None
    return access


@pytest.mark.parametrize(
    ("of_maker", "wish", "field"),
    [
        ({}, {"tenants": ["bank"]}, "tenants"),
        ({}, {"tenants": ["shop", "bank"]}, "tenants"),
        ({}, {"tenants": ["*"]}, "tenants"),
        ({"scopes": [READ]}, {"scopes": [ADMIN]}, "scopes"),
        ({"scopes": [READ]}, {"scopes": [WORKER]}, "scopes"),
        ({"networks": ("10.1.0.0/16",)}, {"networks": ("10.0.0.0/8",)}, "networks"),
        ({"networks": ("10.1.0.0/16",)}, {"networks": ("10.1.2.0/24", "10.2.0.0/24")}, "networks"),
        ({"networks": ("10.1.0.0/16",)}, {"networks": ("0.0.0.0/0",)}, "networks"),
        ({"networks": ("10.1.0.0/16",)}, {"networks": ("::/0",)}, "networks"),
        ({"certificate": CERTIFICATE}, {"certificate": OTHER}, "certificate"),
        ({"scopes": [WORKER], "service_id": "mailer"}, {"scopes": [WORKER]}, "serviceId"),
        (
            {"scopes": [WORKER], "service_id": "mailer"},
            {"scopes": [WORKER], "service_id": "other"},
            "serviceId",
        ),
        ({"expires": timedelta(hours=1)}, {"expires": timedelta(hours=2)}, "expiresAt"),
    ],
)
def test_a_token_makes_none_that_is_good_for_more(
    tx: Transaction, of_maker: dict[str, Any], wish: dict[str, Any], field: str
) -> None:
    maker = make(tx, **wished(tx.now, {"scopes": [ADMIN], **of_maker}))
    count = len(tokens.list_tokens(tx))
    with pytest.raises(InvalidInput) as refused:
        child(tx, maker, **wished(tx.now, {"scopes": [READ], **wish}))
    assert [each.field for each in refused.value.errors] == [field]
    assert len(tokens.list_tokens(tx)) == count


def wished(now: datetime, options: dict[str, Any]) -> dict[str, Any]:
    bounds = {
        name: options.pop(name) for name in ("networks", "service_id", "certificate") if name in options
    }
    if "expires" in options:
        options["expires_at"] = now + options.pop("expires")
    return {**options, "bounds": TokenBounds(**bounds)}


def test_only_a_maker_of_all_tenants_makes_a_token_for_the_tick(tx: Transaction) -> None:
    maker, owner = make(tx), make(tx, tenants=["*"])
    assert child(tx, owner, [TICK])
    with pytest.raises((InvalidInput, Unauthenticated)):
        child(tx, maker, [TICK])


def test_what_a_wish_leaves_out_is_as_the_maker_has_it(tx: Transaction) -> None:
    bounds = TokenBounds(("10.1.0.0/16", "2001:db8::/32"), certificate=CERTIFICATE)
    maker = make(tx, bounds=bounds, expires_at=tx.now + timedelta(hours=1))
    made = child(tx, maker)
    assert (made.bounds, made.expires_at) == (bounds, maker.expires_at)
    narrow = child(tx, maker, bounds=TokenBounds(("10.1.7.0/24",), certificate=CERTIFICATE))
    access = verified(tx, narrow)
    assert (access.networks, access.certificate) == (("10.1.7.0/24",), CERTIFICATE)


def test_a_child_of_a_child_is_no_wider_than_either(tx: Transaction) -> None:
    first = make(tx, bounds=TokenBounds(("10.0.0.0/8",)))
    second = child(tx, first, [ADMIN], bounds=TokenBounds(("10.1.0.0/16",)))
    with pytest.raises(InvalidInput):
        child(tx, second, bounds=TokenBounds(("10.2.0.0/16",)))
    assert child(tx, second).bounds.networks == ("10.1.0.0/16",)


def test_a_token_of_an_administrator_always_ends(tx: Transaction) -> None:
    assert make(tx).expires_at == tx.now + ADMIN_LIFE
    assert make(tx, [READ]).expires_at is None
    later = tx.now + 2 * ADMIN_LIFE
    assert make(tx, expires_at=later).expires_at == later
    old = make(tx)
    tx.execute("UPDATE access_tokens SET expires_at = NULL WHERE id = :id", {"id": old.id})
    assert child(tx, old, [ADMIN]).expires_at == tx.now + ADMIN_LIFE
    assert verified(tx, old).allows(ADMIN), "those that were made before stay"


@pytest.mark.parametrize(
    ("bounds", "scopes", "field"),
    [
        (TokenBounds(("10.1.2.3/8",)), [READ], "networks"),
        (TokenBounds(("everywhere",)), [READ], "networks"),
        (TokenBounds(("::ffff:10.0.0.0/104",)), [READ], "networks"),
        (TokenBounds(tuple(f"10.0.{n}.0/24" for n in range(51))), [READ], "networks"),
        (TokenBounds(service_id="mailer"), [READ], "serviceId"),
        (TokenBounds(service_id="mailer"), [READ, WORKER], "serviceId"),
        (TokenBounds(service_id="a b"), [WORKER], "serviceId"),
        (TokenBounds(certificate="abc"), [READ], "certificate"),
    ],
)
def test_nonsense_is_refused_by_its_field(
    tx: Transaction, bounds: TokenBounds, scopes: list[str], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        make(tx, scopes, bounds=bounds)
    assert {each.field for each in refused.value.errors} == {field}


@pytest.mark.parametrize(
    "nonsense",
    [
        "networks = ARRAY[NULL]::cidr[]",
        "service_id = 'mailer'",
        "certificate = 'ABC'",
        "made_by = id, made_by_subject = 'ann'",
        "made_by_subject = ''",
    ],
)
def test_the_table_refuses_nonsense(tx: Transaction, nonsense: str) -> None:
    made = make(tx)
    with pytest.raises((DBAPIError, psycopg2.Error)):
        tx.execute(f"UPDATE access_tokens SET {nonsense} WHERE id = :id", {"id": made.id})


def test_an_address_stands_for_itself_and_names_of_people_are_theirs(tx: Transaction) -> None:
    assert make(tx, bounds=TokenBounds(("10.1.2.3", "2001:db8::1"))).bounds.networks == (
        "10.1.2.3/32",
        "2001:db8::1/128",
    )
    with pytest.raises(InvalidInput, match="names of people"):
        make(tx, name="oidc:ann")


def test_a_session_is_bound_as_its_token(tx: Transaction) -> None:
    made = make(tx, [READ], bounds=TokenBounds(("10.1.0.0/16",), certificate=CERTIFICATE))
    session = sessions.begin_by_token(tx, made.token)
    assert session is not None
    opened = sessions.verify_session(tx, session.secret)
    assert opened is not None
    assert (opened.access.networks, opened.access.certificate) == (("10.1.0.0/16",), CERTIFICATE)


def test_a_token_that_is_revoked_meanwhile_makes_none(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        maker = make(tx)
    with ThreadPoolExecutor(1) as pool:
        with fresh_database.transaction() as tx:
            access_tokens.revoke(tx, "maker", takes_children=True)
            made = pool.submit(lambda: fresh_database.run(lambda tx: child(tx, maker, [ADMIN])))
            wait_until(lambda: _waits_for_a_lock(fresh_database))
        with pytest.raises(Unauthenticated):
            made.result(WAIT_DEADLINE_S)
    with fresh_database.transaction() as tx:
        assert [each["name"] for each in tokens.list_tokens(tx)] == ["maker"]


def test_a_token_that_is_narrowed_meanwhile_makes_none_that_is_wider(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        maker = make(tx)
    narrow = (
        "UPDATE access_tokens SET expires_at = CAST(:now AS timestamptz) + interval '1 hour' WHERE id = :id"
    )
    with ThreadPoolExecutor(1) as pool:
        with fresh_database.transaction() as tx:
            tx.execute(narrow, {"id": maker.id, "now": tx.now})
            late = tx.now + timedelta(hours=2)
            made = pool.submit(
                lambda: fresh_database.run(lambda tx: child(tx, maker, [ADMIN], expires_at=late))
            )
            wait_until(lambda: _waits_for_a_lock(fresh_database))
        with pytest.raises(InvalidInput, match="expiresAt"):
            made.result(WAIT_DEADLINE_S)


def _waits_for_a_lock(database: Database) -> bool:
    with database.transaction() as tx:
        return bool(
            tx.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).scalar_one()
        )
