"""Webhooks that signal runs: that of a token, once for each delivery, started first where that is wanted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from support.concurrency import call_concurrently
from support.run_driver import RunDriver

from pipeweave import webhooks
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.orchestrator.state import signals
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import parse_spec

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)
SECRET = "s" * 40
ORDERS = {"id": "orders", "steps": [{"id": "paid", "signal": "paid"}]}
SIGNAL = {"name": "paid", "runToken": "${input.body.order}"}


@pytest.fixture
def driver(deployment: Deployment) -> Iterator[RunDriver]:
    """Of a tenant of this test alone, with a pipeline that waits for `paid`."""
    database = Database(deployment.database.url, react=reactions_to)
    driver = RunDriver(database, f"signalled-{next(_numbers)}")
    with database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(ORDERS), source="api")
    yield driver
    database.dispose()


@pytest.fixture
def ann(api: Api, tokens: Tokens, driver: RunDriver) -> Api:
    return type(api)(api.http, tokens.make(READ, WRITE, tenants=(driver.tenant,)), driver.tenant)


def put(api: Api, id: str = "payments", *, signal: Any = SIGNAL, **body: Any) -> Any:
    wanted = {"kind": "webhook", "pipelineId": "orders", "secret": SECRET, "signal": signal, **body}
    return api.put(f"/api/triggers/{id}", wanted)


def deliver(api: Api, body: Any, delivery: str, id: str = "payments") -> Any:
    content = orjson.dumps(body)
    at = int(api.http.application.extensions["pipeweave"].database.now().timestamp())
    headers = {webhooks.HEADER: webhooks.sign(SECRET, at, content), webhooks.DELIVERY: delivery}
    path = f"/api/webhooks/{api.tenant}/{id}"
    return api.http.post(path, data=content, headers=headers, content_type="application/json")


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def output(driver: RunDriver, run_id: Any) -> Any:
    [row] = driver.task_runs(run_id)
    return row.output


def runs(driver: RunDriver) -> list[Any]:
    return driver.rows("SELECT * FROM runs WHERE tenant_id = :tenant ORDER BY id", tenant=driver.tenant)


def test_a_delivery_signals_the_run_of_its_token_once(driver: RunDriver, ann: Api) -> None:
    run_id = driver.trigger("orders", run_token="7")
    assert put(ann, signal={**SIGNAL, "payload": {"amount": "${input.body.amount}"}}).status_code == 201
    first = deliver(ann, {"order": 7, "amount": 3}, "d1")
    assert (first.status_code, first.json["outcome"]) == (200, "signalled")
    again = deliver(ann, {"order": 7, "amount": 3}, "d1")
    assert (again.json["signalId"], again.json["isRepeated"]) == (first.json["signalId"], True)
    paid = output(driver, run_id)
    assert (paid["payload"], paid["by"]) == ({"amount": 3}, "trigger:payments")
    assert len(runs(driver)) == 1
    shown = ann.get("/api/triggers/payments").json
    assert shown["signal"] == {**SIGNAL, "payload": {"amount": "${input.body.amount}"}, "orStart": False}
    assert shown["lastFires"][0]["runId"] == first.json["pipelineRunId"]


def test_without_a_payload_the_signal_has_the_input(driver: RunDriver, ann: Api) -> None:
    run_id = driver.trigger("orders", run_token="a")
    put(ann, input={"all": "${input.body}"})
    deliver(ann, {"order": "a"}, "d1")
    assert output(driver, run_id)["payload"] == {"all": {"order": "a"}}


def test_a_delivery_for_no_run_is_refused_and_may_come_again(driver: RunDriver, ann: Api) -> None:
    put(ann)
    assert problem(deliver(ann, {"order": "b"}, "d1")) == (404, "NOT_FOUND")
    assert ann.get("/api/triggers/payments").json["lastError"]["code"] == "NOT_FOUND"
    driver.trigger("orders", run_token="b")
    assert deliver(ann, {"order": "b"}, "d1").json["outcome"] == "signalled"


@pytest.mark.parametrize("order", [None, True, "", [1], "x" * 201], ids=repr)
def test_what_is_no_token_is_refused(ann: Api, driver: RunDriver, order: Any) -> None:
    put(ann)
    answer = deliver(ann, {"order": order}, "d1")
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "signal.runToken")


def test_a_run_that_has_ended_and_one_with_too_many_signals_answer_as_for_any_signal(
    driver: RunDriver, ann: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(ann, signal={**SIGNAL, "name": "other"})
    run_id = driver.trigger("orders", run_token="7")
    monkeypatch.setattr(signals, "MAX_UNTAKEN", 1)
    assert deliver(ann, {"order": 7}, "d1").json["outcome"] == "signalled"
    assert problem(deliver(ann, {"order": 7, "n": 2}, "d2")) == (429, "TOO_MANY_SIGNALS")
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    assert problem(deliver(ann, {"order": 7, "n": 3}, "d3")) == (409, "RUN_ENDED")


def test_nothing_is_signalled_in_maintenance(driver: RunDriver, ann: Api, api: Api) -> None:
    put(ann)
    driver.trigger("orders", run_token="7")
    set_mode = "UPDATE orchestrator_state SET mode = :mode RETURNING mode"
    driver.rows(set_mode, mode="maintenance")
    try:
        assert deliver(ann, {"order": 7}, "d1").status_code == 503
    finally:
        driver.rows(set_mode, mode="running")


def test_a_delivery_may_start_the_run_that_it_signals(driver: RunDriver, ann: Api) -> None:
    put(ann, signal={**SIGNAL, "orStart": True})
    first = deliver(ann, {"order": 7, "n": 1}, "d1")
    assert first.json["outcome"] == "signalled"
    [run] = runs(driver)
    assert (run.run_token, run.triggered_id, run.input["body"]["n"]) == ("7", "payments", 1)
    assert output(driver, run.id)["payload"]["body"] == {"order": 7, "n": 1}
    assert problem(deliver(ann, {"order": 7, "n": 2}, "d2")) == (409, "RUN_ENDED")
    assert len(runs(driver)) == 1


def test_deliveries_of_two_triggers_at_once_start_one_run(driver: RunDriver, ann: Api) -> None:
    signal = {"name": "${input.body.kind}", "runToken": "${input.body.order}", "orStart": True}
    for id in ("created", "changed"):
        put(ann, id, signal=signal)
    names = [(id, f"{id}-{number}") for id in ("created", "changed") for number in range(3)]
    tries = [({"order": 7, "kind": name}, name, id) for id, name in names]
    call_concurrently(*(lambda each=each: deliver(ann, *each) for each in tries))
    [run] = runs(driver)
    sent = driver.rows("SELECT name FROM signals WHERE run_id = :id ORDER BY name", id=run.id)
    assert [each.name for each in sent] == sorted(name for _, name in names)


def test_mistakes_of_a_signal_are_named(ann: Api, driver: RunDriver) -> None:
    wrong = {"name": "approval:x", "runToken": "${input.event.x}", "payload": "${steps.a}"}
    answer = put(ann, signal=wrong)
    assert answer.status_code == 400
    fields = {each["field"] for each in answer.json["errors"]}
    assert fields == {"signal.name", "signal.runToken", "signal.payload"}
    event = {"kind": "event", "on": "task-completed", "pipelineId": "orders", "signal": SIGNAL}
    answer = ann.put("/api/triggers/ends", event)
    assert [each["field"] for each in answer.json["errors"]] == ["signal"]


def test_a_signal_to_a_token_that_two_runs_have_goes_to_the_newest(driver: RunDriver, ann: Api) -> None:
    driver.trigger("orders", {"n": 1}, run_token="7")
    newest = driver.trigger("orders", {"n": 2}, run_token="7")
    answer = ann.post("/api/pipelines/orders/signals/paid?runToken=7", {"amount": 1})
    assert answer.status_code == 202
    assert output(driver, newest)["payload"] == {"amount": 1}
