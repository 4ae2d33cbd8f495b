"""The items of a map: as a list, as a matrix, as a lane; bounded, and kept while nothing happens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.plans import parts_of, plans_of
from support.run_driver import PERMANENT, Clock, RunDriver, settle
from support.sent_statements import sent_statements

from pipeweave.errors import Conflict, InvalidInput, NotFound
from pipeweave.orchestrator.documents.run_times import ItemsAnswer
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import to_json
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.orchestrator.timeline import items as read_items
from pipeweave.orchestrator.timeline.items import item_list, map_of_run, matrix_of
from pipeweave.orchestrator.timeline.matrix import FIRST, NONE


def items(
    driver: RunDriver, run_id: UUID, view: str = "list", page: PageRequest | None = None, **more: Any
) -> Any:
    with driver.database.reading() as tx:
        found = read_items(tx, driver.tenant, run_id, "m", page or PageRequest(), view=view, bins=4, **more)
    ItemsAnswer.model_validate_json(to_json(found) or "")
    return found


@pytest.fixture
def run_id(driver: RunDriver, clock: Clock) -> UUID:
    """Of five items the first four took 1, 2, 3 and 4 minutes, and the third failed; the last is queued."""
    run_id = driver.begin(
        {"m": [], "z": ["m"]},
        {"list": list(range(5))},
        maps={"m": "${input.list}"},
        failureMode="continue",
    )
    for place in range(4):
        with driver.database.transaction() as tx:
            [started] = claiming.start(tx, run_id, [3 + place], 1, worker="w1")
        clock.ahead += timedelta(minutes=1 + place)
        with driver.database.transaction() as tx:
            settle(tx, started, **({"failure": PERMANENT} if place == 2 else {}))
    return run_id


def test_a_matrix_says_status_and_duration_of_every_item(driver: RunDriver, run_id: UUID) -> None:
    found = items(driver, run_id, "matrix")
    matrix = found["matrix"]
    assert (found["total"], found["status"], found["items"]) == (5, "waiting", None)
    assert matrix["statuses"] == "c2fcq"
    assert matrix["counts"] == {"queued": 1, "completed": 3, "failed": 1}
    first, *others, last = matrix["durations"]
    assert (first, last, others[-1]) == (FIRST, NONE, "~")
    assert others == sorted(others)
    assert round(matrix["slowestMs"] / 60_000) == 4
    assert matrix["errorCodes"] == [{"code": "BOOM", "count": 1, "ranges": [[2, 2]]}]


def test_a_list_is_paged_by_index_and_by_duration(driver: RunDriver, run_id: UUID) -> None:
    for order, wanted in (("index", [0, 1, 2, 3, 4]), ("slowest", [3, 2, 1, 0, 4])):
        seen, cursor = [], None
        while True:
            found = items(driver, run_id, page=PageRequest(2, cursor), order=order)
            seen += [each["mapIndex"] for each in found["items"]]
            if (cursor := found["nextCursor"]) is None:
                break
        assert seen == wanted
    slowest = items(driver, run_id, page=PageRequest(2), order="slowest")["nextCursor"]
    with pytest.raises(InvalidInput):
        items(driver, run_id, page=PageRequest(2, slowest))


def test_a_list_is_filtered(driver: RunDriver, run_id: UUID) -> None:
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"status": "completed"}, [0, 1, 3]),
        ({"error_code": "BOOM"}, [2]),
        ({"first": 1, "last": 2}, [1, 2]),
        ({"first": 3, "last": 99, "status": "completed"}, [3]),
        ({"first": 9}, []),
        ({"status": "completed", "error_code": "BOOM"}, []),
    ]
    for filters, wanted in cases:
        assert [each["mapIndex"] for each in items(driver, run_id, **filters)["items"]] == wanted


def test_a_lane_says_how_many_ran(driver: RunDriver, run_id: UUID) -> None:
    lane = items(driver, run_id, "lane")["lane"]
    assert [round(each) for each in lane["running"]] == [1, 1, 1, 1]
    assert sum(lane["failed"]) == 1


def test_a_matrix_is_made_once_while_nothing_happens(driver: RunDriver, run_id: UUID) -> None:
    with sent_statements() as sent:
        items(driver, run_id, "matrix")
        first = len(sent)
        items(driver, run_id, "matrix")
        assert len(sent) - first == first - 2, "neither the matrix nor its error codes"
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [7], 1, worker="w1")
    assert items(driver, run_id, "matrix")["matrix"]["statuses"] == "c2fcR"


def test_a_map_that_is_not_laid_out_has_no_items(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "m": ["a"]}, maps={"m": "${steps.a}"})
    assert items(driver, run_id)["items"] == []
    assert items(driver, run_id, "matrix")["matrix"]["statuses"] == ""
    assert items(driver, run_id, "lane")["lane"] is None


def test_only_maps_of_the_tenants_runs_have_items(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.reading() as tx:
        with pytest.raises(NotFound, match="odd"):
            map_of_run(tx, driver.tenant, run_id, "odd")
        with pytest.raises(Conflict, match="no map"):
            map_of_run(tx, driver.tenant, run_id, "z")
        with pytest.raises(NotFound):
            map_of_run(tx, "somebody-else", run_id, "m")


def test_only_the_items_are_read(driver: RunDriver, run_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    with driver.database.reading() as tx:
        found = map_of_run(tx, driver.tenant, run_id, "m")
        plans = plans_of(tx, lambda: (matrix_of(tx, found), item_list(tx, found, PageRequest())), monkeypatch)
    scans = [
        part for plan in plans for part in parts_of(plan) if part.get("Relation Name", "").startswith("task_")
    ]
    assert {part["Node Type"] for part in scans} == {"Index Scan"}
    assert max(part["Actual Rows"] for part in scans) <= 5
