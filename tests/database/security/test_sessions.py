"""Sessions of browsers: begun with a token or a link, over with the token, by idling or by age."""

from __future__ import annotations

import hashlib
import threading
from datetime import timedelta

import pytest
from support.concurrency import call_concurrently
from support.lock_watch import LockWatch

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.reading import sessions as session_list
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.security import access_tokens, sessions
from pipeweave.orchestrator.security.access_tokens import READ, TOKEN_ID
from pipeweave.orchestrator.security.sessions import IDLE, LINK_LIFE, LONGEST, SESSION_ID, Session
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest


def token(tx: Transaction, *tenants: str, life: timedelta | None = None, name: str = "ui") -> str:
    return access_tokens.create_token(
        tx,
        name=name,
        tenants=tenants or ["default"],
        scopes=[READ],
        expires_at=None if life is None else tx.now + life,
    )


def begun(tx: Transaction, *tenants: str, life: timedelta | None = None) -> Session:
    found = sessions.begin_by_token(tx, token(tx, *tenants, life=life), "A browser")
    assert found is not None
    return found


def is_open(tx: Transaction, session: Session) -> bool:
    return sessions.verify_session(tx, session.secret) is not None


def test_a_session_has_the_rights_of_its_token(tx: Transaction) -> None:
    session = begun(tx, "one", "two")
    found = sessions.verify_session(tx, session.secret)
    assert found is not None and found.id == session.id
    assert (found.access.tenants, found.access.scopes, found.access.name) == (("one", "two"), (READ,), "ui")


def test_only_the_hash_of_its_secret_is_stored(tx: Transaction) -> None:
    session = begun(tx)
    row = tx.execute(
        "SELECT hash, CAST(s AS text) AS row FROM ui_sessions AS s WHERE id = :id", {"id": session.id}
    )
    stored = row.one()
    assert session.secret not in stored.row and len(session.secret) == 43
    assert stored.hash == hashlib.sha256(session.secret.encode()).hexdigest()


@pytest.mark.parametrize("wrong", ["pw_unknown", "", "pw_" + "x" * 43, "pw_\0", "pw_\u00e9"])
def test_an_unknown_token_begins_none(tx: Transaction, wrong: str) -> None:
    assert sessions.begin_by_token(tx, wrong) is None


@pytest.mark.parametrize("wrong", ["", "x" * 43, "\0", "\ud800"])
def test_an_unknown_secret_is_nothing(tx: Transaction, wrong: str) -> None:
    assert sessions.verify_session(tx, wrong) is None
    assert sessions.begin_by_link(tx, wrong) is None


def test_a_session_ends_with_its_token(tx: Transaction) -> None:
    session, short = begun(tx, "one"), begun(tx, life=timedelta(hours=1))
    access_tokens.revoke(tx, "ui")
    assert not is_open(tx, session)
    assert short.expires_at == tx.now + timedelta(hours=1)
    other = begun(tx, life=timedelta(hours=1))
    tx.now += timedelta(hours=1)
    assert not is_open(tx, other)


def test_a_session_that_nobody_uses_ends_after_half_a_day(tx: Transaction) -> None:
    session = begun(tx)
    tx.now += IDLE - timedelta(seconds=1)
    assert is_open(tx, session)
    tx.now += timedelta(seconds=1)
    assert not is_open(tx, session)


def test_a_session_in_use_ends_after_a_week(tx: Transaction) -> None:
    session, began = begun(tx), tx.now
    while tx.now < began + LONGEST - timedelta(hours=11):
        tx.now += timedelta(hours=11)
        found = sessions.verify_session(tx, session.secret)
        assert found is not None and found.is_use_due
        sessions.see(tx, found.id)
    tx.now = began + LONGEST - timedelta(seconds=1)
    assert is_open(tx, session)
    tx.now = began + LONGEST
    assert not is_open(tx, session)


def test_its_use_is_noted_once_in_some_minutes(tx: Transaction) -> None:
    session = begun(tx)
    tx.now += access_tokens.USED_EVERY - timedelta(seconds=1)
    found = sessions.verify_session(tx, session.secret)
    assert found is not None and not found.is_use_due
    tx.now += timedelta(seconds=1)
    found = sessions.verify_session(tx, session.secret)
    assert found is not None and found.is_use_due
    sessions.see(tx, found.id)
    again = sessions.verify_session(tx, session.secret)
    assert again is not None and not again.is_use_due


def test_an_ended_session_is_over_and_ending_it_again_changes_nothing(tx: Transaction) -> None:
    session, other = begun(tx), begun(tx)
    sessions.end(tx, session.secret)
    sessions.end(tx, session.secret)
    assert not is_open(tx, session) and is_open(tx, other)


def linked(tx: Transaction, text: str) -> str:
    access = access_tokens.verify(tx, text)
    assert access is not None
    return sessions.make_link(tx, access.id)[0]


def test_a_link_begins_one_session(tx: Transaction) -> None:
    code = linked(tx, token(tx, "one"))
    session = sessions.begin_by_link(tx, code)
    assert session is not None and is_open(tx, session)
    assert sessions.begin_by_link(tx, code) is None


def test_a_link_is_good_for_a_minute(tx: Transaction) -> None:
    code = linked(tx, token(tx))
    tx.now += LINK_LIFE
    assert sessions.begin_by_link(tx, code) is None


def test_a_link_of_a_revoked_token_begins_nothing(tx: Transaction) -> None:
    code = linked(tx, token(tx))
    access_tokens.revoke(tx, "ui")
    assert sessions.begin_by_link(tx, code) is None


def test_the_list_shows_open_sessions_of_the_callers_tenants(tx: Transaction) -> None:
    mine, over = begun(tx, "mine"), begun(tx, "mine", life=timedelta(seconds=1))
    begun(tx, "mine", "theirs")
    tx.now += timedelta(seconds=2)
    (shown,) = session_list.sessions(tx, ["mine"], PageRequest())["items"]
    assert shown["id"] == ids.show(SESSION_ID, mine.id) != ids.show(SESSION_ID, over.id)
    assert (shown["tokenName"], shown["agent"]) == ("ui", "A browser")
    assert mine.secret not in str(shown)
    assert len(session_list.sessions(tx, ["*"], PageRequest())["items"]) >= 2


def test_a_session_of_foreign_tenants_cannot_be_ended(tx: Transaction) -> None:
    session = begun(tx, "mine", "theirs")
    shown = ids.show(SESSION_ID, session.id)
    with pytest.raises(NotFound):
        sessions.revoke(tx, shown, ["mine"])
    assert is_open(tx, session)
    assert sessions.revoke(tx, shown, ["mine", "theirs"]) == "ui"
    assert not is_open(tx, session)


def test_a_token_of_foreign_tenants_cannot_be_revoked(tx: Transaction) -> None:
    text = token(tx, "mine", "theirs", name="shared")
    for known in ("shared", shown_id(tx, text)):
        with pytest.raises(NotFound):
            access_tokens.revoke(tx, known, ["mine"])
    assert access_tokens.revoke(tx, "shared", ["mine", "theirs", "more"])


def shown_id(tx: Transaction, text: str) -> str:
    access = access_tokens.verify(tx, text)
    assert access is not None
    return ids.show(TOKEN_ID, access.id)


def test_the_use_of_a_token_is_noted_once_in_some_minutes(tx: Transaction) -> None:
    text = token(tx)
    first = access_tokens.verify(tx, text)
    assert first is not None and first.is_use_due
    access_tokens.record_use(tx, first.id)
    again = access_tokens.verify(tx, text)
    assert again is not None and not again.is_use_due
    tx.now += access_tokens.USED_EVERY
    later = access_tokens.verify(tx, text)
    assert later is not None and later.is_use_due


def test_sessions_and_links_that_are_over_are_purged(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        session = begun(tx)
        begun(tx, life=timedelta(seconds=1))
        linked(tx, token(tx))
        tx.now += LINK_LIFE + timedelta(seconds=1)
        purged = expiry.run_once(tx, Policy())
        assert (purged.sessions, purged.login_links, purged.total) == (1, 1, 2)
        assert is_open(tx, session)


def test_a_session_is_looked_up_by_its_hash(tx: Transaction) -> None:
    tx.execute(
        """INSERT INTO access_tokens (id, name, token_hash, tenants, scopes, created_at)
        SELECT gen_random_uuid(), 'n', encode(sha256(CAST(CAST(g AS text) AS bytea)), 'hex'),
            '{t}', '{s}', :now
        FROM generate_series(1, 2000) AS g""",
        {"now": tx.now},
    )
    tx.execute(
        """INSERT INTO ui_sessions (id, hash, token_id, created_at, seen_at, expires_at)
        SELECT gen_random_uuid(), token_hash, id, :now, :now, CAST(:now AS timestamptz) + interval '1 hour'
        FROM access_tokens WHERE name = 'n'""",
        {"now": tx.now},
    )
    tx.execute("ANALYZE ui_sessions")
    tx.execute("ANALYZE access_tokens")
    plan = "\n".join(tx.execute("EXPLAIN " + sessions._VERIFY, {"hash": "0" * 64, "now": tx.now}).scalars())
    assert "ui_sessions_hash_key" in plan and "Seq Scan" not in plan


def test_browsers_that_meet_never_wait_for_each_other_in_a_circle(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are used and sessions seen, ended and revoked, while their tokens are revoked."""
    watch = LockWatch(monkeypatch)

    def browse() -> None:
        for number in range(15):
            name = f"ui-{threading.get_ident()}-{number}"
            with fresh_database.transaction() as tx:
                access = access_tokens.verify(tx, token(tx, name=name))
                assert access is not None
                code, _ = sessions.make_link(tx, access.id)
                sessions.make_link(tx, access.id)
            with fresh_database.transaction() as tx:
                session = sessions.begin_by_link(tx, code)
                assert session is not None
            with fresh_database.transaction() as tx:
                sessions.see(tx, session.id)
            with fresh_database.transaction() as tx:
                if number % 3 == 0:
                    sessions.end(tx, session.secret)
                elif number % 3 == 1:
                    sessions.revoke(tx, ids.show(SESSION_ID, session.id), ["default"])
                else:
                    access_tokens.revoke(tx, name)
            with fresh_database.transaction() as tx:
                expiry.run_once(tx, Policy())

    for each in call_concurrently(*[browse] * 4):
        _ = each.result
    assert set(watch.waits) == set(), "no transaction waits for rows of two tables"
    assert {"access_tokens", "ui_links", "ui_sessions"} <= set(watch.sequence)
