"""The grid of a pipeline moves along its runs and its steps, and knows what a version does not have."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, children, only_child
from support.factories import a_pipeline, end
from support.failed_runs import MAP, failed_run, letters, retry
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.reading import Window, run_grid
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.spec import Body, MapSpec, StepSpec, engine_task

TENANT = "grid-tests"


def trigger(tx: Transaction, at: int) -> UUID:
    """A run whose id is that of this millisecond, so that the order is known."""
    run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest("p")).id
    moved = ids.new_id(int(tx.now.timestamp() * 1000) + at)
    tx.execute("UPDATE runs SET id = :to WHERE id = :id", {"to": moved, "id": run_id})
    for row in tx.execute("SELECT t.id FROM task_runs AS t WHERE t.run_id = :id", {"id": run_id}).all():
        other = ids.task_run_id(moved, ids.ordinal_of(row.id))
        tx.execute(
            "UPDATE task_runs SET run_id = :to, id = :other WHERE run_id = :run AND id = :id",
            {"to": moved, "other": other, "run": run_id, "id": row.id},
        )
    return moved


def shown(*runs: UUID) -> list[str]:
    return [ids.show(ids.RUN, each) for each in runs]


def test_it_moves_along_the_runs_both_ways(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b", id="p")
    runs = [trigger(tx, at) for at in range(1, 6)]
    first = reading.grid(tx, TENANT, "p", Window(runs=2))
    assert [each["id"] for each in first["runs"]] == shown(runs[4], runs[3])
    assert (first["hasNewer"], first["hasOlder"]) == (False, True)
    second = reading.grid(tx, TENANT, "p", Window(runs=2, before=runs[3]))
    assert [each["id"] for each in second["runs"]] == shown(runs[2], runs[1])
    assert (second["hasNewer"], second["hasOlder"]) == (True, True)
    back = reading.grid(tx, TENANT, "p", Window(runs=2, after=runs[2]))
    assert [each["id"] for each in back["runs"]] == shown(runs[4], runs[3])
    assert (back["hasNewer"], back["hasOlder"]) == (False, True)
    last = reading.grid(tx, TENANT, "p", Window(runs=2, before=runs[1]))
    assert ([each["id"] for each in last["runs"]], last["hasOlder"]) == (shown(runs[0]), False)


def test_it_moves_along_the_steps(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b", "c", id="p")
    trigger(tx, 1)
    first = reading.grid(tx, TENANT, "p", Window(steps=2))
    assert [each["id"] for each in first["steps"]] == ["a", "b"]
    assert (first["previousSteps"], first["nextSteps"], first["stepCount"]) == (None, "c", 3)
    rest = reading.grid(tx, TENANT, "p", Window(steps=2, from_step="c"))
    assert [each["id"] for each in rest["steps"]] == ["c"]
    assert (rest["previousSteps"], rest["nextSteps"]) == ("a", None)
    with pytest.raises(InvalidInput, match="no shown version has a step 'd'"):
        reading.grid(tx, TENANT, "p", Window(from_step="d"))


def test_a_cell_is_the_step_of_that_run_or_nothing(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b", id="p")
    old = trigger(tx, 1)
    end(tx, old, 1)
    a_pipeline(tx, TENANT, "a", "c", id="p")
    trigger(tx, 2)
    found = reading.grid(tx, TENANT, "p", Window())
    cells = {each["id"]: each["statuses"] for each in found["steps"]}
    assert cells == {"a": ["queued", "completed"], "c": ["pending", None], "b": [None, "pending"]}
    by_id = {each["id"]: each for each in found["steps"]}
    assert [by_id[each]["isInNewest"] for each in ("a", "b", "c")] == [True, False, True]
    assert by_id["a"]["ms"][1] is not None and by_id["a"]["ms"][0] is None
    assert [each["version"] for each in found["runs"]] == [2, 1]


def test_a_pipeline_without_runs_has_its_steps(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b", id="p")
    found = reading.grid(tx, TENANT, "p", Window())
    assert (found["runs"], [each["statuses"] for each in found["steps"]]) == ([], [[], []])
    with pytest.raises(NotFound):
        reading.grid(tx, TENANT, "nothing", Window())


def test_pipelines_come_with_their_newest_runs(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", id="p")
    a_pipeline(tx, TENANT, "a", id="q")
    runs = [trigger(tx, at) for at in range(1, 4)]
    listed = reading.pipeline_list(tx, TENANT, PageRequest(), recent=2)["items"]
    assert [[run["id"] for run in each["recentRuns"]] for each in listed] == [shown(runs[2], runs[1]), []]
    assert [each["recentRuns"] for each in reading.pipeline_list(tx, TENANT, PageRequest())["items"]] == [
        [],
        [],
    ]


# --- classes ----------------------------------------------------------------------------------------------


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """A tenant whose runs are committed."""
    return RunDriver(database)


WIDE = {"list": [], **{f"c{at}": ["list"] for at in range(4)}, "report": [f"c{at}" for at in range(4)]}


def test_steps_of_one_task_and_level_are_one_row_that_opens(driver: RunDriver) -> None:
    driver.store(WIDE, id="p", tasks={f"c{at}": "limited" for at in range(4)}, failureMode="continue")
    run_id = driver.trigger("p")
    driver.finish(run_id, "list", "c0")
    driver.finish(run_id, "c1", failure=PERMANENT)
    with driver.database.reading() as tx:
        found = reading.grid(tx, driver.tenant, "p", Window(view="pattern"))
        again = reading.grid(tx, driver.tenant, "p", Window(view="pattern", opened=("1/limited",), steps=3))
        rest = reading.grid(
            tx, driver.tenant, "p", Window(view="pattern", opened=("1/limited",), from_step="c1")
        )
    assert [(each["id"], each["stepCount"], each["statuses"]) for each in found["steps"]] == [
        ("list", 1, ["completed"]),
        ("1/limited", 4, ["failed"]),
        ("report", 1, ["pending"]),
    ]
    [folded] = found["steps"][1:2]
    assert (folded["failed"], folded["ms"], folded["isOpen"]) == ([1], [None], False)
    assert (found["view"], found["open"], found["stepCount"]) == ("pattern", [], 6)
    assert [each["id"] for each in again["steps"]] == ["list", "1/limited", "c0"]
    assert (again["open"], again["nextSteps"], again["stepCount"]) == (["1/limited"], "c1", 6)
    assert [each["id"] for each in rest["steps"]] == ["c1", "c2", "c3", "report"]
    assert [each["classId"] for each in rest["steps"]] == ["1/limited"] * 3 + [None]


def test_large_classes_leave_room_for_fewer_runs(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_grid, "MOST_CELLS", 12)
    driver.store(WIDE, id="p")
    runs = [driver.trigger("p") for _ in range(4)]
    with driver.database.reading() as tx:
        newest, middle, back = (
            reading.grid(tx, driver.tenant, "p", Window(view="pattern", **place))
            for place in ({}, {"before": runs[2]}, {"after": runs[1]})
        )
    for found, expected in ((newest, runs[3:1:-1]), (middle, runs[1::-1]), (back, runs[3:1:-1])):
        assert [each["id"] for each in found["runs"]] == shown(*expected)
    assert [(each["hasNewer"], each["hasOlder"]) for each in (newest, middle, back)] == [
        (False, True),
        (True, False),
        (False, True),
    ]


def test_failed_items_of_a_map_are_counted_until_they_are_retried(driver: RunDriver) -> None:
    worker = InlineWorker(driver)
    run_id = failed_run(
        worker,
        MAP,
        ("m", 1),
        ("m", 3),
        input={"l": [1] * 5},
        maps={"m": "${input.l}"},
        failureMode="continue",
    )

    def counts() -> Any:
        with driver.database.reading() as tx:
            found = reading.grid(tx, driver.tenant, "driven", Window())
        return [(each["items"], each["failed"]) for each in found["steps"]]

    assert counts() == [([5], [2]), ([None], [0])]
    retry(driver, letters(driver, run_id)[0])
    assert counts()[0] == ([5], [1])
    driver.rows("DELETE FROM dead_letters WHERE run_id = :id RETURNING 1", id=run_id)
    worker.fails = {}
    worker.consume_all()
    assert counts()[0] == ([5], [None]), "nobody knows how many, once dead letters are gone"


def test_runs_of_bodies_are_no_runs_of_the_pipeline(driver: RunDriver) -> None:
    """They have its id, but other steps: a step of a body has the ordinal of one of the pipeline."""
    worker = InlineWorker(driver)
    runs = Body((StepSpec("inner", "noop"),))
    driver.store_steps(StepSpec("each", engine_task(runs), decides=runs, map=MapSpec([1, 2, 3])), id="spread")
    run_id = driver.trigger("spread")
    worker.consume_all()
    assert len(children(driver, run_id)) == 3
    with driver.database.reading() as tx:
        found = reading.grid(tx, driver.tenant, "spread", Window())
        [listed] = reading.pipeline_list(tx, driver.tenant, PageRequest(), recent=20)["items"]
        spec = pipelines.get(tx, driver.tenant, "spread").spec
        past = reading.past_runs(tx, driver.tenant, spec)
        of_body = reading.past_runs(tx, driver.tenant, spec.bodies["each.map"], "each.map")
    assert (
        [each["id"] for each in found["runs"]]
        == [each["id"] for each in listed["recentRuns"]]
        == shown(run_id)
    )
    assert (len(past), len(of_body)) == (1, 3)


def test_child_runs_of_the_whole_pipeline_are_runs_of_it(driver: RunDriver) -> None:
    driver.store({"a": []}, id="inner")
    driver.store_steps(child("call", "inner"), id="outer")
    inner = only_child(driver, driver.trigger("outer"))
    with driver.database.reading() as tx:
        found = reading.grid(tx, driver.tenant, "inner", Window())
    assert [each["id"] for each in found["runs"]] == shown(inner)
