"""The timeline of runs as they are stored, page by page, and the lanes of their maps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.run_driver import TRANSIENT, Clock, RunDriver, settle

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.documents.run_times import TimelineAnswer
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import to_json
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.orchestrator.timeline import timeline


def timeline_of(
    driver: RunDriver, run_id: UUID, limit: int = 50, cursor: str | None = None
) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = timeline(tx, driver.tenant, run_id, PageRequest(limit, cursor), bins=4)
    TimelineAnswer.model_validate_json(to_json(found) or "")
    return found


def one_by_one(driver: RunDriver, run_id: UUID) -> Iterator[dict[str, Any]]:
    """The steps of a run's timeline, each from a page of its own."""
    cursor = None
    while True:
        found = timeline_of(driver, run_id, 1, cursor)
        yield from found["steps"]
        cursor = found["nextCursor"]
        if cursor is None:
            return


def work(driver: RunDriver, clock: Clock, run_id: UUID, *ordinals: int, took: int, **ending: Any) -> None:
    """Start task runs, let time pass, and end them."""
    with driver.database.transaction() as tx:
        started = claiming.start(tx, run_id, ordinals, 1, worker="w1")
    clock.ahead += timedelta(minutes=took)
    for each in started:
        with driver.database.transaction() as tx:
            settle(tx, each, **ending)


def minutes(step: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (each["kind"], round(each["fromMs"] / 60_000), round(each["toMs"] / 60_000))
        for each in step["bars"]
        if each["toMs"] - each["fromMs"] > 30_000
    ]


def test_each_step_has_bars_of_what_it_did_and_waited_for(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    work(driver, clock, run_id, 1, took=5)
    clock.ahead += timedelta(minutes=2)
    work(driver, clock, run_id, 2, took=3, failure=TRANSIENT)
    work(driver, clock, run_id, 3, took=4)
    found = timeline_of(driver, run_id)
    a, b, c, d = found["steps"]
    assert (found["isOpen"], round(found["totalMs"] / 60_000)) == (True, 14)
    assert minutes(a) == [("work", 0, 5)]
    assert minutes(b) == [("queue", 5, 7), ("failedWork", 7, 10), ("retryDelay", 10, 14)]
    assert [each["errorCode"] for each in b["bars"] if each["kind"] == "failedWork"] == ["WEAK"]
    assert minutes(c) == [("queue", 5, 10), ("work", 10, 14)]
    assert (d["bars"], d["lane"]) == ([], None)
    assert [each["level"] for each in found["steps"]] == [0, 1, 1, 2]
    assert [each["isCritical"] for each in found["steps"]] == [True, True, False, False]
    assert [minutes(each) for each in one_by_one(driver, run_id)] == [minutes(each) for each in (a, b, c, d)]


def test_it_is_read_page_by_page(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": []})
    first = timeline_of(driver, run_id, 2)
    assert [each["stepId"] for each in first["steps"]] == ["a", "b"]
    second = timeline_of(driver, run_id, 2, first["nextCursor"])
    assert ([each["stepId"] for each in second["steps"]], second["nextCursor"]) == (["c"], None)
    with pytest.raises(InvalidInput):
        timeline_of(driver, run_id, 2, "bm90LWEtY3Vyc29y")
    with driver.database.reading() as tx, pytest.raises(NotFound):
        timeline(tx, "somebody-else", run_id, PageRequest(), bins=4)


def test_a_map_has_a_lane_of_how_many_items_ran(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"m": []}, {"list": [1, 2, 3]}, maps={"m": "${input.list}"})
    work(driver, clock, run_id, 2, took=10)
    work(driver, clock, run_id, 3, 4, took=10, failure=TRANSIENT)
    clock.ahead += timedelta(minutes=20)
    found = timeline_of(driver, run_id)
    [step] = found["steps"]
    lane = step["lane"]
    assert (step["mapCount"], round(lane["toMs"] / 60_000)) == (3, 40)
    assert [round(each) for each in lane["running"]] == [1, 2, 0, 0]
    assert sum(lane["failed"]) == 2
    assert minutes(step) == [("items", 0, 40)]
