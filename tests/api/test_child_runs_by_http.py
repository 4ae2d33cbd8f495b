"""Runs inside of runs over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from support.child_runs import child, children, only_child, task_run
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import SignalWait, StepSpec, engine_task

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
    [reason] = asked.get(f"/api/task-runs/{step}/why").json["reasons"]
    assert (reason["code"], reason["runId"]) == ("waits_for_run", shown(only_child(driver, root)))


def test_a_signal_for_a_child_is_one_of_its_root(driver: RunDriver, asked: Api) -> None:
    root = driver.trigger("outer")
    inner = only_child(driver, root)
    answer = asked.post(f"/api/runs/{shown(inner)}/signals/paid", {"amount": 1})
    assert answer.status_code == 202
    assert driver.run(root).status == "completed"
    assert [each.status for each in children(driver, root)] == ["completed"]
