"""Which version of a pipeline triggers take."""

from __future__ import annotations

from typing import Any

import pytest
from support.concurrency import call_concurrently
from support.run_driver import RunDriver

from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.registry import current_version, pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec import StepSpec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """A tenant with three versions of a pipeline, of 1, 2 and 3 steps."""
    driver = RunDriver(database)
    for size in (1, 2, 3):
        store(driver, size)
    return driver


def store(driver: RunDriver, size: int) -> int:
    return driver.store_steps(*(StepSpec(f"s{number}", "noop") for number in range(size)))


def started(driver: RunDriver, version: int | None = None) -> int:
    """The version of a run that is triggered now."""
    with driver.database.statements() as tx:
        request = StartRequest("driven")
        run = triggering.trigger(tx, driver.values, driver.tenant, request, version=version)
    assert len(driver.task_runs(run.id)) == run.version
    return run.version


def promote(driver: RunDriver, version: int | None, **options: Any) -> Any:
    with driver.database.transaction() as tx:
        return current_version.promote(tx, driver.tenant, "driven", version, by="ann", **options)


def roll_back(driver: RunDriver, expected: int | None = None) -> Any:
    with driver.database.transaction() as tx:
        return current_version.roll_back(tx, driver.tenant, "driven", expected=expected, by="ann")


def test_without_a_promotion_triggers_take_the_newest_version(driver: RunDriver) -> None:
    assert [started(driver), store(driver, 4), started(driver)] == [3, 4, 4]


def test_triggers_take_the_promoted_version_although_newer_ones_are_stored(driver: RunDriver) -> None:
    assert started(driver) == 3  # from now on, the process remembers it
    row = promote(driver, 1)
    assert (row.version, row.previous_version, row.promoted_by) == (1, 3, "ann")
    assert [started(driver), store(driver, 4), started(driver)] == [1, 4, 1]
    with driver.database.transaction() as tx:
        assert pipelines.get(tx, driver.tenant, "driven").version == 1


def test_the_same_spec_as_the_newest_makes_no_version_while_an_older_one_is_promoted(
    driver: RunDriver,
) -> None:
    promote(driver, 1)
    assert [store(driver, 3), store(driver, 1)] == [3, 4]


def test_to_follow_the_newest_ends_a_promotion(driver: RunDriver) -> None:
    promote(driver, 1)
    row = promote(driver, None)
    assert (row.version, row.promoted_version, row.previous_version) == (3, None, 1)
    assert [store(driver, 4), started(driver)] == [4, 4]


def test_a_rollback_leads_to_the_version_before_and_back_again(driver: RunDriver) -> None:
    assert [roll_back(driver).version for _ in range(3)] == [2, 3, 2]
    assert started(driver) == 2
    promote(driver, 1)
    assert roll_back(driver).version == 2


def test_a_rollback_without_an_earlier_version_is_refused(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"), id="young")
    with driver.database.transaction() as tx, pytest.raises(Conflict, match="no version before 1"):
        current_version.roll_back(tx, driver.tenant, "young")


def test_a_trigger_may_name_a_version(driver: RunDriver) -> None:
    promote(driver, 2)
    assert [started(driver, version) for version in (1, 3, None)] == [1, 3, 2]
    with pytest.raises(NotFound, match="no version 9"):
        started(driver, 9)


def test_what_is_promoted_twice_keeps_the_version_to_go_back_to(driver: RunDriver) -> None:
    promote(driver, 1)
    assert promote(driver, 1).previous_version == 3


def test_what_pins_the_current_version_keeps_the_version_to_go_back_to(driver: RunDriver) -> None:
    promote(driver, 1)
    promote(driver, None)
    assert promote(driver, 3).previous_version == 1


def test_unknown_versions_and_other_expectations_are_refused(driver: RunDriver) -> None:
    with pytest.raises(NotFound, match="no version 4"):
        promote(driver, 4)
    with pytest.raises(Conflict, match="is current, not 2"):
        promote(driver, 1, expected=2)
    with driver.database.transaction() as tx, pytest.raises(NotFound):
        current_version.read(tx, driver.tenant, "none")
    assert started(driver) == 3


def test_a_version_of_which_a_task_was_removed_is_refused(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "single"), id="driven")
    store(driver, 1)
    driver.rows(
        "UPDATE tasks SET orphaned_at = now() WHERE id = 'single' AND tenant_id = :id RETURNING 1",
        id=driver.tenant,
    )
    with pytest.raises(Conflict, match="single"):
        promote(driver, 4)


def test_of_two_who_leave_the_same_version_one_is_refused(driver: RunDriver) -> None:
    outcomes = call_concurrently(lambda: _refused(driver), lambda: _refused(driver))
    assert sorted(each.result for each in outcomes) == [False, True]
    assert started(driver) == 2


def _refused(driver: RunDriver) -> bool:
    try:
        roll_back(driver, expected=3)
    except Conflict:
        return True
    return False


def test_a_trigger_beside_a_promotion_takes_the_version_of_before_or_after(driver: RunDriver) -> None:
    for version in (1, 2, 3):
        before = started(driver)
        taken, _ = call_concurrently(lambda: started(driver), lambda v=version: promote(driver, v).version)
        assert taken.result in (before, version)
        assert started(driver) == version


def test_another_tenant_s_pipeline_keeps_its_version(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    for size in (1, 2):
        store(other, size)
    promote(driver, 1)
    assert started(other) == 2


def test_the_table_refuses_a_promoted_version_that_is_not_stored(driver: RunDriver, tx: Transaction) -> None:
    with pytest.raises(Exception, match="pipelines_promoted_check"):
        tx.execute(
            "UPDATE pipelines SET promoted_version = 9 WHERE tenant_id = :tenant", {"tenant": driver.tenant}
        )
