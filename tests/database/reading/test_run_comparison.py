"""Two runs beside each other, as they lie in the database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, finish_next_attempt, finish_task_run

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.ids import new_id
from pipeweave.orchestrator.documents.comparisons import RunComparison
from pipeweave.orchestrator.reading import compare_runs
from pipeweave.orchestrator.store.database import Database, to_json


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def compared(driver: RunDriver, left: UUID, right: UUID, **options: Any) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = compare_runs(tx, driver.tenant, left, right, **options)
    RunComparison.model_validate_json(to_json(found))
    return found


def steps_of(found: dict[str, Any]) -> dict[str, Any]:
    return {each["id"]: each for each in found["steps"]}


def test_inputs_statuses_attempts_and_outputs_are_compared(driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]})
    left, right = driver.trigger(input={"n": 1, "same": 2}), driver.trigger(input={"n": 9, "same": 2})
    driver.finish(left, "a", "b", output={"total": 3})
    driver.finish(right, "a", output={"total": 3})
    driver.finish(right, "b", failure=PERMANENT)
    found = compared(driver, left, right)
    assert found["input"] == {
        "isSame": False,
        "differences": [{"path": ".n", "change": "changed", "left": 1, "right": 9, "isCut": False}],
        "isComplete": True,
    }
    assert found["version"] == {"left": 1, "right": 1, "added": [], "removed": [], "changed": []}
    steps = steps_of(found)
    assert (steps["a"]["hasSameOutput"], steps["a"]["isChanged"]) == (True, False)
    assert (steps["b"]["hasSameOutput"], steps["b"]["isChanged"]) == (None, True)
    assert (steps["b"]["left"]["status"], steps["b"]["right"]["status"]) == ("completed", "failed")
    assert steps["b"]["right"]["errorCode"] == "BOOM"
    assert found["deltaMs"] is not None
    assert found["counts"]["sameOutput"] == 1


def test_a_retried_step_took_all_its_attempts(driver: RunDriver) -> None:
    driver.store({"a": []})
    left, right = driver.trigger(), driver.trigger()
    driver.finish(left, "a", output=1)
    driver.finish(right, "a", failure=TRANSIENT)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, right, 1, output=driver.values.keep(1))
    driver.rows(
        "UPDATE attempts SET started_at = started_at - interval '1 minute' WHERE run_id = :id RETURNING 1",
        id=right,
    )
    step = steps_of(compared(driver, left, right))["a"]
    assert step["right"]["attempt"] == 2
    assert step["right"]["durationMs"] >= 60_000
    assert step["deltaMs"] > 50_000


def test_runs_of_two_versions_say_which_steps_differ(driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"], "c": ["b"]})
    left = driver.trigger()
    driver.store({"a": [], "b": [], "d": ["b"]})
    right = driver.trigger()
    found = compared(driver, left, right)
    assert found["version"] == {
        "left": 1,
        "right": 2,
        "added": ["d"],
        "removed": ["c"],
        "changed": ["b"],
    }
    assert {each["id"]: each["presence"] for each in found["steps"]} == {
        "a": "both",
        "b": "both",
        "c": "onlyLeft",
        "d": "onlyRight",
    }
    assert found["deltaMs"] is None, "both are open"


def test_the_outputs_of_maps_are_compared_by_their_items(driver: RunDriver) -> None:
    def run_of(*values: int) -> UUID:
        id = driver.trigger("mapped", {"list": [1, 2]})
        for ordinal, value in enumerate(values, 2):
            with driver.database.transaction() as tx:
                finish_task_run(tx, id, ordinal, output=value)
        return id

    driver.store({"a": []}, id="mapped", maps={"a": "${input.list}"})
    first, same, other = run_of(5, 6), run_of(5, 6), run_of(5, 7)
    assert steps_of(compared(driver, first, same))["a"]["hasSameOutput"] is True
    assert steps_of(compared(driver, first, other))["a"]["hasSameOutput"] is False
    assert steps_of(compared(driver, first, other))["a"]["left"]["items"] == 2


def test_only_those_steps_are_listed_that_cost_most(driver: RunDriver) -> None:
    driver.store({"a": [], "b": [], "c": []})
    found = compared(driver, driver.trigger(), driver.trigger(), limit=2)
    assert (len(found["steps"]), found["isComplete"], found["counts"]["both"]) == (2, False, 3)


def test_runs_of_different_pipelines_are_refused(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one")
    driver.store({"a": []}, id="two")
    with pytest.raises(InvalidInput, match="is a run of pipeline two"):
        compared(driver, driver.trigger("one"), driver.trigger("two"))
    with pytest.raises(NotFound):
        compared(driver, driver.trigger("one"), new_id())
