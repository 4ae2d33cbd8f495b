"""Why a run does not go on: what its open task runs wait for, summed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from support.run_driver import RunDriver, claim, settle

from pipeweave.errors import NotFound
from pipeweave.orchestrator.diagnosis import why_run
from pipeweave.orchestrator.documents.run_questions import RunWhyAnswer
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.runs import admission, pausing
from pipeweave.orchestrator.store.database import Database, to_json

# As if every message were still there: the oldest was sent long ago.
FULL: Mapping[int, float | None] = dict.fromkeys(LEVELS, 0.0)


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def ask(driver: RunDriver, run_id: UUID) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = why_run.why_run(tx, driver.tenant, run_id, lambda _: FULL)
    RunWhyAnswer.model_validate_json(to_json(found))
    return found


def test_the_items_of_a_limited_map_are_one_reason(driver: RunDriver) -> None:
    """`limited` runs twice at a time."""
    list_ = list(range(9))
    run_id = driver.begin(
        {"a": [], "b": ["a"]}, {"list": list_}, tasks={"a": "limited"}, maps={"a": "${input.list}"}
    )
    found = ask(driver, run_id)
    assert (found["open"], found["running"], found["waiting"]) == (11, 0, 11)
    assert [(each["code"], each["taskId"], each["count"]) for each in found["reasons"]] == [
        ("concurrency_limit", "limited", 7),
        ("no_worker", "limited", 2),
        ("items_open", "limited", 1),
        ("predecessors_open", "noop", 1),
    ]
    assert found["summary"] == (
        "11 wait: 7 for a slot of limited, 2 for a worker, 1 for their items, 1 for predecessors"
    )
    assert "number 7 in its queue" in found["reasons"][0]["text"], "the last in line was asked"


def test_what_runs_does_not_wait(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1)
    found = ask(driver, run_id)
    assert (found["running"], found["waiting"], found["summary"], found["reasons"]) == (1, 0, None, [])
    driver.rows("DELETE FROM task_runs WHERE run_id = :id RETURNING 1", id=run_id)
    assert ask(driver, run_id)["open"] == 0


def test_a_paused_run_waits_to_be_resumed(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id, reason="holiday")
    found = ask(driver, run_id)
    assert found["summary"] == "1 waits: 1 for the run to be resumed"
    assert "holiday" in found["reasons"][0]["text"]
    assert "holiday" in found["reason"]["text"]


def test_a_run_that_was_paused_while_its_last_step_ran_waits_to_be_resumed(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id, reason="holiday", by="ana")
    with driver.database.transaction() as tx:
        settle(tx, started)
    found = ask(driver, run_id)
    assert (found["open"], found["reasons"], found["summary"]) == (0, [], "The run waits to be resumed")
    assert found["reason"]["code"] == "run_paused"
    assert found["reason"]["text"].startswith("the run is paused since 20")
    assert " by ana: holiday; `pipeweave resume prun_" in found["reason"]["text"]


def test_a_paused_run_that_has_not_begun_is_not_in_line(driver: RunDriver) -> None:
    driver.store({"a": []})
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    driver.trigger()
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    assert [each["code"] for each in ask(driver, run_id)["reasons"]] == ["run_paused"]


def test_groups_beyond_the_bound_are_counted(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why_run, "MOST_GROUPS", 1)
    found = ask(driver, driver.begin({"a": [], "b": [], "c": ["a"]}))
    assert not found["isComplete"]
    assert found["summary"] == "3 wait: 2 for a worker, 1 for something else"


def test_the_run_of_somebody_else_is_not_there(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.reading() as tx, pytest.raises(NotFound):
        why_run.why_run(tx, "nobody", run_id, lambda _: FULL)
