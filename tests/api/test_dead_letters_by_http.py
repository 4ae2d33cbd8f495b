"""Dead letters over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pipeweave import ids
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.state import claiming, run_headers

if TYPE_CHECKING:
    from conftest import Api

BOOM = Failure("SMTP_DOWN", "no answer from 10.0.0.7", "OSError", False, "Traceback …")


@pytest.fixture
def letter(api: Api, deployment: Deployment) -> dict[str, Any]:
    """The dead letter of the first step of a run."""
    assert api.put("/api/pipelines/fragile", {"steps": [{"task": "list_files"}, {"task": "report"}]})
    run_id = api.post("/api/pipelines/fragile/trigger", {"input": {"n": 1}}).json["pipelineRunId"]
    return failed(api, deployment, ids.task_run_id(ids.read(ids.RUN, run_id), 1))


def failed(api: Api, deployment: Deployment, task_run_id: Any) -> dict[str, Any]:
    """The dead letter of a task run that a worker takes now and fails for good."""

    def fail(tx: Any) -> None:
        run_id, ordinal = ids.run_id_of(task_run_id), ids.ordinal_of(task_run_id)
        (started,) = claiming.start(tx, run_id, [ordinal], 1, worker="w1")
        run = run_headers.load(tx, run_id)
        assert run is not None
        Turn(run, [(started, BOOM)], started.queue, max_retry_delay_ms=None).store(tx)

    deployment.database.run(fail)
    shown = ids.show(ids.TASK_RUN, task_run_id)
    found = [each for each in api.get("/api/dlq").json["items"] if each["taskRunId"] == shown]
    return dict(found[0])


def test_a_dead_letter_is_listed_and_shown(api: Api, letter: dict[str, Any]) -> None:
    assert letter["id"] == letter["dlqId"]
    assert letter["id"].startswith("dlq_")
    assert (letter["taskId"], letter["pipelineId"], letter["errorCode"]) == (
        "list_files",
        "fragile",
        "SMTP_DOWN",
    )
    assert (letter["attempts"], letter["input"], letter["status"]) == (1, {"n": 1}, "open")
    assert letter["failedAt"] == letter["createdAt"]
    assert "traceback" not in letter["error"]
    shown = api.get(f"/api/dlq/{letter['id']}").json
    assert shown["previousAttempts"][0]["error"]["traceback"] == "Traceback …"
    assert (shown["codeChanged"], shown["runStatus"]) == (False, "failed")
    assert api.get(f"/api/dlq/{letter['id']}", load="true").json["input"] == {"n": 1}


def test_lists_are_paged_and_filtered(api: Api, letter: dict[str, Any]) -> None:
    first = api.get("/api/dlq", limit=1).json
    assert [each["id"] for each in first["items"]] == [letter["id"]]
    assert first["total"] >= 1
    assert first["totalIsCapped"] is False
    filters = {
        "pipelineId": "fragile",
        "taskId": "list_files",
        "errorCode": "SMTP_DOWN",
        "fingerprint": letter["fingerprint"],
        "since": letter["failedAt"],
        "until": "2100-01-01T00:00:00Z",
        "status": "open",
    }
    assert letter["id"] in [each["id"] for each in api.get("/api/dlq", **filters).json["items"]]
    assert api.get("/api/dlq", errorCode="OTHER").json["items"] == []
    groups = api.get("/api/dlq/groups", limit=5, fingerprint=letter["fingerprint"]).json["groups"]
    assert groups[0]["newest"] == letter["id"]
    assert groups[0]["count"] >= 1


@pytest.mark.parametrize(
    "query", [{"status": "lost"}, {"fingerprint": "abc"}, {"since": "yesterday"}, {"limit": 0}, {"task": "a"}]
)
def test_a_wrong_filter_is_refused(api: Api, query: dict[str, Any]) -> None:
    answer = api.get("/api/dlq", **query)
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, next(iter(query)))


def test_a_retry_lets_the_run_go_on(api: Api, letter: dict[str, Any]) -> None:
    answer = api.post(f"/api/dlq/{letter['id']}/retry")
    assert answer.status_code == 200
    assert answer.json == {
        "newRunId": letter["pipelineRunId"],
        "taskRunId": letter["taskRunId"],
        "status": "queued",
        "codeVersion": letter["codeVersion"],
    }
    run = api.get(f"/api/runs/{letter['pipelineRunId']}").json
    assert (run["status"], run["error"], run["finishedAt"]) == ("running", None, None)
    assert {each["stepId"]: (each["status"], each["attempt"]) for each in run["taskRuns"]} == {
        "list_files": ("queued", 2),
        "report": ("pending", 1),
    }
    events = api.get(f"/api/runs/{letter['pipelineRunId']}/events").json["events"]
    reopened = {each["type"]: each["data"] for each in events if each["type"].endswith(".reopened")}
    assert reopened == {
        "run.reopened": {"by": "test"},
        "task_run.reopened": {"nextAttempt": 2, "deadLetter": letter["id"], "by": "test"},
        "task_runs.reopened": {"ordinals": [[2, 2]], "bumped": []},
    }
    shown = api.get(f"/api/dlq/{letter['id']}").json
    assert (shown["status"], shown["retryRunId"], shown["retryTaskRunId"]) == (
        "retried",
        letter["pipelineRunId"],
        letter["taskRunId"],
    )

    again = api.post(f"/api/dlq/{letter['id']}/retry")
    assert (again.status_code, again.json["code"], again.json["dlqId"]) == (409, "CONFLICT", letter["id"])
    assert letter["taskRunId"] in again.json["hint"]


def test_a_standalone_task_gets_a_new_task_run(api: Api, deployment: Deployment) -> None:
    queued = api.post("/api/queue/task", {"taskId": "report", "input": [1]}).json
    letter = failed(api, deployment, ids.read(ids.TASK_RUN, queued["runId"]))
    assert (letter["pipelineRunId"], letter["pipelineId"]) == (None, None)
    answer = api.post(f"/api/dlq/{letter['id']}/retry").json
    assert answer["newRunId"] == answer["taskRunId"] != queued["runId"]
    new = api.get(f"/api/task-runs/{answer['taskRunId']}").json
    assert (new["status"], new["input"], new["attempt"]) == ("queued", [1], 1)
    shown = api.get(f"/api/dlq/{letter['id']}").json
    assert (shown["retryRunId"], shown["retryTaskRunId"]) == (None, answer["taskRunId"])


def test_a_dead_letter_is_discarded_with_a_reason(api: Api, letter: dict[str, Any]) -> None:
    shown = api.post(f"/api/dlq/{letter['id']}/discard", {"reason": "known"}).json
    assert (shown["status"], shown["discardReason"]) == ("discarded", "known")
    assert api.post(f"/api/dlq/{letter['id']}/discard").status_code == 409
    assert api.post(f"/api/dlq/{letter['id']}/retry").status_code == 409
    listed = api.get("/api/dlq", status="discarded").json["items"]
    assert letter["id"] in [each["id"] for each in listed]


def test_many_are_retried_in_the_background(api: Api, deployment: Deployment, letter: dict[str, Any]) -> None:
    answer = api.post(
        "/api/dlq/retry-all", {"fingerprint": letter["fingerprint"], "since": letter["failedAt"]}
    )
    assert answer.status_code == 202
    assert (answer.json["status"], answer.json["total"]) == ("running", 1)
    redrives.run_once(deployment.database, deployment.values)
    shown = api.get(f"/api/dlq/redrives/{answer.json['id']}").json
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 1, 0)
    assert shown["filter"]["fingerprint"] == letter["fingerprint"]
    assert api.get("/api/dlq/redrives", limit=1).json["redrives"][0]["id"] == shown["id"]
    assert api.post(f"/api/dlq/redrives/{shown['id']}/cancel").status_code == 409


def test_a_redrive_is_cancelled(api: Api, letter: dict[str, Any]) -> None:
    asked = api.post("/api/dlq/retry-all", {"taskId": letter["taskId"]}).json
    shown = api.post(f"/api/dlq/redrives/{asked['id']}/cancel").json
    assert (shown["status"], shown["retried"]) == ("cancelled", 0)
    assert api.get(f"/api/dlq/{letter['id']}").json["status"] == "open"


def test_many_are_discarded_by_a_filter_and_never_all(api: Api, letter: dict[str, Any]) -> None:
    answer = api.post("/api/dlq/discard", {"since": letter["failedAt"], "reason": "known"})
    assert answer.json == {"discarded": 1, "more": False}
    assert api.get(f"/api/dlq/{letter['id']}").json["discardReason"] == "known"
    refused = api.post("/api/dlq/discard", {"reason": "all of it"})
    assert (refused.status_code, refused.json["code"]) == (400, "INVALID_INPUT")


def test_old_ones_are_purged(api: Api, letter: dict[str, Any]) -> None:
    assert api.post("/api/dlq/purge", {"olderThan": "1h"}).json == {"purged": 0, "more": False}
    assert api.post("/api/dlq/purge", {"olderThan": "1ms"}).json["purged"] >= 1
    assert api.get(f"/api/dlq/{letter['id']}").status_code == 404
    wrong = api.post("/api/dlq/purge", {"olderThan": "a month"})
    assert (wrong.status_code, wrong.json["errors"][0]["field"]) == (400, "olderThan")
    assert "30s, 5m, 2h" in wrong.json["errors"][0]["message"]


def test_very_many_are_purged_by_several_requests(
    api: Api, letter: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["pipeweave.api.routes.dead_letters"], "MOST_BATCHES", 1)
    monkeypatch.setattr(dead_letters, "BATCH", 1)
    assert api.post("/api/dlq/discard", {"taskId": letter["taskId"]}).json == {"discarded": 1, "more": True}
    while (answer := api.post("/api/dlq/purge", {"olderThan": "1ms"}).json)["more"]:
        assert answer["purged"] == 1
    assert answer["purged"] == 0


def test_dead_letters_of_other_tenants_are_not_found(neighbour: Api, letter: dict[str, Any]) -> None:
    assert neighbour.get("/api/dlq").json["items"] == []
    assert neighbour.get(f"/api/dlq/{letter['id']}").status_code == 404
    assert neighbour.post(f"/api/dlq/{letter['id']}/retry").status_code == 404
    assert neighbour.post("/api/dlq/purge", {"olderThan": "1ms"}).json == {"purged": 0, "more": False}


def test_a_reader_changes_nothing(reader: Api, letter: dict[str, Any]) -> None:
    assert reader.get(f"/api/dlq/{letter['id']}").status_code == 200
    for path in (f"{letter['id']}/retry", f"{letter['id']}/discard", "retry-all", "discard", "purge"):
        assert reader.post(f"/api/dlq/{path}").status_code == 403


def test_words_beside_an_id_are_paths_of_their_own(api: Api) -> None:
    for word in ("purge", "discard", "retry-all"):
        answer = api.get(f"/api/dlq/{word}")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, POST")
    assert api.get("/api/dlq/purged").status_code == 404


@pytest.mark.parametrize(
    "since", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2020-01-01T00:00:00-23:59"]
)
def test_times_at_the_end_of_the_world_are_times(api: Api, since: str) -> None:
    for path in ("/api/dlq", "/api/dlq/groups"):
        assert api.get(path, since=since, until=since).status_code == 200
    assert api.post("/api/dlq/retry-all", {"since": since, "until": since}).status_code == 202


def test_a_time_is_a_text(api: Api) -> None:
    answer = api.post("/api/dlq/retry-all", {"until": 0})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "until")


def test_those_of_one_run_or_task_run_are_listed_and_retried(api: Api, letter: dict[str, Any]) -> None:
    run, task_run = letter["pipelineRunId"], letter["taskRunId"]
    other = ids.new_id(0)
    queries = ({"pipelineRunId": run}, {"taskRunId": task_run}, {"pipelineRunId": run, "taskRunId": task_run})
    for query in queries:
        assert [each["id"] for each in api.get("/api/dlq", **query).json["items"]] == [letter["id"]]
    assert api.get("/api/dlq", pipelineRunId=ids.show(ids.RUN, other)).json["total"] == 0
    gone = ids.show(ids.TASK_RUN, ids.task_run_id(other, 1))
    assert api.get("/api/dlq", taskRunId=gone).json["total"] == 0
    assert api.get("/api/dlq", taskRunId="x").status_code == 400
    redrive = api.post("/api/dlq/retry-all", {"pipelineRunId": run})
    assert (redrive.status_code, redrive.json["total"]) == (202, 1)
    assert redrive.json["filter"] == {"pipelineRunId": run}
