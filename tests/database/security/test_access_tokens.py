"""Access tokens: made once, kept as a hash, good for their tenants and scopes until they end."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.servers import WAIT_DEADLINE_S, wait_until

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.reading import tokens
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WORKER, WRITE
from pipeweave.orchestrator.store.database import Database, Transaction


def make(tx: Transaction, scopes: Collection[str] = (READ,), **options: Any) -> str:
    return access_tokens.create_token(
        tx, **{"name": "ci", "tenants": ["default"], "scopes": scopes, **options}
    )


def verified(tx: Transaction, token: str) -> access_tokens.CallerAccess:
    found = access_tokens.verify(tx, token)
    assert found is not None
    return found


def test_a_token_is_43_random_characters_behind_its_prefix(tx: Transaction) -> None:
    tokens = {make(tx) for _ in range(5)}
    assert len(tokens) == 5
    assert all(re.fullmatch(r"pw_[A-Za-z0-9_-]{43}", each) for each in tokens)


def test_only_the_hash_of_a_token_is_stored(tx: Transaction) -> None:
    token = make(tx)
    stored = tx.execute("SELECT CAST(t AS text) AS row, token_hash FROM access_tokens AS t").all()
    assert all(token not in each.row and token[3:] not in each.row for each in stored)
    assert hashlib.sha256(token.encode()).hexdigest() in {each.token_hash for each in stored}
    assert token not in str(tokens.list_tokens(tx))


def test_a_token_is_good_for_what_it_was_made_for(tx: Transaction) -> None:
    found = verified(tx, make(tx, tenants=["one", "two"], scopes=[READ]))
    assert (found.name, found.tenants, found.scopes) == ("ci", ("one", "two"), (READ,))
    assert found.may_enter("one") and not found.may_enter("three")


def test_a_star_opens_every_tenant(tx: Transaction) -> None:
    assert verified(tx, make(tx, tenants=["*"])).may_enter("anything")


@pytest.mark.parametrize(
    ("held", "allowed"),
    [(READ, {READ}), (WRITE, {WRITE, READ}), (ADMIN, {ADMIN, WRITE, READ}), (WORKER, {WORKER})],
)
def test_a_scope_implies_the_lesser_ones_but_only_a_worker_is_a_worker(
    tx: Transaction, held: str, allowed: set[str]
) -> None:
    found = verified(tx, make(tx, [held]))
    assert {scope for scope in (READ, WRITE, ADMIN, WORKER) if found.allows(scope)} == allowed


@pytest.mark.parametrize("token", ["", "pw_", "pw_" + "x" * 43, "x" * 46, "pw_é", "pw_\0", "Bearer pw_"])
def test_an_unknown_token_is_nothing(tx: Transaction, token: str) -> None:
    assert access_tokens.verify(tx, token) is None


def test_an_expired_token_is_nothing(tx: Transaction) -> None:
    token = make(tx, expires_at=tx.now + timedelta(seconds=10))
    assert access_tokens.verify(tx, token)
    tx.now += timedelta(seconds=10)
    assert access_tokens.verify(tx, token) is None
    assert tokens.list_tokens(tx)[0]["isValid"] is False


def test_a_revoked_token_is_nothing_and_stays_in_the_list(tx: Transaction) -> None:
    token, other = make(tx, name="one"), make(tx, name="two")
    (revoked,) = access_tokens.revoke(tx, "one")
    assert access_tokens.verify(tx, token) is None and access_tokens.verify(tx, other)
    listed = {each["id"]: each for each in tokens.list_tokens(tx)}
    assert listed[revoked]["isValid"] is False and listed[revoked]["revokedAt"].endswith("Z")


def test_a_token_is_revoked_by_its_id_too(tx: Transaction) -> None:
    token = make(tx)
    made = tokens.list_tokens(tx)[0]
    assert made["id"].startswith("tok_")
    assert access_tokens.revoke(tx, made["id"]) == [made["id"]]
    assert access_tokens.verify(tx, token) is None


def test_revoking_a_name_revokes_every_token_of_that_name(tx: Transaction) -> None:
    tokens = [make(tx), make(tx)]
    assert len(access_tokens.revoke(tx, "ci")) == 2
    assert [access_tokens.verify(tx, each) for each in tokens] == [None, None]


def by(tx: Transaction, maker: str, name: str) -> str:
    """A token that this one makes."""
    access = access_tokens.verify(tx, maker)
    assert access is not None
    made = access_tokens.make_token(tx, name=name, tenants=["default"], scopes=[ADMIN], maker=access.id)
    return made.token


@pytest.mark.parametrize("way", ["name", "id"])
def test_what_a_token_made_is_revoked_after_the_token_itself(tx: Transaction, way: str) -> None:
    first = make(tx, [ADMIN], name="first")
    child = by(tx, first, "child")
    grandchild = by(tx, child, "grandchild")
    (id,) = access_tokens.revoke(tx, "first")
    assert access_tokens.verify(tx, child)
    named = "first" if way == "name" else id
    assert len(access_tokens.revoke(tx, named, takes_children=True)) == 2
    assert not access_tokens.verify(tx, child) and not access_tokens.verify(tx, grandchild)
    with pytest.raises(NotFound):
        access_tokens.revoke(tx, named, takes_children=True)


def test_what_a_child_makes_meanwhile_is_revoked_with_it(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        child = by(tx, make(tx, [ADMIN], name="first"), "child")
    with ThreadPoolExecutor(1) as pool:
        with fresh_database.transaction() as tx:
            grandchild = by(tx, child, "grandchild")

            def revoke() -> list[str]:
                return fresh_database.run(lambda tx: access_tokens.revoke(tx, "first", takes_children=True))

            revoked = pool.submit(revoke)
            wait_until(lambda: _waits_for_a_lock(fresh_database))
        assert len(revoked.result(WAIT_DEADLINE_S)) == 3
    with fresh_database.transaction() as tx:
        assert not access_tokens.verify(tx, grandchild)


def _waits_for_a_lock(database: Database) -> bool:
    with database.transaction() as tx:
        return bool(
            tx.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).scalar_one()
        )


@pytest.mark.parametrize("name", ["nobody", "tok_", "tok_00000000000000000000000000", "", "a\0b"])
def test_an_unknown_token_cannot_be_revoked(tx: Transaction, name: str) -> None:
    with pytest.raises(NotFound):
        access_tokens.revoke(tx, name)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"tenants": []}, "tenants"),
        ({"tenants": ["a b"]}, "tenants"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read"]}, "scopes"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expiresAt"),
        ({"expires_at": datetime(2999, 1, 1)}, "expiresAt"),
    ],
)
def test_a_wrong_wish_names_its_field(tx: Transaction, options: dict[str, Any], field: str) -> None:
    wish = {"name": "ci", "tenants": ["default"], "scopes": [READ], **options}
    with pytest.raises(InvalidInput) as refused:
        access_tokens.create_token(tx, **wish)
    assert [each.field for each in refused.value.errors] == [field]


def test_verifying_is_one_lookup_by_index(tx: Transaction) -> None:
    tx.execute(
        """INSERT INTO access_tokens (id, name, token_hash, tenants, scopes, created_at)
        SELECT gen_random_uuid(), 'many', encode(sha256(n::text::bytea), 'hex'), '{default}', '{x}', now()
        FROM generate_series(1, 2000) AS n"""
    )
    tx.execute("ANALYZE access_tokens")
    parameters = {"hash": "0" * 64, "now": tx.now}
    plan = "\n".join(tx.execute("EXPLAIN " + access_tokens._VERIFY, parameters).scalars())
    assert "Index Scan using access_tokens_token_hash_key" in plan
