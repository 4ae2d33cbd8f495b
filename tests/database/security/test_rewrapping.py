"""Stored secrets are sealed anew with the key in use, some at a time, and doctor knows which are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.pages import ROOT
from support.run_driver import RunDriver
from support.source_tree import imports, sources

from pipeweave.cli import main
from pipeweave.orchestrator.deployment.sealed_columns import SEALED
from pipeweave.orchestrator.diagnosis import check_keys
from pipeweave.orchestrator.security import (
    READ,
    PersonLogin,
    PersonRights,
    Role,
    person_sessions,
    rewrapping,
    sealed_texts,
    sessions,
)
from pipeweave.orchestrator.starts.triggers import storing
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.settings import Settings

OLD, NEW, OTHER = "0" * 32, "1" * 32, "2" * 32
RING = f"{NEW},{OLD}"

_ADD = """
INSERT INTO triggers (tenant_id, id, kind, pipeline_id, scheme, secret, old_secret, old_secret_until,
    filter, input, max_per_minute, enabled, created_at, updated_at)
VALUES (:tenant, :id, 'webhook', 'driven', 'pipeweave', :secret, :old_secret, :until,
    '{}', '{}', 60, true, :now, :now)
"""


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    isolated_driver.store({"a": []})
    with isolated_driver.database.transaction() as tx:
        tx.execute("DELETE FROM triggers")
        tx.execute("DELETE FROM ui_sessions")
    return isolated_driver


def add(driver: RunDriver, id: str, key: str, *, has_old: bool = False) -> None:
    def insert(tx: Transaction) -> None:
        purpose = storing.purpose(driver.tenant, id)
        sealed = sealed_texts.seal(key, purpose, f"secret of {id}")
        parameters = {
            "tenant": driver.tenant,
            "id": id,
            # As it was stored before texts named their key.
            "secret": sealed.rpartition(":")[2] if id.startswith("first") else sealed,
            "old_secret": sealed_texts.seal(key, purpose, f"old of {id}") if has_old else None,
            "until": tx.now if has_old else None,
            "now": tx.now,
        }
        tx.execute(_ADD, parameters)

    driver.database.run(insert)


def secrets_of(driver: RunDriver, key: str) -> dict[str, str]:
    rows = driver.rows("SELECT id, secret FROM triggers WHERE tenant_id = :tenant", tenant=driver.tenant)
    return {
        row.id: sealed_texts.open_sealed(key, storing.purpose(driver.tenant, row.id), row.secret)
        for row in rows
    }


@pytest.mark.parametrize("batch", [1, 2, 200])
def test_every_text_is_sealed_anew_in_batches_of_any_size(driver: RunDriver, batch: int) -> None:
    for number in range(3):
        add(driver, f"t{number}", OLD, has_old=number == 0)
    add(driver, "first-form", OLD)
    add(driver, "is-new", NEW)
    done = rewrapping.rewrap(driver.database, RING, SEALED, batch=batch)
    assert (done.count, done.unreadable) == (5, [])
    # The earlier key is needed no more.
    assert secrets_of(driver, NEW) == {
        each: f"secret of {each}" for each in ("t0", "t1", "t2", "first-form", "is-new")
    }
    assert rewrapping.rewrap(driver.database, RING, SEALED).count == 0


def test_people_who_are_logged_in_stay_so_when_the_earlier_key_is_removed(driver: RunDriver) -> None:
    rights = PersonRights((Role(("*",), (READ,)),))
    login = PersonLogin("https://login.example", "ann", "ann", rights, "refresh")
    session = driver.database.run(lambda tx: sessions.begin_for_person(tx, login, OLD, "a browser"))
    assert rewrapping.rewrap(driver.database, RING, SEALED).count == 1
    driver.rows(
        """UPDATE ui_sessions SET rights_at = rights_at - interval '1 hour',
            asked_at = asked_at - interval '1 hour' RETURNING id"""
    )
    opened = driver.database.run(lambda tx: sessions.verify_session(tx, session.secret))
    assert opened is not None
    due = driver.database.run(lambda tx: person_sessions.claim_due(tx, opened.id, NEW))
    assert due is not None and due.refresh_token == "refresh"


def test_every_module_that_seals_a_column_names_it_for_the_exchange_of_keys() -> None:
    """A text that is not named would be lost with the earlier key. A cookie is no column."""

    def seals(path: Path) -> bool:
        text = path.read_text()
        # To read the tree of every source takes seconds.
        names = {name.rpartition(".")[2] for name in imports(path)} if "seal" in text else ()
        return "seal" in names or "sealed_texts.seal(" in text

    sealing = {str(path.relative_to(ROOT)) for path in sources() if seals(path)}
    assert sealing == {
        "api/ui/oidc_login.py",
        "orchestrator/security/person_sessions.py",
        "orchestrator/security/rewrapping.py",
        "orchestrator/starts/triggers/storing.py",
    }
    assert {each.table for each in SEALED} == {"triggers", "ui_sessions"}


def test_it_goes_on_where_it_was_stopped(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        add(driver, f"t{number}", OLD)
    run, left = Database.run, iter([True, True])

    def stops(self: Database, *given: object, **more: object) -> object:
        if not next(left, False):
            raise KeyboardInterrupt
        return run(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        rewrapping.rewrap(driver.database, RING, SEALED, batch=1)
    monkeypatch.undo()
    assert rewrapping.rewrap(driver.database, RING, SEALED, batch=1).count == 2
    assert len(secrets_of(driver, NEW)) == 4


def test_a_text_that_no_key_opens_is_left_and_named(driver: RunDriver) -> None:
    add(driver, "lost", OTHER)
    add(driver, "mine", OLD)
    done = rewrapping.rewrap(driver.database, RING, SEALED, batch=1)
    assert (done.count, done.unreadable) == (1, [f"triggers.secret {driver.tenant}/lost"])
    assert secrets_of(driver, f"{NEW},{OTHER}")["lost"] == "secret of lost"


def test_doctor_says_what_the_earlier_keys_are_needed_for(driver: RunDriver) -> None:
    settings = Settings(database_url=driver.database.url, secret_key=RING)
    assert check_keys.keys(replace(settings, secret_key=None)).level == "ok"
    add(driver, "mine", OLD)
    verdict = check_keys.keys(settings)
    assert "1 of triggers.secret" in verdict.line and "rewrap" in str(verdict.hint)
    rewrapping.rewrap(driver.database, RING, SEALED)
    assert "can be removed" in check_keys.keys(settings).line
    assert "one key" in check_keys.keys(replace(settings, secret_key=NEW)).line
    assert OLD not in verdict.line


def test_the_command_seals_anew_and_is_in_the_audit(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(driver, "mine", OLD)
    add(driver, "lost", OTHER)
    monkeypatch.setenv("PIPEWEAVE_SECRET_KEY", RING)
    done = CliRunner().invoke(main, ["secrets", "rewrap", "--database-url", driver.database.url])
    assert done.exit_code != 0
    assert "Sealed 1 stored secrets" in done.stdout
    assert "no key opens triggers.secret" in done.stderr + str(done.exception)
    rows = driver.rows("SELECT verb, after FROM audit WHERE verb = 'secrets rewrap'")
    assert rows
