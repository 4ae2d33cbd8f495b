"""Pipelines over HTTP: store, look, plan, trigger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import ADMIN

if TYPE_CHECKING:
    from conftest import Api, Tokens

CHAIN = {"steps": [{"task": "list_files"}, {"task": "report"}]}
MAIL = {"steps": [{"task": "send-mail"}]}


def test_a_new_document_makes_a_version_and_an_equal_one_keeps_it(api: Api) -> None:
    first = api.put("/api/pipelines/versions-of-it", CHAIN)
    assert first.status_code == 201
    assert (first.json["version"], first.json["isNew"]) == (1, True)
    again = api.put(
        "/api/pipelines/versions-of-it", {**CHAIN, "id": "versions-of-it", "failureMode": "fail-fast"}
    )
    assert again.status_code == 200
    assert (again.json["version"], again.json["isNew"]) == (1, False)
    other = api.put("/api/pipelines/versions-of-it", {**CHAIN, "failureMode": "continue"})
    assert (other.status_code, other.json["version"]) == (201, 2)

    listed = api.get("/api/pipelines/versions-of-it/versions").json
    assert [each["version"] for each in listed["versions"]] == [2, 1]
    assert {each["source"] for each in listed["versions"]} == {"api"}
    newest = api.get("/api/pipelines/versions-of-it").json["pipeline"]
    assert (newest["version"], newest["specHash"]) == (2, other.json["specHash"])
    oldest = api.get("/api/pipelines/versions-of-it", version=1).json["pipeline"]
    assert [step["needs"] for step in oldest["spec"]["steps"]] == [[], ["list_files"]]
    assert api.get("/api/pipelines/versions-of-it", version=3).status_code == 404


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "steps"),
        ({"steps": []}, "steps"),
        ({"steps": [{"task": "count", "needs": ["nobody"]}]}, "steps[0].needs[0]"),
        ({"steps": [{"task": "nobody-has-it"}]}, "steps[0].task"),
        ({"steps": [{"task": "count"}], "id": "another"}, "id"),
        ({"steps": [{"task": "count", "parms": {}}]}, "steps[0].parms"),
        ({"steps": [{"id": "a", "task": "count", "needs": ["b"]}, {"id": "b", "task": "count"}]}, "steps"),
    ],
)
def test_a_wrong_document_stores_nothing(api: Api, document: dict[str, Any], field: str) -> None:
    answer = api.put("/api/pipelines/wrong", document)
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_SPEC")
    assert field in [each["field"] for each in answer.json["errors"]]
    assert api.get("/api/pipelines/wrong").status_code == 404


def test_a_cycle_is_told_as_a_path(api: Api) -> None:
    steps = [{"id": "a", "task": "count", "needs": ["b"]}, {"id": "b", "task": "count", "needs": ["a"]}]
    answer = api.put("/api/pipelines/cyclic", {"steps": steps})
    cycle = next(each for each in answer.json["graphErrors"] if each["code"] == "CYCLE")
    assert set(cycle["steps"]) == {"a", "b"}
    planned = api.post("/api/pipelines/cyclic/dry-run", {"spec": {"steps": steps}}).json
    assert planned["valid"] is False
    assert "CYCLE" in [each["code"] for each in planned["errors"]]


def test_a_dry_run_shows_levels_and_joins(api: Api, pipeline: str) -> None:
    plan = api.post(f"/api/pipelines/{pipeline}/dry-run").json
    assert plan["valid"] is True
    assert [level["tasks"] for level in plan["executionPlan"]] == [["list_files"], ["count"], ["report"]]
    assert (plan["forecast"]["tooFewRuns"], len(plan["forecast"]["steps"])) == (True, 3)
    spec = {
        "steps": [
            {"parallel": [{"task": "list_files"}, {"task": "count"}]},
            {"task": "report"},
        ]
    }
    plan = api.post("/api/pipelines/not-stored/dry-run", {"spec": spec}).json
    assert plan["executionPlan"][-1]["waitsFor"] == ["count", "list_files"]
    assert api.get("/api/pipelines/not-stored").status_code == 404


def test_a_dry_run_of_a_wrong_document_answers_what_is_wrong(api: Api) -> None:
    plan = api.post("/api/pipelines/x/dry-run", {"spec": {"steps": [{"tusk": "count"}]}}).json
    assert plan["valid"] is False
    assert any("steps[0].tusk" in each["message"] for each in plan["errors"])


def test_a_dry_run_checks_an_input_that_is_given(api: Api) -> None:
    body = {"spec": MAIL, "input": {"to": "nobody"}}
    errors = api.post("/api/pipelines/x/dry-run", body).json["validationErrors"]
    assert [each["field"] for each in errors["send-mail"]] == ["to"]


def test_a_trigger_answers_with_the_run(api: Api, pipeline: str) -> None:
    body = {
        "input": {"folder": "/srv"},
        "failureMode": "continue",
        "priority": 5,
        "metadata": {"ticket": "T-1"},
        "validationMode": "strict",
    }
    answer = api.post(f"/api/pipelines/{pipeline}/trigger", body)
    assert answer.status_code == 200
    assert answer.json["status"] == "running"
    assert answer.json["entryTasks"] == answer.json["queuedTasks"] == ["list_files"]
    assert answer.json["pipelineVersion"] == 1
    run = api.get(f"/api/runs/{answer.json['pipelineRunId']}").json
    assert (run["failureMode"], run["priority"], run["metadata"]) == ("continue", 5, {"ticket": "T-1"})
    assert run["input"] == {"folder": "/srv"}
    assert run["counts"] == {"pending": 2, "queued": 1}
    assert [step["id"] for step in run["steps"]] == ["list_files", "count", "report"]


@pytest.mark.parametrize("value", [None, 0, "text", [1, [2]], {"a": {"b": None}}, 1.5, True])
def test_an_input_is_any_json(api: Api, pipeline: str, value: Any) -> None:
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": value}).json["pipelineRunId"]
    assert api.get(f"/api/runs/{run_id}").json["input"] == value


def test_a_large_input_is_kept_by_reference(api: Api, pipeline: str) -> None:
    run = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": "x" * 100_000}).json
    shown = api.get(f"/api/runs/{run['pipelineRunId']}").json
    assert shown["input"] is None
    assert shown["inputRef"]["path"] == run["inputPath"]
    assert shown["inputRef"]["size"] == 100_002


def test_a_run_token_gives_the_first_run_again(api: Api, pipeline: str) -> None:
    def trigger(value: int) -> dict[str, Any]:
        body = {"input": value, "runToken": "once"}
        answer: dict[str, Any] = api.post(f"/api/pipelines/{pipeline}/trigger", body).json
        return answer

    first, second, other = trigger(1), trigger(1), trigger(2)
    assert (first["created"], second["created"], other["created"]) == (True, False, True)
    assert first["pipelineRunId"] == second["pipelineRunId"] != other["pipelineRunId"]


def test_an_input_is_checked_as_the_mode_says(api: Api) -> None:
    api.put("/api/pipelines/mail", MAIL)
    path, wrong = "/api/pipelines/mail/trigger", {"to": "nobody"}
    strict = api.post(path, {"input": wrong, "validationMode": "strict"})
    assert (strict.status_code, strict.json["code"]) == (400, "INPUT_VALIDATION_FAILED")
    assert strict.json["error"] == "Input validation failed"
    fault = {"field": "to", "message": "Invalid email address", "code": "invalid_string", "expected": "email"}
    assert strict.json["validationErrors"] == {"send-mail": [fault]}
    assert [each["field"] for each in strict.json["errors"]] == ["input.to"]
    warned = api.post(path, {"input": wrong})
    assert warned.status_code == 200
    assert warned.json["validationWarnings"] == {"send-mail": [fault]}
    assert "validationWarnings" not in api.post(path, {"input": wrong, "validationMode": "none"}).json
    right = {"input": {"to": "a@example.com"}, "validationMode": "strict"}
    assert api.post(path, right).status_code == 200


def test_an_unknown_pipeline_is_not_there_and_a_tasks_name_gets_a_hint(api: Api) -> None:
    answer = api.post("/api/pipelines/nobody/trigger", {"input": {}})
    assert (answer.status_code, answer.json["pipelineId"]) == (404, "nobody")
    answer = api.post("/api/pipelines/count/trigger", {"input": {}})
    assert answer.status_code == 404
    assert "/api/queue/task" in answer.json["hint"]
    assert api.post("/api/pipelines/nobody/dry-run").status_code == 404


def test_nothing_new_is_accepted_during_maintenance(api: Api, pipeline: str, deployment: Deployment) -> None:
    def set_mode(mode: str) -> None:
        with deployment.database.transaction() as tx:
            tx.execute("UPDATE orchestrator_state SET mode = :mode", {"mode": mode})

    set_mode("waiting_for_maintenance")
    try:
        for path, body in (
            (f"/api/pipelines/{pipeline}/trigger", {"input": {}}),
            ("/api/queue/task", {"taskId": "count"}),
        ):
            answer = api.post(path, body)
            assert (answer.status_code, answer.json["maintenanceMode"]) == (503, "waiting_for_maintenance")
        health = api.get("/health").json
        assert health["canAcceptTasks"] is False
        assert health["maintenance"]["mode"] == health["maintenanceMode"] == "waiting_for_maintenance"
    finally:
        set_mode("running")


def test_pipelines_are_listed_page_by_page(api: Api) -> None:
    for name in ("page-a", "page-b", "page-c"):
        api.put(f"/api/pipelines/{name}", CHAIN)
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = api.get("/api/pipelines", **query).json
        seen += [each["id"] for each in page["pipelines"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == sorted(set(seen))
    assert {"page-a", "page-b", "page-c"} <= set(seen)


def test_a_step_that_may_take_longer_than_its_run_is_warned_of(api: Api) -> None:
    task = {"id": "train", "timeout": 3600, "codeHash": "1" * 16}
    api.post("/api/services", {"serviceId": "ml", "kind": "http", "baseUrl": "http://ml", "tasks": [task]})
    document = {"timeout": "10m", "steps": [{"task": "train"}]}
    stored = api.put("/api/pipelines/training", document).json
    [warning] = stored["warnings"]
    assert (warning["code"], warning["steps"]) == ("TIMEOUT_BEYOND_RUN", ["train"])
    assert "the run ends after 10 minutes (the pipeline's timeout)" in warning["message"]
    assert api.post("/api/pipelines/training/dry-run").json["warnings"] == [warning]


def test_steps_that_run_other_pipelines_are_compared_with_them(api: Api) -> None:
    path = {"name": "path", "label": "Path", "type": "string", "required": True}
    callee = {"inputSchema": {"fields": [path], "strict": True}, "steps": [{"task": "count"}]}
    steps = [{"id": "each", "pipeline": "count-one", "params": {"paht": "a"}}]
    first = api.put("/api/pipelines/counts-all", {"steps": steps})
    assert (first.status_code, [each["code"] for each in first.json["warnings"]]) == (
        201,
        ["UNKNOWN_PIPELINE"],
    )
    assert first.json["warnings"][0]["steps"] == ["each"]
    checked = api.post("/api/pipelines/validate", {"steps": steps}).json
    assert (checked["valid"], checked["warnings"]) == (True, first.json["warnings"])

    assert api.put("/api/pipelines/count-one", callee).status_code == 201
    fields = ["steps[0].params.paht", "steps[0].params"]
    wrong = {"steps": steps, "failureMode": "continue"}
    refused = api.put("/api/pipelines/counts-all", wrong)
    assert (refused.status_code, [each["field"] for each in refused.json["errors"]]) == (400, fields)
    checked = api.post("/api/pipelines/validate", wrong).json
    assert (checked["valid"], [each["field"] for each in checked["errors"]]) == (False, fields)
    for body in ({}, {"spec": wrong}):
        planned = api.post("/api/pipelines/counts-all/dry-run", body).json
        codes = [each["code"] for each in planned["errors"]]
        assert (planned["valid"], codes) == (False, ["UNKNOWN_PARAMETER", "MISSING_PARAMETER"])
    steps[0]["params"] = {"path": "a"}
    assert api.put("/api/pipelines/counts-all", {"steps": steps}).json["warnings"] == []


def test_a_document_may_bring_a_schedule(api: Api) -> None:
    path, schedule = "/api/pipelines/brings-it", {"cron": "0 0 1 1 *", "input": {"a": 1}}
    plan = api.post(f"{path}/dry-run", {"spec": {**MAIL, "schedule": "0 0 1 1 *"}}).json
    assert plan["schedule"]["nextFires"][0].endswith("-01-01T00:00:00.000Z")
    assert api.put(path, {**MAIL, "schedule": schedule}).status_code == 201
    stored = api.get("/api/schedules/brings-it").json
    assert (stored["cron"], stored["input"], stored["source"]) == ("0 0 1 1 *", {"a": 1}, "document")
    shown = api.get(path).json["pipeline"]["spec"]
    assert shown["schedule"] == schedule
    assert api.post(f"{path}/dry-run", {}).json["schedule"]["nextFires"] == stored["nextFires"]
    assert api.put(path, shown).json["isNew"] is False
    assert api.get("/api/schedules", pipelineId="brings-it").json["schedules"] != []
    assert api.put(path, MAIL).json["isNew"] is False
    assert api.get("/api/schedules", pipelineId="brings-it").json["schedules"] == []
    assert api.get("/api/schedules/brings-it").json["withdrawnAt"] is not None


def test_a_wrong_schedule_of_a_document_is_refused_with_all_mistakes(api: Api) -> None:
    wrong = {"cron": "* *", "timeZone": "Mars", "everyMs": 5}
    answer = api.put("/api/pipelines/wrong", {**MAIL, "schedule": wrong})
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_SPEC")
    fields = {each["field"] for each in answer.json["errors"]}
    assert fields == {"schedule", *(f"schedule.{name}" for name in wrong)}


def test_a_version_is_promoted_and_rolled_back_and_the_audit_says_so(api: Api, tokens: Tokens) -> None:
    path = "/api/pipelines/promoted"
    for document in (CHAIN, {**CHAIN, "failureMode": "continue"}):
        api.put(path, document)
    answer = api.post(f"{path}/promote", {"version": 1, "reason": "slow"})
    assert answer.json | {"promotedAt": "", "promotedBy": ""} == {
        "pipelineId": "promoted",
        "version": 1,
        "latestVersion": 2,
        "promotedVersion": 1,
        "previousVersion": 2,
        "promotedAt": "",
        "promotedBy": "",
    }
    shown = api.get(path).json["pipeline"]
    assert [shown[name] for name in ("version", "currentVersion", "latestVersion", "promotedVersion")] == [
        1,
        1,
        2,
        1,
    ]
    versions = api.get(f"{path}/versions").json["versions"]
    assert [(each["version"], each["isCurrent"]) for each in versions] == [(2, False), (1, True)]
    (listed,) = [each for each in api.get("/api/pipelines").json["pipelines"] if each["id"] == "promoted"]
    assert (listed["version"], listed["latestVersion"]) == (1, 2)
    assert api.post(f"{path}/trigger", {}).json["pipelineVersion"] == 1
    assert api.post(f"{path}/trigger", {"version": 2}).json["pipelineVersion"] == 2
    batch = api.post(f"{path}/trigger/batch", {"runs": [{}], "version": 2}).json["runs"]
    assert batch[0]["pipelineVersion"] == 2
    assert api.post(f"{path}/rollback", {"expectedVersion": 2}).json["code"] == "CONFLICT"
    assert api.post(f"{path}/rollback").json["version"] == 2
    assert api.post(f"{path}/promote", {"version": None}).json["promotedVersion"] is None
    audited = replace(api, token=tokens.make(ADMIN)).get("/api/audit", object="promoted").json["entries"]
    (row,) = [row for row in audited if row["reason"] == "slow"]
    assert (row["verb"], row["before"], row["after"]) == (
        "pipelines.promote",
        {"promoted": None},
        {"promoted": 1},
    )


@pytest.mark.parametrize(
    ("body", "status"), [({"version": 7}, 404), ({"version": 0}, 400), ({}, 400), ({"version": "x"}, 400)]
)
def test_what_is_no_version_is_not_promoted(api: Api, body: dict[str, Any], status: int) -> None:
    api.put("/api/pipelines/not-promoted", CHAIN)
    assert api.post("/api/pipelines/not-promoted/promote", body).status_code == status
    assert api.post("/api/pipelines/not-promoted/trigger", {"version": 7}).status_code == 404
    assert api.get("/api/pipelines/not-promoted").json["pipeline"]["promotedVersion"] is None


def test_a_trigger_chooses_the_queue_of_steps_that_name_none(api: Api, pipeline: str) -> None:
    body = {"input": {"folder": "/srv"}, "queue": "night"}
    run = api.post(f"/api/pipelines/{pipeline}/trigger", body).json["pipelineRunId"]
    first, *_ = api.get(f"/api/runs/{run}/task-runs").json["taskRuns"]
    [reason, *_] = api.get(f"/api/task-runs/{first['id']}/why").json["reasons"]
    assert reason["queue"].endswith("/night")
    for wrong in ("a/b", "#", "", 7):
        answer = api.post(f"/api/pipelines/{pipeline}/trigger", {**body, "queue": wrong})
        assert answer.status_code == 400
        assert answer.json["errors"][0]["field"] == "queue"


def test_a_trigger_requires_labels_of_the_workers(api: Api, pipeline: str) -> None:
    body = {"input": {"folder": "/srv"}, "requires": {"zone": "eu", "gpu": "a100"}}
    run = api.post(f"/api/pipelines/{pipeline}/trigger", body).json["pipelineRunId"]
    first, *_ = api.get(f"/api/runs/{run}/task-runs").json["taskRuns"]
    [reason, *_] = api.get(f"/api/task-runs/{first['id']}/why").json["reasons"]
    assert reason["queue"].endswith("+gpu=a100+zone=eu")
    assert "has gpu=a100, zone=eu" in reason["text"]
    queue = api.get(f"/api/queues/{reason['queue']}").json
    assert (queue["name"], queue["queued"], queue["workers"]) == ("default+gpu=a100+zone=eu", 1, 0)
    batch = {"runs": [body, {"requires": {"zone": ""}}]}
    assert api.post(f"/api/pipelines/{pipeline}/trigger/batch", batch).status_code == 400
    for wrong in ({}, {"zone": "a+b"}, {"zone": 1}, "zone=eu", {f"l{n}": "x" for n in range(7)}):
        answer = api.post(f"/api/pipelines/{pipeline}/trigger", {**body, "requires": wrong})
        assert answer.status_code == 400
        assert answer.json["errors"][0]["field"].startswith("requires")
