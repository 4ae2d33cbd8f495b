"""Services register over HTTP as the worker protocol has it; services and tasks are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Api

# What an unmodified Node SDK sends.
SDK_TASK = {
    "id": "shout",
    "codeHash": "0123456789abcdef",
    "allowedNext": [],
    "timeout": 300,
    "retries": 3,
    "retryBackoff": "exponential",
    "retryDelayMs": 1000,
    "maxRetryDelayMs": 86400000,
    "heartbeatIntervalMs": 60000,
    "concurrency": 0,
    "priority": 100,
    "idempotencyTTL": 86400,
}


def registration(*tasks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    given = {
        "serviceId": "node",
        "version": "1.0.0",
        "baseUrl": "http://localhost:4000",
        "tasks": list(tasks),
    }
    return given | changes


@pytest.mark.parametrize("path", ["/api/services", "/api/register"])
def test_a_node_worker_registers_on_either_path(worker: Api, api: Api, path: str) -> None:
    answer = worker.post(path, registration(SDK_TASK))
    assert answer.status_code == 200
    assert answer.json == {"success": True, "codeChanges": [], "orphanedTasks": []}
    service = api.get("/api/services/node").json["service"]
    assert (service["kind"], service["baseUrl"], service["taskCount"]) == ("http", "http://localhost:4000", 1)
    [task] = api.get("/api/services/node/tasks").json["tasks"]
    assert {name: task[name] for name in SDK_TASK} == SDK_TASK
    assert api.get("/api/tasks/shout").json["task"] == task


def test_an_http_worker_may_say_more_about_retries_and_rates(worker: Api, api: Api) -> None:
    more = {"retryMultiplier": 1.5, "retryJitter": 0.2, "retryOn": ["HTTP_503"], "rateLimit": "100/m"}
    tasks = [SDK_TASK | more | {"id": "careful"}, SDK_TASK | {"id": "careless"}]
    assert worker.post("/api/services", registration(*tasks, serviceId="retrying")).status_code == 200
    careful, careless = (api.get(f"/api/tasks/{id}").json["task"] for id in ("careful", "careless"))
    assert {name: careful[name] for name in more} == more
    usual = {"retryMultiplier": 2, "retryJitter": 0, "retryOn": None, "rateLimit": None}
    assert {name: careless[name] for name in more} == usual


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("retryMultiplier", 0.5, "greater than or equal to 1"),
        ("retryJitter", 2, "less than or equal to 1"),
        ("retryOn", [], "at least 1 item"),
        ("retryOn", ["a\0b"], "U+0000"),
        ("retryBackoff", "quadratic", "'fixed', 'linear' or 'exponential'"),
        ("rateLimit", "100/min", "per s, m, h or d, as 100/m"),
    ],
)
def test_a_wrong_retry_setting_is_named_with_what_is_expected(
    worker: Api, name: str, value: Any, expected: str
) -> None:
    answer = worker.post("/api/services", registration(SDK_TASK | {name: value}))
    assert answer.status_code == 400
    [error] = answer.json["errors"]
    assert name in error["field"]
    assert expected in error["message"] + error.get("expected", "")


def test_code_changes_and_orphans_are_answered(worker: Api, api: Api) -> None:
    tasks = [{"id": f"task-{name}", "codeHash": name * 16} for name in "ab"]
    worker.post("/api/services", registration(*tasks, serviceId="changing"))
    changed = {**tasks[0], "codeHash": "c" * 16}
    answer = worker.post("/api/services", registration(changed, serviceId="changing", version="2.0.0")).json
    assert answer["orphanedTasks"] == ["task-b"]
    change = {"taskId": "task-a", "oldHash": "a" * 16, "newHash": "c" * 16, "oldVersion": 1, "newVersion": 2}
    assert answer["codeChanges"] == [change]
    history = api.get("/api/tasks/task-a/history").json
    versions = [(each["codeVersion"], each["serviceVersion"]) for each in history["history"]]
    assert versions == [(2, "2.0.0"), (1, "1.0.0")]


def test_options_may_stand_under_config(worker: Api, api: Api) -> None:
    nested = {"taskId": "nested", "codeHash": "sha256:" + "9" * 64, "config": {"timeout": 5, "retries": 0}}
    assert worker.post("/api/services", registration(nested, serviceId="nesting")).status_code == 200
    task = api.get("/api/tasks/nested").json["task"]
    assert (task["timeout"], task["retries"], task["codeHash"]) == (5, 0, "9" * 64)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"serviceId": "no spaces"}, "serviceId"),
        ({"baseUrl": "ftp://host"}, "baseUrl"),
        ({"baseUrl": "http://user:password@host"}, "baseUrl"),
        ({"baseUrl": "http://host:99999"}, "baseUrl"),
        ({"baseUrl": "http://[1:2]/"}, "baseUrl"),
        ({"baseUrl": "http://host?query"}, "baseUrl"),
        ({"tasks": [{"id": "x"}]}, "tasks[0].codeHash"),
        ({"tasks": [{"id": "x", "codeHash": "xyz"}]}, "tasks[0].codeHash"),
        (
            {"tasks": [{"taskId": "x", "codeHash": "0" * 16, "config": {"timeout": 0}}]},
            "tasks[0].config.timeout",
        ),
        ({"tasks": [{"id": "x", "codeHash": "0" * 16, "retrys": 1}]}, "tasks[0].retrys"),
        ({"tasks": [{"id": "x", "codeHash": "0" * 16}] * 2}, "tasks[1].id"),
        (
            {"tasks": [{"id": "x", "codeHash": "0" * 16, "inputSchema": {"fields": [{"name": "a"}]}}]},
            "tasks[0].inputSchema.fields[0].type",
        ),
    ],
)
def test_a_wrong_registration_names_the_field(
    worker: Api, api: Api, changes: dict[str, Any], field: str
) -> None:
    answer = worker.post("/api/services", registration(serviceId="wrong") | changes)
    assert answer.status_code == 400
    assert field in [each["field"] for each in answer.json["errors"]]
    assert api.get("/api/services/wrong").status_code == 404


def test_a_task_is_not_taken_from_another_service(worker: Api, api: Api) -> None:
    stolen = {"id": "count", "codeHash": "f" * 16}
    answer = worker.post("/api/services", registration(stolen, serviceId="thief"))
    assert (answer.status_code, answer.json["code"]) == (409, "TASK_OWNED_ELSEWHERE")
    assert api.get("/api/tasks/count").json["task"]["serviceId"] == "files"


def test_an_input_schema_is_shown_and_checks_inputs(api: Api) -> None:
    shown = api.get("/api/tasks/send-mail/input-schema").json
    assert (shown["taskId"], shown["hasSchema"]) == ("send-mail", True)
    assert shown["schema"]["fields"][0]["name"] == "to"
    assert api.get("/api/tasks/count/input-schema").json == {
        "taskId": "count",
        "hasSchema": False,
        "schema": None,
    }
    path = "/api/tasks/send-mail/validate-input"
    assert api.post(path, {"input": {"to": "a@example.com"}}).json == {"valid": True, "errors": []}
    wrong = api.post(path, {"input": {}}).json
    assert (wrong["valid"], [each["field"] for each in wrong["errors"]]) == (False, ["to"])
    assert api.post("/api/tasks/count/validate-input", {"input": None}).json["valid"] is True
    missing = api.post(path, {})
    assert (missing.status_code, missing.json["errors"][0]["field"]) == (400, "input")


def test_the_hints_of_a_python_task_check_inputs_too(worker: Api, api: Api) -> None:
    fields = [{"name": "path", "label": "Path", "type": "string", "required": True}]
    typed = {"id": "typed", "codeHash": "e" * 64, "parameters": {"fields": fields, "strict": True}}
    assert worker.post("/api/services", registration(typed, serviceId="typed")).status_code == 200
    shown = api.get("/api/tasks/typed/input-schema").json
    assert (shown["hasSchema"], shown["schema"]["fields"]) == (True, fields)
    assert api.get("/api/tasks/typed").json["task"]["hasInputSchema"] is True
    wrong = api.post("/api/tasks/typed/validate-input", {"input": {"path": 7}}).json
    assert (wrong["valid"], [each["field"] for each in wrong["errors"]]) == (False, ["path"])
    assert api.post("/api/tasks/typed/validate-input", {"input": {"path": "a", "more": 1}}).json["valid"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/services/nobody",
        "/api/services/nobody/tasks",
        "/api/tasks/nobody",
        "/api/tasks/nobody/history",
        "/api/tasks/nobody/input-schema",
    ],
)
def test_an_unregistered_name_is_not_found(api: Api, path: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")
