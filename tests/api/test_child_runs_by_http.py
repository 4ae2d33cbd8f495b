"""Runs inside of runs over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from support.child_runs import child, children, loop, only_child, task_run
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import MapSpec, SignalWait, StepSpec, engine_task

if TYPE_CHECKING:
    from conftest import Api

_numbers = itertools.count(1)


@pytest.fixture
def driver(deployment: Deployment) -> Iterator[RunDriver]:
    """Of a tenant of this test alone, with a pipeline that runs another one, which waits for a signal."""
    database = Database(deployment.database.url, react=reactions_to)
    driver = RunDriver(database, f"children-{next(_numbers)}")
    wait = SignalWait(("paid",))
    driver.store_steps(StepSpec("wait", engine_task(wait), decides=wait), id="inner")
    driver.store_steps(child("call", "inner"), id="outer")
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


def test_children_are_listed_where_they_are_asked_for(driver: RunDriver, asked: Api) -> None:
    root = driver.trigger("outer")
    inner = only_child(driver, root)
    assert [each["id"] for each in asked.get("/api/runs").json["runs"]] == [shown(root)]
    listed = asked.get("/api/runs?children=true").json["runs"]
    assert [each["id"] for each in listed] == [shown(inner), shown(root)]
    [row] = asked.get(f"/api/runs/{shown(root)}/children").json["runs"]
    assert (row["id"], row["parentRunId"], row["rootRunId"], row["depth"]) == (
        shown(inner),
        shown(root),
        shown(root),
        1,
    )
    assert row["traceId"] == asked.get(f"/api/runs/{shown(root)}").json["traceId"]


def test_a_step_says_which_run_it_waits_for(driver: RunDriver, asked: Api) -> None:
    root = driver.trigger("outer")
    step = ids.show(ids.TASK_RUN, task_run(driver, root, "call").id)
    reason, _ = asked.get(f"/api/task-runs/{step}/why").json["reasons"]
    assert (reason["code"], reason["runId"]) == ("waits_for_run", shown(only_child(driver, root)))


def test_the_reasons_go_on_in_the_run_that_a_step_waits_for(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(child("down", "outer"), id="top")
    root = driver.trigger("top")
    middle = only_child(driver, root)
    inner = only_child(driver, middle)
    step = ids.show(ids.TASK_RUN, task_run(driver, root, "down").id)
    reasons = asked.get(f"/api/task-runs/{step}/why").json["reasons"]
    assert [each["code"] for each in reasons] == ["waits_for_run", "waits_for_run", "waits_for_signal"]
    assert [each.get("insideRunId") for each in reasons] == [None, shown(middle), shown(inner)]
    assert reasons[-1]["text"].startswith(
        f"step 'wait' of run {shown(inner)}: it waits for the signal 'paid'"
    )
    [summed] = asked.get(f"/api/runs/{shown(root)}/why").json["reasons"]
    assert (summed["code"], len(summed["reasons"])) == ("waits_for_run", 3)


def test_a_step_says_which_run_it_has_started(driver: RunDriver, asked: Api) -> None:
    root = driver.trigger("outer")
    inner = shown(only_child(driver, root))
    [step] = asked.get(f"/api/runs/{shown(root)}").json["steps"]
    assert (step["childRunId"], step["round"]) == (inner, None)
    [paged] = asked.get(f"/api/runs/{shown(root)}?taskRuns=0").json["steps"]
    assert paged["childRunId"] == inner
    assert asked.get(f"/api/runs/{shown(root)}/state").json["steps"]["call"]["childRunId"] == inner
    assert asked.get(f"/api/task-runs/{step['taskRunId']}").json["childRunId"] == inner
    [plain] = asked.get(f"/api/runs/{inner}").json["steps"]
    assert plain["childRunId"] is None


def test_a_loop_says_in_which_round_it_is(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(loop("try", "inner", 3, until="last.payload.ok"), id="looping")
    root = driver.trigger("looping")
    for number in (1, 2):
        [step] = asked.get(f"/api/runs/{shown(root)}").json["steps"]
        assert (step["round"], step["childRunId"]) == (number, shown(children(driver, root)[-1].id))
        states = asked.get(f"/api/runs/{shown(root)}/steps").json
        assert states["waits"]["1"]["text"] == f"round {number} of at most 3"
        asked.post(f"/api/runs/{shown(root)}/signals/paid", {"ok": number == 2})
    [step] = asked.get(f"/api/runs/{shown(root)}").json["steps"]
    assert (step["status"], step["round"]) == ("completed", 2)
    query = f"taskRunId={step['taskRunId']}"
    listed = asked.get(f"/api/runs/{shown(root)}/children?{query}").json["runs"]
    assert [each["id"] for each in listed] == [shown(each.id) for each in reversed(children(driver, root))]


def test_a_change_of_round_is_in_what_has_changed(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(loop("try", "inner", 3), id="looping")
    root = driver.trigger("looping")
    cursor = asked.get(f"/api/runs/{shown(root)}/steps").json["cursor"]
    asked.post(f"/api/runs/{shown(root)}/signals/paid", {})
    changed = asked.get(f"/api/runs/{shown(root)}/steps?after={cursor}").json
    assert changed["waits"]["1"]["text"] == "round 2 of 3"


def test_an_item_of_a_map_says_which_run_it_has_started(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(child("each", "inner", map=MapSpec([1, 2])), id="mapped")
    root = driver.trigger("mapped")
    items = asked.get(f"/api/runs/{shown(root)}/steps/each/items").json["items"]
    started = {shown(each.id): each.parent_task_run_id for each in children(driver, root)}
    assert {each["childRunId"]: ids.read(ids.TASK_RUN, each["id"]) for each in items} == started
    [step] = asked.get(f"/api/runs/{shown(root)}").json["steps"]
    assert step["childRunId"] is None


def test_the_ledger_of_a_run_tells_what_its_child_did(driver: RunDriver, asked: Api) -> None:
    driver.store_steps(child("down", "outer"), id="top")
    root = driver.trigger("top")
    asked.post(f"/api/runs/{shown(root)}/signals/paid", {})
    ledger = asked.get(f"/api/runs/{shown(root)}/ledger").json
    kinds = {each["kind"]: each for each in ledger["sums"]}
    assert kinds["signal"]["label"] == "for signal paid"
    assert sum(each["ms"] for each in ledger["sums"]) == pytest.approx(ledger["totalMs"])
    assert "signal" in ledger["steps"][0]["kinds"]
    [step] = asked.get(f"/api/runs/{shown(root)}/timeline").json["steps"]
    assert (step["bars"][0]["kind"], step["waitsFor"]) == ("child", "outer")


def test_a_signal_for_a_child_is_one_of_its_root(driver: RunDriver, asked: Api) -> None:
    root = driver.trigger("outer")
    inner = only_child(driver, root)
    answer = asked.post(f"/api/runs/{shown(inner)}/signals/paid", {"amount": 1})
    assert answer.status_code == 202
    assert driver.run(root).status == "completed"
    assert [each.status for each in children(driver, root)] == ["completed"]
