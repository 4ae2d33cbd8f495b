"""A map of pipelines has a child run for each item, and only so many at once."""

from __future__ import annotations

from typing import Any

import pytest
from support.child_runs import child, children
from support.engine_steps import transform
from support.run_driver import PERMANENT, RunDriver
from support.stored_values import VALUES

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import MapSpec, StepSpec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with a pipeline `inner` of one step."""
    driver = RunDriver(database)
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    return driver


def mapped(driver: RunDriver, parallel: int | None = None, pipeline: str = "inner", **rules: Any) -> None:
    """Store a pipeline that runs another one for each entry of its input's list."""
    over = MapSpec("${input.list}", max_parallel=parallel)
    driver.store_steps(
        child("each", pipeline, map=over, **rules), StepSpec("end", "noop", ("each",)), id="outer"
    )


def working(driver: RunDriver, run_id: Any) -> list[Any]:
    return [each for each in children(driver, run_id) if each.status == "running"]


def test_each_item_is_the_input_of_a_child_and_the_outputs_are_a_list(driver: RunDriver) -> None:
    mapped(driver, params={"name": "${item}", "number": "${mapIndex}"})
    run_id = driver.trigger("outer", {"list": ["a", "b"]})
    assert [each.input for each in children(driver, run_id)] == [
        {"name": "a", "number": 0},
        {"name": "b", "number": 1},
    ]
    for number, each in enumerate(reversed(children(driver, run_id))):
        driver.finish(each.id, "work", output=number)
    assert driver.statuses(run_id) == {"each": "completed", "end": "queued"}
    items = [row.output for row in driver.task_runs(run_id) if row.kind == "item"]
    assert items == [1, 0]
    driver.finish(run_id, "end")
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []


def test_no_more_children_are_open_than_the_map_says(driver: RunDriver) -> None:
    mapped(driver, parallel=2)
    run_id = driver.trigger("outer", {"list": [1, 2, 3, 4, 5]})
    done = 0
    while open_now := working(driver, run_id):
        assert len(open_now) == min(2, 5 - done)
        driver.finish(open_now[0].id, "work", output=done)
        done += 1
    assert (done, driver.statuses(run_id)["each"]) == (5, "completed")
    assert [each.input for each in children(driver, run_id)] == [1, 2, 3, 4, 5]


def test_a_failed_child_fails_the_map_and_its_siblings_are_cancelled(driver: RunDriver) -> None:
    mapped(driver, parallel=2)
    run_id = driver.trigger("outer", {"list": [1, 2, 3]})
    driver.finish(children(driver, run_id)[0].id, "work", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    assert [each.status for each in children(driver, run_id)] == ["failed", "cancelled"]


def test_where_the_run_goes_on_every_item_is_tried(driver: RunDriver) -> None:
    mapped(driver, parallel=1)
    with driver.database.transaction() as tx:
        request = triggering.StartRequest("outer", {"list": [1, 2, 3]}, failure_mode="continue")
        run_id = triggering.trigger(tx, VALUES, driver.tenant, request).id
    for number in range(3):
        [now] = working(driver, run_id)
        if number == 1:
            driver.finish(now.id, "work", failure=PERMANENT)
        else:
            driver.finish(now.id, "work")
    assert [each.status for each in children(driver, run_id)] == ["completed", "failed", "completed"]
    assert driver.run(run_id).status == "failed"


def test_an_empty_list_has_no_children(driver: RunDriver) -> None:
    mapped(driver)
    run_id = driver.trigger("outer", {"list": []})
    assert driver.statuses(run_id) == {"each": "completed", "end": "queued"}


def test_a_map_of_many_pipelines_ends(driver: RunDriver) -> None:
    driver.store_steps(transform("double", "${input * 2}"), id="pure")
    mapped(driver, parallel=10, pipeline="pure")
    run_id = driver.trigger("outer", {"list": list(range(60))})
    while driver.statuses(run_id)["each"] == "waiting":
        waits = driver.rows("SELECT run_id, task_run_id FROM waits WHERE run_id = :id", id=run_id)
        look(driver.database, VALUES, [tuple(each) for each in waits])
    outputs = [row.output for row in driver.task_runs(run_id) if row.kind == "item"]
    assert outputs == [2 * each for each in range(60)]
