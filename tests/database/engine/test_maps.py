"""Laying out maps and ending them."""

from __future__ import annotations

import functools
from typing import Any
from uuid import UUID

import orjson
import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.run_driver import (
    PERMANENT,
    RunDriver,
    claim,
    finish_step,
    finish_task_run,
    header,
    settle,
)

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import Chord, Released
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.messaging.batching import group_into_messages
from pipeweave.orchestrator.queueing import durations
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.state import outputs
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import MAX_JSON_DEPTH

MAP: dict[str, list[str]] = {"m": [], "after": ["m"]}
OVER = {"m": "${input.list}"}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def begun(driver: RunDriver, count: int, **members: Any) -> UUID:
    """A run whose first step is a map over this many items."""
    return driver.begin(MAP, {"list": list(range(count))}, maps=OVER, **members)


def end_items(driver: RunDriver, run_id: UUID, *numbers: int, **ending: Any) -> None:
    for number in numbers:
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, number, **ending)


def test_items_follow_the_steps_in_order_and_hold_their_item(driver: RunDriver) -> None:
    run_id = begun(driver, 3)
    rows = driver.task_runs(run_id)
    assert [ids.ordinal_of(row.id) for row in rows] == [1, 2, 3, 4, 5]
    items = rows[2:]
    assert [(row.kind, row.map_parent, row.map_index, row.item) for row in items] == [
        ("item", 1, 0, 0),
        ("item", 1, 1, 1),
        ("item", 1, 2, 2),
    ]
    assert (rows[0].status, rows[0].map_first, rows[0].map_count) == ("waiting", 3, 3)
    assert driver.run(run_id).task_run_count == 5
    assert driver.released(run_id) == [3, 4, 5]


def test_a_map_over_null_has_no_items(driver: RunDriver) -> None:
    run_id = driver.begin(MAP, {"list": None}, maps=OVER)
    assert driver.statuses(run_id) == {"m": "completed", "after": "queued"}


def test_a_map_over_a_step_that_was_skipped_has_no_items(driver: RunDriver) -> None:
    graph = {"a": [], "b": ["a"], "c": ["a"], "m": ["b", "c"], "after": ["m"]}
    run_id = driver.begin(graph, maps={"m": "${steps.b.list}"})
    driver.finish(run_id, "a", chosen=("c",))
    driver.finish(run_id, "c")
    assert driver.statuses(run_id) | {"after": "-"} == {
        "a": "completed",
        "b": "skipped",
        "c": "completed",
        "m": "completed",
        "after": "-",
    }
    assert driver.statuses(run_id)["after"] == "queued"


def test_a_map_over_nothing_completes_with_an_empty_list(driver: RunDriver) -> None:
    run_id = begun(driver, 0)
    assert driver.statuses(run_id) == {"m": "completed", "after": "queued"}
    with driver.database.transaction() as tx:
        assert outputs.places_of_steps(tx, header(tx, run_id), ["m"]) == {"m": []}


def test_null_is_an_item(driver: RunDriver) -> None:
    run_id = driver.begin(MAP, {"list": [None, {"a": [1]}, "x"]}, maps=OVER)
    assert [row.item for row in driver.task_runs(run_id)[2:]] == [None, {"a": [1]}, "x"]


def test_only_wide_maps_travel_as_chords(driver: RunDriver) -> None:
    narrow, wide = begun(driver, 7), begun(driver, 8)
    chords = [each for each in driver.sent if isinstance(each, Chord)]
    assert [each.run_id for each in chords] == [wide]
    assert narrow != wide


BEHIND: dict[str, list[str]] = {"a": [], "m": ["a"]}


def test_the_count_of_a_layout_that_was_rolled_back_is_not_remembered(driver: RunDriver) -> None:
    run_id = driver.begin(BEHIND, maps={"m": "${steps.a}"})
    with pytest.raises(ZeroDivisionError), driver.database.transaction() as tx:
        finish_step(tx, run_id, "a", output=list(range(8)))
        assert maps.is_wide(tx, run_id, 2)
        raise ZeroDivisionError
    another_process = Database(driver.database.url, pool_size=0)
    with another_process.transaction() as tx:
        finish_step(tx, run_id, "a", output=[1, 2, 3])
    with driver.database.transaction() as tx:
        assert not maps.is_wide(tx, run_id, 2)


def test_a_process_that_only_lays_out_maps_remembers_a_bounded_number_of_counts(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "COUNTS", CacheSpec[tuple[UUID, int], int]("few", 4))
    for _ in range(9):
        run_id = begun(driver, 2)
    counts = driver.database.caches.of(maps.COUNTS)
    assert counts.get((run_id, 1)) == 2
    assert len(counts) <= 4


def test_the_outputs_of_items_are_the_map_s_in_their_order(driver: RunDriver) -> None:
    run_id = begun(driver, 3)
    for number in (5, 3, 4):
        end_items(driver, run_id, number, output=f"of {number}")
    assert driver.statuses(run_id) == {"m": "completed", "after": "queued"}
    with driver.database.transaction() as tx:
        places = outputs.places_of_steps(tx, header(tx, run_id), ["m"])
    assert places == {"m": [("of 3", None), ("of 4", None), ("of 5", None)]}


@pytest.mark.parametrize("count", [2, 5])
def test_the_last_items_ending_at_once_end_a_narrow_map_once(driver: RunDriver, count: int) -> None:
    for _ in range(8):
        run_id = begun(driver, count)
        driver.sent.clear()
        threads = call_concurrently(
            *(
                lambda number=number, run_id=run_id: end_items(driver, run_id, number)
                for number in range(3, 3 + count)
            )
        )
        assert [each.error for each in threads] == [None] * count
        assert driver.released(run_id) == [2]
        completed = driver.events(run_id, "task_run.completed")
        assert sum(ids.ordinal_of(each.task_run_id) == 1 for each in completed) == 1


def test_a_wide_map_ends_only_when_all_items_did(driver: RunDriver) -> None:
    run_id = begun(driver, 9)
    end_items(driver, run_id, *range(3, 11))
    driver.check(run_id, 1)
    assert driver.statuses(run_id)["m"] == "waiting"
    end_items(driver, run_id, 11)
    threads = call_concurrently(*[lambda: driver.check(run_id, 1)] * 3)
    assert [each.error for each in threads] == [None] * 3
    assert driver.statuses(run_id) == {"m": "completed", "after": "queued"}
    assert driver.released(run_id).count(2) == 1


def test_a_narrow_map_with_a_failed_item_fails_when_the_last_one_ended(driver: RunDriver) -> None:
    run_id = begun(driver, 3, failureMode="continue")
    end_items(driver, run_id, 4, failure=PERMANENT)
    assert driver.statuses(run_id)["m"] == "waiting"
    end_items(driver, run_id, 3, 5)
    rows = driver.task_runs(run_id)
    assert (rows[0].status, rows[0].error_code) == ("failed", "MAP_ITEMS_FAILED")
    assert rows[1].status == "skipped"
    assert driver.run(run_id).status == "failed"


def test_more_task_runs_than_a_run_may_have_fail_the_map_and_write_no_item(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "MAX_TASK_RUNS_PER_RUN", 10)
    fits, too_many = begun(driver, 8), begun(driver, 9)
    assert driver.run(fits).task_run_count == 10
    run = driver.run(too_many)
    rows = driver.task_runs(too_many)
    assert (run.status, run.task_run_count, len(rows)) == ("failed", 2, 2)
    assert rows[0].error_code == "MAP_SOURCE_INVALID"
    assert "more than 10 task runs" in rows[0].error["message"]


def test_two_maps_laid_out_at_once_get_different_ordinals(driver: RunDriver) -> None:
    needs = {"a": [], "b": [], "m": ["a"], "n": ["b"]}
    over = {"m": "${input.list}", "n": "${input.list}"}
    driver.store(needs, maps=over)
    for _ in range(5):
        run_id = driver.trigger(input={"list": [1, 2, 3]})
        threads = call_concurrently(*(functools.partial(driver.finish, run_id, step) for step in "ab"))
        assert [each.error for each in threads] == [None, None]
        rows = driver.task_runs(run_id)
        assert [ids.ordinal_of(row.id) for row in rows] == list(range(1, 11))
        assert sorted(row.map_parent for row in rows if row.kind == "item") == [3, 3, 3, 4, 4, 4]


def test_a_cancel_that_waits_for_a_map_s_layout_cancels_its_items(driver: RunDriver) -> None:
    driver.store({"a": [], "m": ["a"]}, maps=OVER)
    run_id = driver.trigger(input={"list": list(range(20))})

    def cancel() -> None:
        driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started)
        beside = BackgroundCall(cancel)
        beside.__enter__()
        wait_for_lock(driver.database)
    assert beside.result is None
    statuses = [row.status for row in driver.task_runs(run_id)]
    assert statuses == ["completed"] + ["cancelled"] * 21


def test_a_cancelled_run_lays_out_no_map(driver: RunDriver) -> None:
    driver.store({"a": [], "m": ["a"]}, maps=OVER)
    run_id = driver.trigger(input={"list": list(range(20))})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    with driver.database.transaction() as tx:
        settle(tx, started)
    assert len(driver.task_runs(run_id)) == 2


def test_items_that_usually_take_long_travel_one_by_one(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        durations.record(tx, driver.tenant, "noop", 2.0)
    driver.begin({"m": []}, {"list": list(range(640))}, maps={"m": "${input.list}"})
    slow = len(group_into_messages(driver.sent).messages)
    driver.sent.clear()
    with driver.database.transaction() as tx:
        durations.record(tx, driver.tenant, "noop", 0.01)
    driver.trigger(input={"list": list(range(640))})
    usual = len(group_into_messages(driver.sent).messages)
    driver.sent.clear()
    with driver.database.transaction() as tx:
        durations.record(tx, driver.tenant, "noop", 0.001)
    driver.trigger(input={"list": list(range(640))})
    assert (slow, usual, len(group_into_messages(driver.sent).messages)) == (640, 64, 16)


def test_the_items_of_a_map_are_one_entry_of_the_outbox(driver: RunDriver) -> None:
    run_id = driver.begin({"m": []}, {"list": list(range(640))}, maps={"m": "${input.list}"})
    [entry] = [each for each in driver.sent if isinstance(each, Released)]
    items = [row for row in driver.task_runs(run_id) if row.kind == "item"]
    assert list(entry.ordinals) == [ids.ordinal_of(row.id) for row in items]
    assert [row.item for row in items] == [row.map_index for row in items] == list(range(640))
    assert {ids.run_id_of(row.id) for row in items} == {run_id}


@pytest.mark.parametrize(
    "value",
    ['text with "quotes", \\ and ü', 1.5, True, None, {"b": [1, {"a": None}], "a": ""}, [], [[]], 2**62],
    ids=repr,
)
def test_an_item_is_kept_as_it_is(driver: RunDriver, value: object) -> None:
    run_id = driver.begin({"m": []}, {"list": [0, value]}, maps={"m": "${input.list}"})
    assert [row.item for row in driver.task_runs(run_id) if row.kind == "item"] == [0, value]


def test_an_item_may_be_as_deep_as_a_value(driver: RunDriver) -> None:
    """The list of all items is one level deeper."""
    deepest: list[object] = []
    for _ in range(MAX_JSON_DEPTH - 1):
        deepest = [deepest]
    assert orjson.loads(maps._as_array([deepest, 1])) == [deepest, 1]


def test_how_long_a_task_usually_takes_is_its_tenant_s_own(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    with driver.database.transaction() as tx:
        durations.record(tx, driver.tenant, "noop", 2.0)
        assert durations.find(tx, other.tenant, ["noop"]) == {}
        durations.record(tx, other.tenant, "noop", 0.001)
        assert durations.find(tx, driver.tenant, ["noop", "single"]) == {"noop": 2.0}
