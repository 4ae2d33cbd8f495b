"""Stored secrets are sealed anew with the key in use, some at a time, and doctor knows which are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner
from support.run_driver import RunDriver

from pipeweave.cli import main
from pipeweave.orchestrator.deployment.sealed_columns import SEALED
from pipeweave.orchestrator.diagnosis import check_keys
from pipeweave.orchestrator.security import rewrapping, sealed_texts
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
