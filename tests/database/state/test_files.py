"""Which asset a step reads: the nearest one with its key."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
import pytest
from support.run_driver import RunDriver, finish_task_run, header

from pipeweave import ids
from pipeweave.orchestrator.dispatch import upstream
from pipeweave.orchestrator.state import files
from pipeweave.orchestrator.store.database import Database

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def an_asset(name: str) -> dict[str, Any]:
    return {"path": f"local//{name}", "size": len(name), "type": "text"}


def give(driver: RunDriver, run_id: UUID, ordinal: int, **names: str) -> None:
    """Give a task run assets: key -> a name in its path."""
    shown = orjson.dumps({key: an_asset(name) for key, name in names.items()}).decode()
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET assets = CAST(:assets AS jsonb) WHERE run_id = :run_id AND id = :id",
            {"assets": shown, "run_id": run_id, "id": ids.task_run_id(run_id, ordinal)},
        )


def found(driver: RunDriver, run_id: UUID, step_id: str, key: str) -> Any:
    """What a Celery task gets; a dispatch names the same."""
    with driver.database.transaction() as tx:
        run = header(tx, run_id)
        asset = files.asset(tx, run, step_id, key)
        named = [each.assets[key] for each in upstream.page(tx, run, step_id).steps if key in each.assets]
    assert asset == (named[-1] if named else None)
    return asset and asset["path"].removeprefix("local//")


def test_a_direct_predecessor_wins_and_of_those_the_later_one(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    driver.finish(run_id, "a", "b", "c")
    give(driver, run_id, 1, all="a", far="a")
    give(driver, run_id, 2, all="b", two="b")
    give(driver, run_id, 3, two="c")
    assert [found(driver, run_id, "d", key) for key in ("all", "two", "far")] == ["b", "c", "a"]
    assert found(driver, run_id, "b", "two") is None


def test_what_has_not_completed_has_no_assets(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    give(driver, run_id, 1, key="a")
    assert found(driver, run_id, "b", "key") is None


@pytest.mark.parametrize("key", ["it's", "${x}", "a:b", "%s", "?"])
def test_a_key_is_never_part_of_a_statement(driver: RunDriver, key: str) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a")
    give(driver, run_id, 1, **{key: "a"})
    assert found(driver, run_id, "b", key) == "a"


def test_of_a_map_the_last_item_with_the_key_wins(driver: RunDriver) -> None:
    run_id = driver.begin({"m": [], "z": ["m"]}, maps={"m": [1, 2, 3]})
    items = [ids.ordinal_of(each.id) for each in driver.task_runs(run_id) if each.kind == "item"]
    for ordinal in items:
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal)
    for number, ordinal in enumerate(items[:2]):
        give(driver, run_id, ordinal, key=f"item {number}")
    assert driver.statuses(run_id)["m"] == "completed"
    assert found(driver, run_id, "z", "key") == "item 1"
