"""A hook tells people that an approval waits for them: once for each that begins, however it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.run_driver import RunDriver, header
from support.stored_values import VALUES
from support.stub_http_server import Served, serving
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.reading import run as read_run
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.starts import event_consumer
from pipeweave.orchestrator.starts.fires import MAX_DEPTH
from pipeweave.orchestrator.starts.hooks import run_starts, url_calls
from pipeweave.orchestrator.waits import approvals
from pipeweave.orchestrator.waits.approvals import Vote
from pipeweave.settings import Settings
from pipeweave.spec import HookSpec, StepSpec, engine_task
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000
ALERT = {"onWaiting": (HookSpec(pipeline="alert"),)}
QUESTION = Approval(
    "Ship?", assignees=("ann", "group:finance"), timeout_ms=DAY_MS, default={"approved": False}
)
SETTINGS = Settings(
    secret_key="5e" * 32,
    dispatch_networks=("loopback",),
    mode="serverless",
    orchestrator_url="https://api.example",
)


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    """Alone in its database, because the chores look at all tenants."""
    isolated_driver.store({"b": []}, id="alert")
    return isolated_driver


@pytest.fixture
def runs(driver: RunDriver) -> WaitingRuns:
    return WaitingRuns(driver)


@pytest.fixture
def receiver() -> Iterator[Served]:
    with serving() as served:
        served.put("POST /asked", (202, {}))
        yield served


def tick(driver: RunDriver) -> int:
    noted = event_consumer.run_once(driver.database)
    run_starts.run_once(driver.database, VALUES)
    url_calls.run_once(driver.database, SETTINGS)
    return noted


def alerts(driver: RunDriver) -> list[Any]:
    return driver.rows("SELECT * FROM runs WHERE pipeline_id = 'alert' ORDER BY id")


def approve(driver: RunDriver, run_id: UUID, step: str = "ok") -> None:
    with driver.database.transaction() as tx:
        task_run_id = ids.task_run_id(run_id, header(tx, run_id).plan.ordinals[step])
        approvals.vote(tx, driver.tenant, task_run_id, Vote("ann", (), is_approval=True))


def approval(id: str, needs: tuple[str, ...] = ()) -> StepSpec:
    question = Approval("Ship?", timeout_ms=DAY_MS)
    return StepSpec(id, engine_task(question), needs, decides=question)


def test_an_approval_that_begins_to_wait_starts_a_pipeline_once(runs: WaitingRuns) -> None:
    driver = runs.driver
    run_id = runs.begin({"ok": QUESTION}, hooks=ALERT)
    assert [tick(driver), tick(driver)] == [1, 0]
    [alert] = alerts(driver)
    wait_id = ids.show(ids.TASK_RUN, runs.task_run(run_id, "ok"))
    assert (alert.triggered_id, alert.triggered_actor) == ("driven.onWaiting", wait_id)
    event = alert.input["event"]
    assert (event["type"], event["waitId"], event["stepId"]) == ("approval-waiting", wait_id, "ok")
    assert (event["title"], event["assignees"]) == ("Ship?", ["ann", "group:finance"])
    assert (event["hasDefault"], event["default"]) == (True, {"approved": False})
    assert event["runId"] == event["rootRunId"] == ids.show(ids.RUN, run_id)
    [wait] = runs.waits(run_id)
    assert event["timeoutAt"].startswith(wait.timeout_at.strftime("%Y-%m-%dT%H:%M:%S"))


def test_a_call_links_to_the_page_that_decides(runs: WaitingRuns, receiver: Served) -> None:
    hooks = {"onWaiting": (HookSpec(url=f"{receiver.url}/asked", secret="ops"),)}
    run_id = runs.begin({"ok": QUESTION}, hooks=hooks)
    tick(runs.driver)
    ((_, _, document),) = receiver.asked
    assert document["hook"] == "onWaiting"
    assert document["link"] == f"https://api.example/ui/waits/{document['waitId']}"
    with runs.driver.database.transaction() as tx:
        [hook] = read_run(tx, runs.driver.tenant, run_id)["hooks"]
    assert (hook["hook"], hook["outcome"], hook["attempts"]) == ("onWaiting", "fired", 1)


def test_an_approval_that_was_decided_before_asks_nobody(runs: WaitingRuns) -> None:
    driver = runs.driver
    run_id = runs.begin({"ok": QUESTION}, hooks=ALERT)
    approve(driver, run_id)
    assert tick(driver) == 1
    assert alerts(driver) == []
    [fire] = driver.rows("SELECT outcome, reason FROM hook_fires")
    assert (fire.outcome, fire.reason) == ("skipped", "over")


def test_other_waits_fire_nothing(runs: WaitingRuns) -> None:
    runs.begin({"sleep": Sleep(ms=DAY_MS), "paid": SignalWait(("paid",))}, hooks=ALERT)
    assert tick(runs.driver) == 0


def test_an_approval_that_a_rerun_reuses_asks_nobody_again(runs: WaitingRuns) -> None:
    driver = runs.driver
    run_id = runs.begin({"ok": QUESTION}, hooks=ALERT)
    tick(driver)
    approve(driver, run_id)
    driver.finish(run_id, "end")
    request = rerunning.Rerun(run_id, "end")
    again = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    ).id
    assert driver.statuses(again)["ok"] == "completed"
    assert tick(driver) == 0
    assert len(alerts(driver)) == 1


def test_approvals_of_a_pipeline_in_a_step_are_told_by_the_nearest_hook(driver: RunDriver) -> None:
    driver.store({"b": []}, id="own")
    driver.store_steps(approval("ok"), id="plain")
    driver.store_steps(approval("ok"), id="telling", hooks={"onWaiting": (HookSpec(pipeline="own"),)})
    driver.store_steps(child("one", "plain"), child("two", "telling", ("one",)), hooks=ALERT)
    run_id = driver.trigger()
    tick(driver)
    [alert] = alerts(driver)
    inner = only_child(driver, run_id)
    event = alert.input["event"]
    assert (event["runId"], event["rootRunId"]) == (ids.show(ids.RUN, inner), ids.show(ids.RUN, run_id))
    approve(driver, inner)
    tick(driver)
    [own] = driver.rows("SELECT triggered_id FROM runs WHERE pipeline_id = 'own'")
    assert (own.triggered_id, len(alerts(driver))) == ("telling.onWaiting", 1)


def test_a_hook_whose_pipeline_asks_in_a_step_of_its_own_ends(driver: RunDriver) -> None:
    driver.store_steps(approval("ok"), id="inner")
    loop = {"onWaiting": (HookSpec(pipeline="pong"),)}
    driver.store_steps(child("ask", "inner"), id="ping", hooks=loop)
    back = {"onWaiting": (HookSpec(pipeline="ping"),)}
    driver.store_steps(child("ask", "inner"), id="pong", hooks=back)
    driver.trigger("ping")
    for _ in range(MAX_DEPTH + 2):
        tick(driver)
    [row] = driver.rows("SELECT count(*) AS runs FROM runs WHERE pipeline_id IN ('ping', 'pong')")
    assert row.runs == MAX_DEPTH + 1
