"""Steps with bodies: what a body runs is a child, which sees what its step sees."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.child_runs import children, only_child, task_run
from support.run_driver import PERMANENT, RunDriver
from support.sent_statements import sent_statements
from support.stored_values import VALUES

from pipeweave.errors import Conflict
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import parse_spec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def store(driver: RunDriver, *steps: dict[str, Any], **document: Any) -> None:
    spec = parse_spec({"id": "outer", "steps": list(steps), **document})
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, spec, source="api")


def agree(driver: RunDriver, *runs: UUID) -> None:
    with verify.snapshot(driver.database) as tx:
        assert [verify.run(tx, each) for each in runs] == [[] for _ in runs]


def output(driver: RunDriver, run_id: UUID, step: str) -> Any:
    return task_run(driver, run_id, step).output


def test_the_steps_of_a_map_see_their_item_and_all_that_the_map_may_refer_to(driver: RunDriver) -> None:
    store(
        driver,
        {"id": "start", "task": "noop"},
        {
            "id": "each",
            "map": {
                "over": "${steps.start.list}",
                "steps": [
                    {
                        "id": "said",
                        "transform": "${item}/${mapIndex}/${steps.start.name}/${input.x}/${variables.v}"
                        "/${status.start}",
                    },
                    {"id": "work", "task": "noop", "condition": "steps.start.go && item != 'no'"},
                    {"id": "last", "transform": {"said": "${steps.said}", "work": "${steps.work}"}},
                ],
            },
        },
        {"id": "end", "task": "noop"},
        variables={"v": "${input.x}!"},
    )
    run_id = driver.trigger("outer", {"x": "in"})
    driver.finish(run_id, "start", output={"list": ["a", "no"], "name": "n", "go": True})
    first, second = children(driver, run_id)
    assert (first.body, first.pipeline_id, first.input, first.depth) == ("each.map", "outer", {"x": "in"}, 1)
    assert second.status == "completed"
    driver.finish(first.id, "work", output=7)
    items = [row.output for row in driver.task_runs(run_id) if row.kind == "item"]
    assert items == [
        {"said": "a/0/n/in/in!/completed", "work": 7},
        {"said": "no/1/n/in/in!/completed", "work": None},
    ]
    driver.finish(run_id, "end")
    assert driver.run(run_id).status == "completed"
    agree(driver, run_id, first.id, second.id)


def test_each_round_of_a_loop_sees_its_number_and_the_output_before(driver: RunDriver) -> None:
    store(
        driver,
        {
            "id": "again",
            "loop": {
                "maxIterations": 5,
                "until": "last.n >= 2",
                "steps": [
                    {"id": "n", "transform": {"n": "${(loop.last.n ?? -1) + 1}", "index": "${loop.index}"}}
                ],
            },
        },
    )
    run_id = driver.trigger("outer")
    assert output(driver, run_id, "again") == {"n": 2, "index": 2}
    assert [each.body for each in children(driver, run_id)] == ["again.loop"] * 3
    agree(driver, run_id, *(each.id for each in children(driver, run_id)))


def test_a_body_in_a_body_sees_everything_around_it(driver: RunDriver) -> None:
    store(
        driver,
        {"id": "start", "task": "noop"},
        {
            "id": "each",
            "map": {
                "over": "${input.list}",
                "steps": [
                    {"id": "own", "transform": "own ${item}"},
                    {
                        "id": "again",
                        "loop": {
                            "maxIterations": 2,
                            "collect": True,
                            "steps": [
                                {
                                    "id": "deep",
                                    "transform": "${steps.start}, ${steps.own}, ${item}, ${loop.index}",
                                }
                            ],
                        },
                    },
                ],
            },
        },
    )
    run_id = driver.trigger("outer", {"list": ["a"]})
    driver.finish(run_id, "start", output="s")
    [item] = [row for row in driver.task_runs(run_id) if row.kind == "item"]
    assert item.output == ["s, own a, a, 0", "s, own a, a, 1"]
    [inner] = children(driver, run_id)
    assert [(each.depth, each.root_run_id) for each in children(driver, inner.id)] == [(2, run_id)] * 2


def test_the_item_of_a_map_of_tasks_hides_that_of_the_body(driver: RunDriver) -> None:
    store(
        driver,
        {
            "id": "each",
            "map": {
                "over": ["outer"],
                "steps": [
                    {
                        "id": "inner",
                        "map": {
                            "over": ["x", "y"],
                            "steps": [{"id": "i", "transform": "${item} ${mapIndex}"}],
                        },
                    },
                    {"id": "o", "transform": ["${item}", "${steps.inner}"]},
                ],
            },
        },
    )
    run_id = driver.trigger("outer")
    [item] = [row for row in driver.task_runs(run_id) if row.kind == "item"]
    assert item.output == ["outer", ["x 0", "y 1"]]


def test_large_values_around_a_body_are_read_where_they_are(driver: RunDriver) -> None:
    large = {"list": ["a" * 40_000], "small": 1}
    store(
        driver,
        {"id": "start", "task": "noop"},
        {
            "id": "again",
            "loop": {
                "maxIterations": 2,
                "until": "last",
                "steps": [
                    {
                        "id": "n",
                        "transform": "${len(steps.start.list[0]) == 40000 && len(input.text) == 50000}",
                    }
                ],
            },
        },
    )
    run_id = driver.trigger("outer", {"text": "b" * 50_000})
    driver.finish(run_id, "start", output=large)
    [child] = children(driver, run_id)
    assert child.input is None and child.input_path == driver.run(run_id).input_path
    driver.check(child.id, 1)
    assert output(driver, run_id, "again") is True


def test_a_step_that_fails_in_a_body_fails_the_step_around_it(driver: RunDriver) -> None:
    store(driver, {"id": "again", "loop": {"maxIterations": 2, "steps": [{"id": "work", "task": "noop"}]}})
    run_id = driver.trigger("outer")
    driver.finish(only_child(driver, run_id), "work", failure=PERMANENT)
    failed = task_run(driver, run_id, "again")
    assert (failed.status, failed.error_code, failed.error["details"]["step"]) == (
        "failed",
        "CHILD_FAILED",
        "work",
    )


def test_a_body_is_not_repeated_without_the_run_around_it(driver: RunDriver) -> None:
    store(driver, {"id": "again", "loop": {"maxIterations": 1, "steps": [{"id": "n", "transform": 1}]}})
    run_id = driver.trigger("outer")
    child = only_child(driver, run_id)
    with driver.database.transaction() as tx, pytest.raises(Conflict, match="runs the body"):
        rerunning.rerun(tx, VALUES, driver.tenant, rerunning.Rerun(child))


def test_bodies_that_start_together_read_what_is_around_them_once(driver: RunDriver) -> None:
    def cost(items: int) -> int:
        run_id = driver.trigger("outer", {"list": list(range(items))})
        with sent_statements() as sent:
            driver.finish(run_id, "start", output=1)
        assert len(children(driver, run_id)) == items
        return len(sent)

    store(
        driver,
        {"id": "start", "task": "noop"},
        {
            "id": "each",
            "map": {
                "over": "${input.list}",
                "steps": [{"id": "w", "task": "noop", "params": {"v": "${steps.start} ${item}"}}],
            },
        },
    )
    assert cost(40) == cost(2)
