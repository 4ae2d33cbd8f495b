"""Errors that are taken care of, and the ends of runs, over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from support.child_runs import children, task_run
from support.handled_runs import call, last_child, rule, store_remedy
from support.run_driver import PERMANENT, RunDriver

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepSpec

if TYPE_CHECKING:
    from conftest import Api

_numbers = itertools.count(1)


@pytest.fixture
def driver(deployment: Deployment) -> Iterator[RunDriver]:
    """Of a tenant of this test alone, with a pipeline `remedy` of one step, `cure`."""
    database = Database(deployment.database.url, react=reactions_to)
    driver = RunDriver(database, f"errors-{next(_numbers)}")
    store_remedy(driver)
    yield driver
    database.dispose()


@pytest.fixture
def asked(driver: RunDriver, api: Api) -> Api:
    """The API as the tenant asks it."""
    with driver.database.transaction() as tx:
        token = access_tokens.create_token(
            tx, name="ann", tenants=[driver.tenant], scopes=(access_tokens.WRITE,)
        )
    return type(api)(api.http, token, driver.tenant)


def shown(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


def test_the_state_of_a_run_tells_what_was_handled(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(StepSpec("a", "noop", on_error=rule("remedy")), StepSpec("b", "noop", ("a",)))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    state = asked.get(f"/api/runs/{shown(run_id)}/state").json
    assert (state["status"], state["phase"]) == ("running", "error_handling")
    assert [(each["stepId"], each["handled"], each["at"]) for each in state["errors"]] == [("a", False, None)]
    step = ids.show(ids.TASK_RUN, task_run(driver, run_id, "a").id)
    reason, *inside = asked.get(f"/api/task-runs/{step}/why").json["reasons"]
    inner = last_child(driver, run_id)
    assert {each["insideRunId"] for each in inside} == {shown(inner)}
    assert (reason["code"], reason["runId"], reason["handler"]) == ("handles_error", shown(inner), "onError")
    of_a, of_b = asked.get(f"/api/runs/{shown(run_id)}?taskRuns=0").json["steps"]
    assert (of_a["childRunId"], of_b["childRunId"]) == (shown(inner), None)
    driver.finish(inner, "cure", output=7)
    driver.finish(run_id, "b")
    assert asked.get(f"/api/task-runs/{step}").json["childRunId"] == shown(inner)
    state = asked.get(f"/api/runs/{shown(run_id)}/state").json
    assert (state["status"], state["steps"]["a"]["result"]) == ("completed", 7)
    [error] = state["errors"]
    assert (error["handled"], error["error"]["code"]) == (True, "BOOM")


def test_a_run_in_its_ending_says_what_it_does_and_can_be_ended_at_once(
    driver: RunDriver, asked: Api
) -> None:
    driver.store_steps(StepSpec("a", "noop"), finally_call=call("remedy"))
    run_id = driver.trigger()
    answer = asked.post(f"/api/runs/{shown(run_id)}/cancel", {"reason": "enough"})
    assert answer.json["status"] == "error_handling"
    assert asked.post(f"/api/runs/{shown(run_id)}/pause", {}).status_code == 409
    why = asked.get(f"/api/runs/{shown(run_id)}/why").json
    inner = last_child(driver, run_id)
    assert (why["reason"]["code"], why["reason"]["runId"]) == ("ends", shown(inner))
    assert asked.post(f"/api/runs/{shown(run_id)}/cancel", {}).json["status"] == "cancelled"
    assert driver.run(inner).error_code == "PARENT_ENDED"


def test_a_run_names_the_part_of_its_ending_that_runs_and_its_run(driver: RunDriver, asked: Api) -> None:
    taken_back = StepSpec("a", "noop", compensate=call("remedy"))
    driver.store_steps(taken_back, StepSpec("b", "noop", ("a",)), finally_call=call("remedy"))
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    assert asked.get(f"/api/runs/{shown(run_id)}").json["ending"] is None
    driver.finish(run_id, "b", failure=PERMANENT)
    for part, step in (("compensate:a", "a"), ("finally", None)):
        inner = last_child(driver, run_id)
        ending = asked.get(f"/api/runs/{shown(run_id)}").json["ending"]
        assert (ending["part"], ending["stepId"], ending["endsAs"]) == (part, step, "failed")
        assert (ending["runId"], ending["runStatus"]) == (shown(inner), "running")
        assert ending["parts"] == ["compensate:a", "finally"]
        driver.finish(inner, "cure")
    run = asked.get(f"/api/runs/{shown(run_id)}").json
    assert (run["status"], run["ending"]) == ("failed", None)
    runs = [shown(each.id) for each in children(driver, run_id)]
    assert [(each["part"], each["runId"], each["runStatus"]) for each in run["endingParts"]] == [
        ("compensate:a", runs[0], "completed"),
        ("finally", runs[1], "completed"),
    ]


def test_a_part_of_an_ending_that_could_not_start_has_no_run(driver: RunDriver, asked: Api) -> None:
    taken_back = StepSpec("a", "noop", compensate=call("nobody-stored-this"))
    driver.store_steps(taken_back, StepSpec("b", "noop", ("a",)), finally_call=call("remedy"))
    run_id = driver.trigger()
    assert asked.get(f"/api/runs/{shown(run_id)}").json["endingParts"] == []
    driver.finish(run_id, "a")
    driver.finish(run_id, "b", failure=PERMANENT)
    driver.finish(last_child(driver, run_id), "cure")
    parts = asked.get(f"/api/runs/{shown(run_id)}").json["endingParts"]
    assert [each["runId"] for each in parts] == [None, shown(last_child(driver, run_id))]


def test_a_cancel_now_lets_nothing_follow(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(StepSpec("a", "noop"), finally_call=call("remedy"))
    run_id = driver.trigger()
    assert asked.post(f"/api/runs/{shown(run_id)}/cancel", {"now": True}).json["status"] == "cancelled"


def test_the_error_of_a_run_lists_what_failed(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(StepSpec("a", "noop"), StepSpec("b", "noop"), failure_mode="continue")
    run_id = driver.trigger()
    driver.finish(run_id, "a", "b", failure=PERMANENT)
    failures = asked.get(f"/api/runs/{shown(run_id)}").json["error"]["failures"]
    assert [(each["step"], each["code"], each["message"]) for each in failures] == [
        ("a", "BOOM", "it broke"),
        ("b", "BOOM", "it broke"),
    ]
