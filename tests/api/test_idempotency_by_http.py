"""Requests that are sent twice create one thing, whether the key is in the body or in the header."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.state.run_headers import load

if TYPE_CHECKING:
    from conftest import Api

TASK = "/api/queue/task"
BATCH = "/api/queue/batch"
HEADER = "Idempotency-Key"


@pytest.fixture
def key() -> str:
    """One that no other test uses."""
    return f"key {uuid4()}"


def keyed(api: Api, key: str) -> Api:
    """The same caller, whose requests have this key."""
    return replace(api, sent={HEADER: key})


def work_off(deployment: Deployment, task_run: str, key: str, output: Any) -> None:
    """Execute a queued task run under its key."""
    id_ = ids.read(ids.TASK_RUN, task_run)
    with deployment.database.transaction() as tx:
        run = load(tx, ids.run_id_of(id_))
        assert run is not None
        (started,) = claiming.start(tx, run.id, [1], 1, worker="w1")
        assert idempotency.claim(tx, run.tenant, started, key) is None
        outcome = Completion(started, VALUES.keep(output), key=key)
        Turn(run, [outcome], started.queue, max_retry_delay_ms=None).store(tx)


# --- standalone tasks -------------------------------------------------------------------------------------


def test_a_task_that_is_queued_twice_is_one_task_run(api: Api, key: str, deployment: Deployment) -> None:
    first = api.post(TASK, {"taskId": "count", "input": {"n": 1}, "idempotencyKey": key})
    assert (first.status_code, first.json["created"], first.json["status"]) == (200, True, "queued")
    second = api.post(TASK, {"taskId": "count", "input": {"n": 2}, "idempotencyKey": key})
    assert (second.status_code, second.json) == (200, first.json | {"created": False})
    shown = api.get(f"/api/task-runs/{first.json['runId']}").json
    assert (shown["idempotencyKey"], shown["cachedFrom"], shown["awaits"]) == (key, None, None)
    work_off(deployment, first.json["runId"], key, 7)
    third = api.post(TASK, {"taskId": "count", "idempotencyKey": key}).json
    assert (third["runId"], third["status"], third["created"]) == (first.json["runId"], "completed", False)


@pytest.mark.parametrize("sent", ["{}", '"{}"', "  {} "])
def test_the_header_is_a_key_with_quotes_or_without(api: Api, key: str, sent: str) -> None:
    first = api.post(TASK, {"taskId": "count", "idempotencyKey": key}).json
    again = keyed(api, sent.format(key)).post(TASK, {"taskId": "count"}).json
    assert again == first | {"created": False}


def test_a_batch_says_what_is_new(api: Api, key: str) -> None:
    task = {"taskId": "count"}
    tasks = [task | {"idempotencyKey": key}, task, task | {"idempotencyKey": key}]
    answer = api.post(BATCH, {"tasks": tasks}).json
    assert (answer["queued"], [each["created"] for each in answer["results"]]) == (2, [True, True, False])
    assert answer["results"][0]["runId"] == answer["results"][2]["runId"]


def test_a_batch_with_a_key_is_queued_once(api: Api, key: str) -> None:
    caller, body = keyed(api, key), {"tasks": [{"taskId": "count"}] * 3}
    first, second = caller.post(BATCH, body).json, caller.post(BATCH, body).json
    assert (first["queued"], second["queued"]) == (3, 0)
    assert [each["runId"] for each in first["results"]] == [each["runId"] for each in second["results"]]
    assert len({each["runId"] for each in first["results"]}) == 3
    longer = caller.post(BATCH, {"tasks": [{"taskId": "count"}] * 4}).json
    assert [each["created"] for each in longer["results"]] == [False, False, False, True]


# --- runs -------------------------------------------------------------------------------------------------


def test_a_run_that_is_triggered_twice_with_a_key_is_one_run(api: Api, key: str, pipeline: str) -> None:
    path, caller = f"/api/pipelines/{pipeline}/trigger", keyed(api, key)
    first = caller.post(path, {"input": {"folder": "a"}})
    again = caller.post(path, {"input": {"folder": "a"}})
    assert (first.status_code, again.status_code) == (200, 200)
    assert (first.json["created"], again.json["created"]) == (True, False)
    assert first.json["pipelineRunId"] == again.json["pipelineRunId"]
    by_body = api.post(path, {"input": {"folder": "a"}, "runToken": key}).json
    assert by_body["pipelineRunId"] == first.json["pipelineRunId"]
    other = caller.post(path, {"input": {"folder": "b"}}).json
    assert (other["created"], other["pipelineRunId"] == first.json["pipelineRunId"]) == (True, False)


def test_a_batch_of_runs_with_a_key_is_started_once(api: Api, key: str, pipeline: str) -> None:
    path, caller = f"/api/pipelines/{pipeline}/trigger/batch", keyed(api, key)
    body = {"runs": [{"input": {"folder": "a"}}, {"input": {"folder": "a"}}, {"runToken": f"own {key}"}]}
    first, second = caller.post(path, body).json["runs"], caller.post(path, body).json["runs"]
    assert [each["created"] for each in first] == [True] * 3
    assert [each["created"] for each in second] == [False] * 3
    assert [each["pipelineRunId"] for each in first] == [each["pipelineRunId"] for each in second]
    own = api.post(f"/api/pipelines/{pipeline}/trigger", {"runToken": f"own {key}"}).json
    assert own["pipelineRunId"] == first[2]["pipelineRunId"]


# --- what is refused --------------------------------------------------------------------------------------


def test_a_header_and_a_body_that_differ_are_refused(api: Api, key: str, pipeline: str) -> None:
    for path, body, field in (
        (TASK, {"taskId": "count", "idempotencyKey": "other"}, "idempotencyKey"),
        (f"/api/pipelines/{pipeline}/trigger", {"runToken": "other"}, "runToken"),
    ):
        answer = keyed(api, key).post(path, body)
        assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, field)
        same = keyed(api, key).post(path, body | {field: key})
        assert same.status_code == 200


@pytest.mark.parametrize("sent", ["", "   ", '""', "k" * 501, "schl\u00fcssel", "tab\tbed"])
def test_a_header_that_is_no_key_is_refused(api: Api, sent: str) -> None:
    answer = keyed(api, sent).post(TASK, {"taskId": "count"})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, HEADER)


@pytest.mark.parametrize("key", ["", "k" * 501, "two\nlines", "nul\0", 7])
def test_a_key_in_the_body_that_is_none_is_refused(api: Api, key: Any) -> None:
    answer = api.post(TASK, {"taskId": "count", "idempotencyKey": key})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "idempotencyKey")


@pytest.mark.parametrize(
    ("path", "body", "longest"),
    [
        (TASK, {"taskId": "count"}, 500),
        (BATCH, {"tasks": [{"taskId": "count"}]}, 494),
        ("/api/pipelines/{}/trigger", {}, 200),
        ("/api/pipelines/{}/trigger/batch", {"runs": [{}]}, 194),
    ],
)
def test_a_header_may_be_as_long_as_what_it_stands_for(
    api: Api, pipeline: str, path: str, body: Any, longest: int
) -> None:
    start = f"{uuid4()}"
    for length, status in ((longest, 200), (longest + 1, 400)):
        answer = keyed(api, start.ljust(length, "x")).post(path.format(pipeline), body)
        assert answer.status_code == status, length


def test_an_endpoint_that_takes_no_key_does_not_look_at_the_header(api: Api) -> None:
    assert keyed(api, "").get("/api/runs").status_code == 200
