"""The state of a run as one document: complete, bounded, and of one moment."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, finish_next_attempt, finish_task_run
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.run_state import RunState
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.reading import map_items, run_state, state_document
from pipeweave.orchestrator.runs import deadlines, pausing
from pipeweave.orchestrator.store.database import Database, to_json
from pipeweave.spec import SignalWait, StepRetry, StepSpec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def state(driver: RunDriver, run_id: UUID) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = run_state(tx, driver.tenant, run_id)
    RunState.model_validate_json(to_json(found))
    return found


def finish_items(driver: RunDriver, run_id: UUID, *ordinals: int, **ending: Any) -> None:
    for each in ordinals:
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, each, **ending)


def test_a_run_shows_what_each_step_does_and_what_it_gave(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["b"]}, {"n": 1})
    driver.finish(run_id, "a", output={"total": 3})
    driver.finish(run_id, "b", failure=TRANSIENT)
    found = state(driver, run_id)
    assert (found["status"], found["traceId"]) == ("running", run_id.hex)
    assert found["trigger"]["payload"] == found["variables"]["input"] == {"n": 1}
    assert list(found["steps"]) == ["a", "b", "c"], "in the order of the pipeline"
    a, b, c = found["steps"].values()
    assert (a["phase"], a["attempts"], a["result"]) == ("success", 1, {"total": 3})
    assert a["inputsHash"] == found["inputsHash"]
    assert len(a["outputsHash"]) == 64
    assert (b["status"], b["phase"], b["attempts"], b["retryCount"]) == ("pending", "retrying", 1, 1)
    assert b["dueAt"] is not None
    assert (c["phase"], c["attempts"], c["startedAt"]) == ("pending", 0, None)
    metrics = found["metrics"]
    assert (metrics["stepCount"], metrics["retryCount"], metrics["errorCount"]) == (3, 1, 1)
    assert list(metrics["stepDurations"]) == ["a"]
    assert metrics["totalDurationMs"] is None
    assert found["isComplete"]


def test_the_variables_of_the_pipeline_are_there_by_name(driver: RunDriver) -> None:
    variables = {"limit": 1000, "gross": "${input.net * 2}", "missing": "${input.nothing}", "input": "hidden"}
    driver.store_steps(StepSpec("a", "noop"), variables=variables)
    small, large = driver.trigger(input={"net": 4}), driver.trigger(input={"net": 4, "x": "y" * 40_000})
    assert state(driver, small)["variables"] == {"input": {"net": 4}, "limit": 1000, "gross": 8}
    assert state(driver, large)["variables"] == {"input": None, "limit": 1000}


def test_what_failed_is_listed_without_its_traceback(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a", failure=PERMANENT)
    found = state(driver, run_id)
    assert found["error"]["code"] == "STEP_FAILED"
    error = {
        "code": "BOOM",
        "type": "ValueError",
        "kind": "STEP_EXECUTION",
        "message": "it broke",
        "retryable": False,
        "timeoutMs": None,
    }
    assert found["steps"]["a"]["error"] == error
    [failed] = found["errors"]
    assert (failed["stepId"], failed["error"]) == ("a", error)
    assert found["steps"]["b"]["phase"] == "cancelled"
    assert found["metadata"]["completedAt"] == found["metadata"]["updatedAt"]


def test_an_error_says_its_kind_and_the_limit_that_was_exceeded(driver: RunDriver) -> None:
    retry = StepRetry(attempts=2, delay_ms=1, backoff="fixed")
    driver.store_steps(
        StepSpec("a", "noop", retry=retry), StepSpec("b", "noop", retry=retry), failure_mode="continue"
    )
    run_id = driver.trigger()
    for ordinal, how in ((1, TRANSIENT), (2, failure.overdue(1.5))):
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal, failure=how)
        with driver.database.transaction() as tx:
            finish_next_attempt(tx, run_id, ordinal, failure=how)
    a, b = (state(driver, run_id)["steps"][each]["error"] for each in "ab")
    assert (a["code"], a["kind"], a["timeoutMs"]) == ("WEAK", "MAX_RETRIES_EXCEEDED", None)
    assert (b["code"], b["kind"], b["timeoutMs"]) == ("TIMEOUT", "TIMEOUT", 1_500)


def test_a_run_that_took_too_long_has_its_limit_and_a_skipped_step_no_kind(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", condition="false == true"), StepSpec("b", "noop", ("a",)))
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        assert deadlines.time_out_run(tx, driver.tenant, run_id, deadlines.RUN_TIMEOUT, "too long", 60_000)
    found = state(driver, run_id)
    assert found["error"] == {"code": "RUN_TIMEOUT", "message": "too long", "timeoutMs": 60_000}
    assert (found["steps"]["a"]["error"]["code"], found["steps"]["a"]["error"]["kind"]) == (
        "CONDITION_FALSE",
        None,
    )


def test_a_map_is_counts_and_the_first_items_that_failed(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = driver.begin(
        {"a": []}, maps={"a": "${input.list}"}, input={"list": list(range(14))}, failureMode="continue"
    )
    finish_items(driver, run_id, 2, 3, output="x")
    finish_items(driver, run_id, *range(4, 16), failure=PERMANENT)
    found = state(driver, run_id)
    items = found["steps"]["a"]["items"]
    assert (items["total"], items["counts"]) == (14, {"completed": 2, "failed": 12})
    assert [each["mapIndex"] for each in items["failed"]] == list(range(2, 12))
    assert found["errors"][: map_items.ITEMS_SHOWN][0]["error"]["code"]
    assert found["metrics"]["errorCount"] == 12
    assert found["metrics"]["taskRunCount"] == 15


def test_the_hash_of_a_map_is_that_of_its_items(driver: RunDriver) -> None:
    def begun(*values: int) -> tuple[str, dict[str, Any]]:
        run_id = driver.begin({"a": []}, maps={"a": "${input.list}"}, input={"list": [1, 2]})
        for ordinal, value in enumerate(values, start=2):
            finish_items(driver, run_id, ordinal, output=value)
        driver.check(run_id, 1)
        step = state(driver, run_id)["steps"]["a"]
        assert step["status"] == "completed"
        return step["outputsHash"], step

    (same, step), (again, _), (other, _) = begun(1, 2), begun(1, 2), begun(2, 1)
    assert same == again != other
    assert step["resultRef"] == {"items": 2, "size": 2}
    assert step["result"] is None


def test_results_are_by_reference_when_they_are_many_or_large(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_document, "RESULT_BYTES", 12)
    run_id = driver.begin({"a": [], "b": [], "c": []})
    driver.finish(run_id, "a", output="12345678")
    driver.finish(run_id, "b", output="y" * 100_000)
    driver.finish(run_id, "c", output="12345678")
    a, b, c = state(driver, run_id)["steps"].values()
    assert (a["result"], a["resultRef"]) == ("12345678", None)
    assert (b["result"], b["resultRef"]["size"]) == (None, 100_002)
    assert b["resultRef"]["path"]
    assert (c["result"], c["resultRef"]["path"], c["resultRef"]["size"]) == (None, None, 10)


def test_a_paused_run_says_so(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    assert state(driver, run_id)["phase"] == "paused"


def test_a_run_of_which_everything_waits_says_paused_and_runs_on(database: Database) -> None:
    """As a flow that waits for its callback: nothing of it works, and no slot is held."""
    runs = WaitingRuns(RunDriver(database))
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    waiting = state(runs.driver, run_id)
    assert (waiting["status"], waiting["phase"]) == ("running", "paused")
    runs.send(run_id, "paid", 1)
    assert state(runs.driver, run_id)["phase"] != "paused"


def test_a_run_whose_rows_are_partly_gone_is_shown_as_far_as_it_goes(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a", "b")
    # As after the first steps of dropping its month.
    for table in ("events", "attempts"):
        driver.rows(f"DELETE FROM {table} WHERE run_id = :id RETURNING 1", id=run_id)
    driver.rows(
        "DELETE FROM task_runs WHERE run_id = :id AND id = :b RETURNING 1",
        id=run_id,
        b=ids.task_run_id(run_id, 2),
    )
    found = state(driver, run_id)
    assert (found["status"], found["isComplete"], list(found["steps"])) == ("completed", False, ["a"])
    assert found["metadata"]["updatedAt"] == found["metadata"]["completedAt"]


def test_all_parts_are_of_one_moment(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = driver.begin({"a": []})
    original = state_document.pipelines.get

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(state_document.pipelines, "get", original)
        driver.finish(run_id, "a")
        return original(*arguments)

    monkeypatch.setattr(state_document.pipelines, "get", meanwhile)
    found = state(driver, run_id)
    assert (found["status"], found["steps"]["a"]["status"]) == ("running", "queued")
    assert state(driver, run_id)["status"] == "completed"


def test_another_tenants_run_is_not_there(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.reading() as tx, pytest.raises(NotFound):
        run_state(tx, "another", run_id)
