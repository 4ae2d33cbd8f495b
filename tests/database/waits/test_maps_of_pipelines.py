"""A map of pipelines has a child run for each item, and only so many at once."""

from __future__ import annotations

from typing import Any

import pytest
from support.child_runs import child, children, task_run
from support.due_waits import is_due
from support.engine_steps import transform
from support.run_driver import PERMANENT, RunDriver, finish_step
from support.sent_statements import sent_statements
from support.stored_values import VALUES

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits import due
from pipeweave.orchestrator.waits.loading import look
from pipeweave.orchestrator.waits.looking import look_for_children
from pipeweave.spec import MapSpec, StepSpec, child_steps


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


# --- children that end beside each other ------------------------------------------------------------------


def end_untold(driver: RunDriver, *children: Any) -> None:
    """End children; the process that ends one dies before it looks at the parent."""
    for each in children:
        with driver.database.transaction() as tx:
            finish_step(tx, each.id, "work", output=VALUES.keep(str(each.input)))
            tx._after.clear()


def begin(driver: RunDriver, items: int, parallel: int) -> Any:
    mapped(driver, parallel=parallel)
    return driver.trigger("outer", {"list": list(range(items))})


def cost_of_ending(driver: RunDriver, run_id: Any, children: int) -> tuple[int, int]:
    """Statements and commits of a look at so many children that ended, and of the start of as many."""
    end_untold(driver, *working(driver, run_id)[:children])
    with sent_statements() as sent:
        driver.database.run(lambda tx: look_for_children(tx, run_id))
    return sent.cost


def test_one_look_ends_the_waits_of_all_children_that_have_ended_and_starts_as_many(
    driver: RunDriver,
) -> None:
    run_id = begin(driver, items=9, parallel=4)
    end_untold(driver, *working(driver, run_id)[:3])
    assert len(children(driver, run_id)) == 4
    driver.finish(working(driver, run_id)[0].id, "work", output="3")
    assert [each.input for each in working(driver, run_id)] == [4, 5, 6, 7]
    items = [row.output for row in driver.task_runs(run_id) if row.status == "completed"]
    assert items == ["0", "1", "2", "3"]


def test_children_that_end_while_a_process_looks_for_others_are_left_to_it(driver: RunDriver) -> None:
    run_id = begin(driver, items=6, parallel=2)
    first, second = working(driver, run_id)
    with driver.database.transaction() as looking:
        assert advisory_locks.try_named_until_commit(looking, advisory_locks.CHILDREN, str(run_id))
        driver.finish(first.id, "work")
        driver.finish(second.id, "work")
        assert working(driver, run_id) == []
    assert driver.database.run(lambda tx: look_for_children(tx, run_id)) == 2
    assert [each.input for each in working(driver, run_id)] == [2, 3]


def test_who_looks_for_children_looks_again_for_those_that_ended_meanwhile(driver: RunDriver) -> None:
    run_id = begin(driver, items=6, parallel=2)
    first, second = working(driver, run_id)
    end_untold(driver, first)
    with driver.database.transaction() as tx:
        assert look_for_children(tx, run_id) == 1
        end_untold(driver, second)
    assert [each.input for each in working(driver, run_id)] == [2, 3]


def test_a_few_children_that_ended_wait_for_others_while_many_are_open(driver: RunDriver) -> None:
    run_id = begin(driver, items=60, parallel=30)
    for each in working(driver, run_id)[:2]:
        with sent_statements() as sent:
            driver.finish(each.id, "work")
        assert sent.commits == 1
    # They are due: beat looks at them if nobody ends a third one meanwhile.
    assert len(working(driver, run_id)) == 28
    driver.finish(working(driver, run_id)[0].id, "work")
    assert len(working(driver, run_id)) == 30
    driver.finish(working(driver, run_id)[0].id, "work", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"


def test_a_step_beside_a_wide_map_goes_on_as_soon_as_its_own_child_has_ended(driver: RunDriver) -> None:
    over = MapSpec("${input}", max_parallel=30)
    driver.store_steps(
        child("each", "inner", map=over),
        child("alone", "inner"),
        StepSpec("end", "noop", ("alone",)),
        id="outer",
    )
    run_id = driver.trigger("outer", list(range(30)))
    [alone] = driver.rows(
        "SELECT id FROM runs WHERE parent_task_run_id = :id", id=task_run(driver, run_id, "alone").id
    )
    driver.finish(alone.id, "work")
    assert driver.statuses(run_id) == {"each": "waiting", "alone": "completed", "end": "queued"}


def test_the_last_children_of_a_map_end_it_however_few_they_are(driver: RunDriver) -> None:
    run_id = begin(driver, items=30, parallel=30)
    for each in working(driver, run_id):
        driver.finish(each.id, "work")
    assert driver.statuses(run_id) == {"each": "completed", "end": "queued"}


def test_the_cost_of_children_grows_neither_with_their_number_nor_with_that_of_the_items(
    driver: RunDriver,
) -> None:
    narrow, wide = begin(driver, items=20, parallel=10), begin(driver, items=200, parallel=50)
    # The first look of a process reads what it caches.
    cost_of_ending(driver, narrow, 1)
    cost_of_ending(driver, wide, 10)
    assert cost_of_ending(driver, narrow, 1) == cost_of_ending(driver, wide, 40)


def test_a_child_that_runs_is_not_looked_at_until_it_ends(isolated_driver: RunDriver) -> None:
    isolated_driver.store_steps(StepSpec("work", "noop"), id="inner")
    run_id = begin(isolated_driver, items=3, parallel=2)
    assert not is_due(isolated_driver.database)
    end_untold(isolated_driver, working(isolated_driver, run_id)[0])
    assert is_due(isolated_driver.database)
    assert due.run_once(isolated_driver.database) == 1
    assert len(children(isolated_driver, run_id)) == 3


def test_more_children_than_a_map_may_have_fail_the_step_and_start_none(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_steps, "MAX_CHILDREN", 2)
    mapped(driver)
    run_id = driver.trigger("outer", {"list": [1, 2, 3]})
    each = task_run(driver, run_id, "each")
    assert (each.status, each.error_code) == ("failed", "TOO_MANY_CHILDREN")
    [fault] = each.error["details"]
    assert (fault["field"], fault["code"]) == ("map.over", "too_many_children")
    assert "batches" in fault["expected"]
    assert children(driver, run_id) == []
