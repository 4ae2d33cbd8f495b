"""Sessions of people: what the table refuses, and what they are in lists and audits."""

from __future__ import annotations

from datetime import timedelta

import psycopg2
import pytest
from sqlalchemy.exc import DBAPIError

from pipeweave.errors import InvalidSetting
from pipeweave.orchestrator.security import (
    READ,
    WRITE,
    PersonLogin,
    PersonRights,
    Role,
    access_tokens,
    person_sessions,
    sessions,
)
from pipeweave.orchestrator.security.sessions import IDLE
from pipeweave.orchestrator.store.database import Transaction

KEY = "5e" * 32
RIGHTS = PersonRights((Role(("shop",), (WRITE,)), Role(("*",), (READ,))), ("engineers",))


def begun(tx: Transaction, refresh_token: str | None = "refresh") -> sessions.Session:
    login = PersonLogin("https://login.example.com", "ann-17", "ann", RIGHTS, refresh_token)
    return sessions.begin_for_person(tx, login, KEY, "A browser")


def test_a_session_of_a_person_is_what_their_roles_are(tx: Transaction) -> None:
    opened = sessions.verify_session(tx, begun(tx).secret)
    assert opened is not None
    access = opened.access
    assert (access.name, access.subject, access.token_id) == ("oidc:ann-17", "ann-17", None)
    assert (access.tenants, access.roles, access.groups) == (("*", "shop"), RIGHTS.roles, ("engineers",))


@pytest.mark.parametrize(
    "nonsense",
    [
        "subject = NULL",
        "issuer = NULL",
        "roles = NULL",
        "rights_at = NULL",
        "roles = '[]'",
        "roles = '{}'",
        "tenants = '{}'",
        "subject = ''",
        "rights_at = asked_at + interval '1 second'",
        "token_id = (SELECT id FROM access_tokens LIMIT 1)",
    ],
)
def test_the_table_refuses_what_is_neither_a_persons_nor_a_tokens(tx: Transaction, nonsense: str) -> None:
    access_tokens.create_token(tx, name="ci", tenants=["shop"], scopes=[READ])
    session = begun(tx)
    with pytest.raises((DBAPIError, psycopg2.Error)):
        tx.execute(f"UPDATE ui_sessions SET {nonsense} WHERE id = :id", {"id": session.id})


def test_a_session_of_a_token_has_nothing_of_a_person(tx: Transaction) -> None:
    token = access_tokens.create_token(tx, name="ci", tenants=["shop"], scopes=[READ])
    session = sessions.begin_by_token(tx, token)
    assert session is not None
    with pytest.raises((DBAPIError, psycopg2.Error)):
        tx.execute("UPDATE ui_sessions SET refresh_token = 'x' WHERE id = :id", {"id": session.id})


def test_it_is_asked_for_once_when_it_is_due(tx: Transaction) -> None:
    session = begun(tx)
    assert person_sessions.claim_due(tx, session.id, KEY) is None
    tx.now += person_sessions.RIGHTS_KEPT
    due = person_sessions.claim_due(tx, session.id, KEY)
    assert due is not None and (due.subject, due.refresh_token) == ("ann-17", "refresh")
    assert person_sessions.claim_due(tx, session.id, KEY) is None, "somebody asks already"
    tx.now += person_sessions.ASK_AGAIN
    assert person_sessions.claim_due(tx, session.id, KEY) is not None, "there was no answer"


def test_a_refresh_token_opens_with_the_key_of_the_deployment_and_for_its_session_alone(
    tx: Transaction,
) -> None:
    one, other = begun(tx, "one"), begun(tx, "other")
    tx.now += person_sessions.RIGHTS_KEPT
    tx.execute(
        "UPDATE ui_sessions SET refresh_token ="
        " (SELECT refresh_token FROM ui_sessions WHERE id = :other) WHERE id = :one",
        {"one": one.id, "other": other.id},
    )
    with pytest.raises(InvalidSetting):
        person_sessions.claim_due(tx, one.id, KEY)
    with pytest.raises(InvalidSetting):
        person_sessions.claim_due(tx, other.id, "00" * 32)


def test_use_prolongs_a_session_only_where_its_person_can_be_asked_for(tx: Transaction) -> None:
    long, short = begun(tx), begun(tx, None)
    assert short.expires_at == tx.now + person_sessions.RIGHTS_LAST
    tx.now += timedelta(minutes=30)
    for session in (long, short):
        sessions.see(tx, session.id)
    tx.now += person_sessions.RIGHTS_LAST
    assert sessions.verify_session(tx, short.secret) is None
    tx.now += IDLE - person_sessions.RIGHTS_LAST - timedelta(seconds=1)
    assert sessions.verify_session(tx, long.secret) is not None


def test_groups_without_a_role_are_nothing() -> None:
    role = Role(("shop",), (READ,))
    listed = [("engineers", role), ("guests", role)]
    assert person_sessions.rights_of(("others",), listed) is None
    rights = person_sessions.rights_of(("guests", "engineers", "a b"), listed)
    assert rights == PersonRights((role,), ("guests", "engineers"))
