"""What a trigger goes by is what this process saw last, and the write finds out whether it still holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import call_concurrently
from support.factories import a_task, register, remove_task
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave.errors import Conflict, InvalidInput, Unavailable
from pipeweave.orchestrator.queueing import maintenance_mode, pauses
from pipeweave.orchestrator.registry import pipelines, snapshot
from pipeweave.orchestrator.registry.snapshot import CatalogSnapshot
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec.document import parse_spec


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    made.store({"a": []})
    made.trigger()
    yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were executed since."""
    seen: list[str] = []
    execute = Transaction.execute

    def watched(tx: Transaction, statement: str, *arguments: Any, **options: Any) -> Any:
        seen.append(statement)
        return execute(tx, statement, *arguments, **options)

    monkeypatch.setattr(Transaction, "execute", watched)
    return seen


def code_version(driver: RunDriver, run_id: UUID) -> int:
    [row] = driver.task_runs(run_id)
    return int(row.code_version)


def trigger_while(driver: RunDriver, change: Callable[[Transaction], Any], **options: Any) -> UUID:
    """Trigger a run; when its checks have passed, somebody else changes something."""
    changed: list[object] = []

    def check(*_: object) -> None:
        if not changed:
            with driver.database.transaction() as tx:
                changed.append(change(tx))

    with driver.database.statements() as tx:
        return triggering.trigger(
            tx, VALUES, driver.tenant, StartRequest("driven", **options), check=check
        ).id


def test_a_trigger_of_an_unchanged_pipeline_is_one_statement(driver: RunDriver, sent: list[str]) -> None:
    with driver.database.statements() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"))
    assert len(sent) == 1


@pytest.fixture
def rated(driver: RunDriver) -> RunDriver:
    """The pipeline `rated` runs a task with a rate limit."""
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("rated", rate_limit="100/s"), id="rates")
    driver.store({"a": []}, id="rated", tasks={"a": "rated"})
    driver.trigger("rated")
    return driver


# What a start and an end write into the row of a task.
START = "UPDATE tasks SET rate_at = clock_timestamp(), usual_seconds = random() WHERE tenant_id = :id"


def test_starts_of_a_task_with_a_rate_limit_spare_its_triggers_the_look(
    rated: RunDriver, sent: list[str]
) -> None:
    rated.rows(f"{START} RETURNING 1", id=rated.tenant)
    sent.clear()
    rated.trigger("rated")
    assert not [each for each in sent if "current_version" in each]
    assert len([each for each in sent if "INSERT INTO runs" in each]) == 1


def test_a_task_that_starts_during_each_look_does_not_keep_a_trigger_looking(
    rated: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[CatalogSnapshot] = []
    look = snapshot.take_snapshot

    def look_and_start(*arguments: Any) -> CatalogSnapshot:
        looks.append(look(*arguments))
        rated.rows(f"{START} RETURNING 1", id=rated.tenant)
        return looks[-1]

    monkeypatch.setattr(snapshot, "take_snapshot", look_and_start)
    with rated.database.statements() as tx:
        triggering.trigger(tx, VALUES, rated.tenant, StartRequest("rated", run_token="t"))
    assert len(looks) == 1


def test_another_rate_counts_for_the_next_run(rated: RunDriver, sent: list[str]) -> None:
    with rated.database.transaction() as tx:
        register(tx, rated.tenant, a_task("rated"), id="rates")
    [row] = rated.task_runs(rated.trigger("rated"))
    assert not row.is_limited


def test_a_catalog_that_changes_with_every_look_ends_a_trigger(driver: RunDriver) -> None:
    changes = itertools.count(1)

    def change(*_: object) -> None:
        with driver.database.transaction() as tx:
            register(tx, driver.tenant, a_task("noop", f"code {next(changes)}"))
        assert next(changes) < 100, "the trigger looks for ever"

    with pytest.raises(Unavailable, match="changed"), driver.database.statements() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"), check=change)
    assert len(driver.rows("SELECT 1 FROM runs WHERE tenant_id = :id", id=driver.tenant)) == 1


def test_a_change_of_code_counts_for_the_next_run(driver: RunDriver) -> None:
    assert code_version(driver, driver.trigger()) == 1
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("noop", "second"))
    assert code_version(driver, driver.trigger()) == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tasks SET priority = 7 WHERE tenant_id = :id AND id = 'noop' RETURNING 1",
        "UPDATE services SET queue = queue || '.other' WHERE tenant_id = :id RETURNING 1",
        "UPDATE tasks SET concurrency = 1 WHERE tenant_id = :id AND id = 'noop' RETURNING 1",
    ],
)
def test_any_change_of_a_row_is_seen(driver: RunDriver, change: str) -> None:
    with driver.database.transaction() as tx:
        tx.execute(change, {"id": driver.tenant})
        # Even by the transaction that made it.
        inside = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven")).id
    rows = [driver.task_runs(each)[0] for each in (inside, driver.trigger())]
    [task] = driver.rows("SELECT * FROM tasks WHERE tenant_id = :id AND id = 'noop'", id=driver.tenant)
    [service] = driver.rows("SELECT * FROM services WHERE tenant_id = :id", id=driver.tenant)
    for row in rows:
        assert (row.priority, row.queue, row.is_limited) == (
            task.priority,
            service.queue,
            task.concurrency > 0,
        )


def test_every_change_of_one_transaction_counts(driver: RunDriver) -> None:
    """All of them bear its number: where a row lies tells them apart."""
    change = "UPDATE tasks SET priority = :to WHERE tenant_id = :id AND id = 'noop'"
    with driver.database.transaction() as tx:
        for priority in (7, 8, 9):
            tx.execute(change, {"id": driver.tenant, "to": priority})
            run_id = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven")).id
            row = tx.execute("SELECT priority FROM task_runs WHERE run_id = :id", {"id": run_id}).one()
            assert row.priority == priority


def test_every_version_of_one_transaction_counts(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        for version, step in enumerate("xyz", start=2):
            spec = parse_spec({"id": "driven", "steps": [{"id": step, "task": "noop"}]})
            pipelines.store(tx, driver.tenant, spec, source="api")
            assert triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven")).version == version


def test_a_change_of_another_tenant_costs_nothing(driver: RunDriver, sent: list[str]) -> None:
    """Its tasks may have the same names."""
    other = RunDriver(driver.database)
    with driver.database.transaction() as tx:
        register(tx, other.tenant, a_task("noop", "second"))
    sent.clear()
    with driver.database.statements() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"))
    assert len(sent) == 1


def test_a_new_version_of_the_pipeline_counts_for_the_next_run(driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]})
    run_id = driver.trigger()
    assert (driver.run(run_id).pipeline_version, len(driver.task_runs(run_id))) == (2, 2)


def test_a_version_that_was_rolled_back_is_forgotten(driver: RunDriver) -> None:
    with pytest.raises(ZeroDivisionError), driver.database.transaction() as tx:
        tx.execute(
            """INSERT INTO pipeline_versions (tenant_id, pipeline_id, version, spec, spec_hash, source,
                   created_at)
               SELECT tenant_id, pipeline_id, 2, spec, spec_hash, source, created_at FROM pipeline_versions
               WHERE tenant_id = :id AND pipeline_id = 'driven'""",
            {"id": driver.tenant},
        )
        tx.execute(
            "UPDATE pipelines SET latest_version = 2 WHERE tenant_id = :id AND id = 'driven'",
            {"id": driver.tenant},
        )
        assert triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven")).version == 2
        raise ZeroDivisionError
    assert driver.run(driver.trigger()).pipeline_version == 1


def test_a_task_changed_between_the_checks_and_the_write_is_checked_again(driver: RunDriver) -> None:
    changed = trigger_while(driver, lambda tx: register(tx, driver.tenant, a_task("noop", "second")))
    assert code_version(driver, changed) == 2


def test_a_run_token_names_the_run_that_was_written_after_a_change(driver: RunDriver) -> None:
    def change(tx: Transaction) -> None:
        register(tx, driver.tenant, a_task("noop", "second"))

    changed = trigger_while(driver, change, run_token="once")
    assert code_version(driver, changed) == 2
    assert driver.trigger(run_token="once") == changed


def test_a_task_that_goes_between_the_checks_and_the_write_is_a_conflict(driver: RunDriver) -> None:
    with pytest.raises(Conflict, match="not registered"):
        trigger_while(driver, lambda tx: remove_task(tx, driver.tenant, "noop"))
    assert len(driver.rows("SELECT 1 FROM runs WHERE tenant_id = :id", id=driver.tenant)) == 1


def test_no_trigger_is_refused_because_of_an_outdated_snapshot(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "noop")
    with pytest.raises(Conflict):
        driver.trigger()
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop")
    driver.trigger()


def test_a_refusal_comes_from_a_fresh_look(driver: RunDriver) -> None:
    answers: list[int] = []

    def check(*_: object) -> None:
        answers.append(len(answers))
        if len(answers) == 1:
            raise InvalidInput("by what was remembered")

    driver.database.run(
        lambda tx: triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"), check=check)
    )
    assert answers == [0, 1]


def test_maintenance_and_pauses_are_told_apart_from_a_change(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        pauses.pause(tx, driver.tenant, "noop")
        register(tx, driver.tenant, a_task("noop", "second"))
    run_id = driver.trigger()
    [row] = driver.task_runs(run_id)
    assert (row.status, row.code_version) == ("ready", 2)
    try:
        driver.database.run(lambda tx: maintenance_mode.request(tx))
        with pytest.raises(Unavailable, match="maintenance"):
            driver.trigger()
    finally:
        driver.database.run(lambda tx: maintenance_mode.leave(tx))
    driver.trigger()


def test_runs_and_changes_at_once_agree_on_what_was_run(driver: RunDriver) -> None:
    def change() -> list[int]:
        for number in range(20):
            with driver.database.transaction() as tx:
                register(tx, driver.tenant, a_task("noop", f"code {number}"))
        return []

    def run() -> list[int]:
        return [code_version(driver, driver.trigger()) for _ in range(40)]

    *runners, _ = call_concurrently(run, run, change)
    history = driver.rows(
        "SELECT code_version, code_hash FROM task_code_history WHERE tenant_id = :id AND task_id = 'noop'",
        id=driver.tenant,
    )
    hashes = {row.code_version: row.code_hash for row in history}
    for each in runners:
        assert each.error is None
        assert each.result == sorted(each.result)  # never back to an older one
    written = driver.rows(
        "SELECT DISTINCT code_version, code_hash FROM task_runs WHERE tenant_id = :id", id=driver.tenant
    )
    assert {row.code_version: row.code_hash for row in written}.items() <= hashes.items()
