"""HTTP workers by HTTP: where they may listen, and what they may report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from pipeweave import dispatch_ids, ids
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.state import claiming

if TYPE_CHECKING:
    from conftest import Api

TASK = {
    "id": "print-label",
    "codeHash": "0" * 16,
    "retries": 1,
    "retryDelayMs": 60_000,
    "allowedNext": ["send-label"],
}
SERVICE = {"serviceId": "labels", "version": "1", "baseUrl": "http://localhost:4001", "tasks": [TASK]}


@dataclass(frozen=True)
class Attempt:
    """An attempt that a service works on.

    Args:
        id: its dispatch id.
        number: which attempt of the task run it is.
    """

    id: str
    number: int
    task_run: UUID
    deployment: Deployment

    @property
    def folder(self) -> str:
        return f"runs/{self.id}"

    def row(self) -> Any:
        with self.deployment.database.transaction() as tx:
            found = tx.execute("SELECT * FROM task_runs WHERE id = :id", {"id": self.task_run})
            return found.one()

    def put(self, name: str, content: bytes) -> str:
        """Store an object as the service does; its path."""
        path = f"{self.folder}/{name}"
        self.deployment.values.backends.default.put(path, content)
        return path


@pytest.fixture
def attempt(worker: Api, api: Api, deployment: Deployment) -> Iterator[Attempt]:
    """An attempt of a standalone task, running."""
    assert worker.post("/api/services", SERVICE).status_code == 200
    queued = api.post("/api/queue/task", {"taskId": "print-label", "input": {"n": 1}})
    assert queued.status_code == 200, queued.json
    task_run = ids.read(ids.TASK_RUN, queued.json["runId"])
    with deployment.database.transaction() as tx:
        [claimed] = claiming.start(
            tx, ids.run_id_of(task_run), [ids.ordinal_of(task_run)], 1, worker="worker@host:1:ab"
        )
    secret = str(deployment.settings.secret_key)
    yield Attempt(dispatch_ids.make(secret, task_run, 1), 1, claimed.id, deployment)


# --- where they listen ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:4000", "http://169.254.169.254", "http://[fd00::1]:80", "http://0.0.0.0:80"]
)
def test_a_base_url_that_points_inside_is_refused(worker: Api, api: Api, url: str) -> None:
    answer = worker.post("/api/services", SERVICE | {"serviceId": "inside", "baseUrl": url})
    assert (answer.status_code, answer.json["code"]) == (400, "TARGET_REFUSED")
    assert answer.json["errors"][0]["field"] == "baseUrl"
    assert "DISPATCH_NETWORKS" in answer.json["hint"]
    assert api.get("/api/services/inside").status_code == 404


def test_an_operator_says_where_dispatches_go(worker: Api, api: Api) -> None:
    worker.post("/api/services", SERVICE)
    path = "/api/services/labels/settings"
    moved = api.put(path, {"baseUrl": "http://127.0.0.1:5000"})
    assert (moved.status_code, moved.json["service"]["baseUrl"]) == (200, "http://127.0.0.1:5000")
    worker.post("/api/services", SERVICE | {"version": "2"})
    assert api.get("/api/services/labels").json["service"]["baseUrl"] == "http://127.0.0.1:5000"
    assert api.put(path, {"baseUrl": "registered"}).status_code == 200
    worker.post("/api/services", SERVICE | {"version": "3"})
    assert api.get("/api/services/labels").json["service"]["baseUrl"] == "http://localhost:4001"


def test_wrong_settings_of_a_service_are_refused(worker: Api, api: Api) -> None:
    worker.post("/api/services", SERVICE)
    inside = api.put("/api/services/labels/settings", {"baseUrl": "http://10.0.0.1:1"})
    assert (inside.status_code, inside.json["code"]) == (400, "TARGET_REFUSED")
    assert api.put("/api/services/nobody/settings", {"isDisabled": True}).status_code == 404
    celery = api.put("/api/services/files/settings", {"isDisabled": True})
    assert (celery.status_code, celery.json["code"]) == (409, "CONFLICT")


def test_an_instance_that_stops_takes_itself_away(worker: Api, api: Api) -> None:
    worker.post("/api/services", SERVICE | {"serviceId": "stopping", "tasks": []})
    path = "/api/services/stopping/instances?baseUrl=http://localhost:4001"
    assert worker.delete(path).status_code == 200
    assert api.get("/api/services/stopping").json["service"]["status"] == "inactive"
    assert worker.delete(path).status_code == 404


# --- reports ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/task-runs/{}/complete", "/api/callback/{}"])
def test_a_result_may_come_in_the_report(api: Api, attempt: Attempt, path: str) -> None:
    report = {"status": "success", "output": {"label": 7}, "unknownMember": 1}
    answer = api.http.post(path.format(attempt.id), json=report)
    assert answer.status_code == 200
    assert answer.json == {"acknowledged": True, "isRepeated": False, "retrying": False}
    assert (attempt.row().status, attempt.row().output) == ("completed", {"label": 7})


def test_a_stored_result_is_read_and_kept(api: Api, attempt: Attempt) -> None:
    large = {"text": "x" * 5_000_000}
    path = attempt.put("output.json", json.dumps(large).encode())
    logs = attempt.put("logs.jsonl", b"{}")
    answer = api.http.post(
        f"/api/task-runs/{attempt.id}/complete",
        json={"status": "success", "outputPath": path, "outputSize": 12, "logsPath": logs, "assets": {}},
    )
    assert answer.status_code == 200
    row = attempt.row()
    digest = hashlib.sha256(json.dumps(large).encode()).hexdigest()
    where = f"local//artifacts/sha256/{digest[:2]}/{digest}"
    assert (row.output, row.output_path, row.output_size) == (None, where, len(json.dumps(large)))
    assert row.logs_path == f"local//{logs}"


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b"1e999"])
def test_a_stored_result_that_cannot_be_used_fails_the_attempt(
    api: Api, attempt: Attempt, content: bytes | None
) -> None:
    path = f"{attempt.folder}/output.json"
    if content is not None:
        attempt.put("output.json", content)
    answer = api.http.post(
        f"/api/task-runs/{attempt.id}/complete", json={"status": "success", "outputPath": path}
    )
    assert (answer.status_code, answer.json["code"]) == (422, "INVALID_REPORT")
    assert attempt.row().status in ("pending", "failed")


@pytest.mark.parametrize(
    ("report", "field"),
    [
        ({"status": "success"}, ""),
        ({"status": "done"}, "status"),
        ({"status": "success", "outputPath": "runs/other/output.json"}, "outputPath"),
        ({"status": "success", "outputPath": "../../etc/passwd"}, "outputPath"),
        ({"status": "success", "output": 1, "logsPath": "/etc/passwd"}, "logsPath"),
        ({"status": "success", "output": 1, "assets": {"a": {"path": "b", "size": 1, "type": "text"}}},
         "assets.a.path"),
        ({"status": "success", "output": 1, "assets": {"../a": {"path": "b", "size": 1, "type": "text"}}},
         "assets"),
        ({"status": "success", "output": 1, "assets": {"a": {"path": "b", "size": -1, "type": "text"}}},
         "assets.a.size"),
        ({"status": "failed", "retryable": "no"}, "retryable"),
    ],
)  # fmt: skip
def test_a_wrong_report_names_the_field_and_changes_nothing(
    api: Api, attempt: Attempt, report: dict[str, Any], field: str
) -> None:
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert answer.status_code == 400
    assert field in [each["field"] for each in answer.json["errors"]]
    assert attempt.row().status == "running"


def test_a_standalone_task_may_choose_what_would_follow_it_in_its_pipeline(
    api: Api, attempt: Attempt
) -> None:
    report = {"status": "success", "output": 1, "selectedNext": ["send-label"]}
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert answer.status_code == 200
    assert (attempt.row().status, attempt.row().selected_next) == ("completed", ["send-label"])


def test_a_standalone_task_may_not_choose_anything_else(api: Api, attempt: Attempt) -> None:
    report = {"status": "success", "output": 1, "selectedNext": ["send-lable"]}
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert answer.status_code == 422
    assert "its successors are send-label" in answer.json["detail"]
    assert (attempt.row().status, attempt.row().error_code) == ("failed", "INVALID_NEXT_TASKS")


@pytest.mark.parametrize("progress", [-1, 101, "40"])
def test_a_progress_that_is_no_percentage_is_refused(api: Api, attempt: Attempt, progress: Any) -> None:
    answer = api.http.post(f"/api/task-runs/{attempt.id}/heartbeat", json={"progress": progress})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "progress")
    assert attempt.row().progress is None


def test_a_heartbeat_needs_no_body(api: Api, attempt: Attempt) -> None:
    answer = api.http.post(f"/api/task-runs/{attempt.id}/heartbeat")
    assert answer.json == {"acknowledged": True, "shouldCancel": False}


FORGED = "trun_00000000000000000000000000.1.AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("forged", [FORGED, "x", "trun_1"])
def test_a_run_id_that_was_not_dispatched_is_refused(api: Api, forged: str) -> None:
    answer = api.http.post(f"/api/task-runs/{forged}/complete", json={"status": "failed"})
    assert (answer.status_code, answer.json["code"]) == (401, "UNAUTHENTICATED")


def test_a_failure_is_tried_again_unless_the_worker_says_no(api: Api, attempt: Attempt) -> None:
    said = {"error": "jam", "errorCode": "JAM", "stack": "at line 1", "details": {"n": 1}}
    report = {"status": "failed", **said}
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert answer.json["retrying"] is True
    row = attempt.row()
    assert (row.status, row.attempt) == ("pending", 2)
    again = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert again.json == {"acknowledged": True, "isRepeated": True, "retrying": True}
    assert attempt.row().attempt == 2


def test_the_attempt_of_a_worker_that_stopped_is_tried_again_at_once(api: Api, attempt: Attempt) -> None:
    report = {"status": "failed", "error": "it stopped", "errorCode": "WORKER_STOPPED"}
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert answer.json["retrying"] is True
    assert (attempt.row().status, attempt.row().attempt) == ("queued", 2)


def test_a_failure_that_is_final_is_a_dead_letter(api: Api, attempt: Attempt) -> None:
    report = {"status": "failed", "error": "no paper", "errorCode": "PAPER", "retryable": False}
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
    assert (answer.status_code, answer.json["retrying"]) == (200, False)
    assert (attempt.row().status, attempt.row().error_code) == ("failed", "PAPER")


def test_a_report_while_storage_is_away_can_be_sent_again(
    api: Api, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = attempt.put("output.json", b"7")
    report = {"status": "success", "outputPath": path}
    storage = attempt.deployment.values.backends.default

    def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("storage is away")

    with monkeypatch.context() as broken:
        broken.setattr(storage, "get", away)
        answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report)
        assert (answer.status_code, attempt.row().status) == (503, "running")
    assert api.http.post(f"/api/task-runs/{attempt.id}/complete", json=report).status_code == 200
    assert attempt.row().output == 7


def test_urls_are_for_services_that_asked_for_them(api: Api, attempt: Attempt) -> None:
    answer = api.http.post(f"/api/task-runs/{attempt.id}/urls", json={"put": ["a"]})
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")
    assert "storageAccess" in answer.json["hint"]


# --- paths with a token -----------------------------------------------------------------------------------


def test_a_path_with_a_token_reaches_what_workers_call(api: Api, worker: Api) -> None:
    below = f"/w/{worker.tenant}/{worker.token}"
    assert api.http.post(f"{below}/api/register", json=SERVICE).status_code == 200
    assert api.http.get(f"{below}/api/services").status_code == 404
    assert api.http.post(f"/w/{worker.tenant}/pw_wrong/api/register", json=SERVICE).status_code == 401
    assert api.http.post(f"/w/other-tenant/{worker.token}/api/register", json=SERVICE).status_code == 404


def test_a_path_with_a_token_has_one_spelling(api: Api, worker: Api) -> None:
    path = f"/w/{worker.tenant}/{worker.token}/api/register"
    for spelling in (path.replace("api/", "api/%72", 1).replace("%72r", "%72"), path.replace("/w/", "/%77/")):
        # As gunicorn gives it; the test's client would tidy it up.
        given = {"RAW_URI": spelling, "PATH_INFO": path}
        answer = api.http.post("/", json=SERVICE, environ_overrides=given)
        assert answer.status_code == 404
        assert worker.token not in answer.text


@pytest.mark.parametrize(
    "path", ["ui/default/runs", "ui/login", "ui/", "docs", "", "//ui/default/runs", "api"]
)
def test_a_path_with_a_token_shows_no_page(api: Api, path: str) -> None:
    """Whatever its token may: it would be shown with the rights of that token."""
    answer = api.http.get(f"/w/{api.tenant}/{api.token}/{path}")
    assert answer.status_code == 404
    assert api.token not in answer.text


def test_a_path_with_a_token_never_comes_back_in_an_answer(api: Api, worker: Api) -> None:
    answer = api.http.get(f"/w/{worker.tenant}/{worker.token}/api/no//such")
    assert answer.status_code == 404
    assert worker.token not in answer.text


# --- work that goes on elsewhere --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ({"callbackUrl": True, "timeoutMs": 5_000}, "callback"),
        ({"pollUrl": "https://jobs.example/7"}, "poll"),
    ],
)
def test_a_pending_attempt_waits_without_heartbeats(
    api: Api, attempt: Attempt, wanted: dict[str, Any], kind: str
) -> None:
    path = f"/api/task-runs/{attempt.id}/complete"
    answer = api.http.post(path, json={"status": "pending", **wanted})
    assert (answer.status_code, answer.json["isRepeated"]) == (200, False)
    assert attempt.row().status == "waiting"
    with attempt.deployment.database.transaction() as tx:
        wait = tx.execute("SELECT * FROM waits WHERE task_run_id = :id", {"id": attempt.task_run}).one()
    assert (wait.kind, wait.attempt) == (kind, 1)
    assert api.http.post(path, json={"status": "pending", **wanted}).json["isRepeated"]
    beat = api.http.post(f"/api/task-runs/{attempt.id}/heartbeat", json={})
    assert beat.json == {"acknowledged": False, "shouldCancel": True}
    late = api.http.post(path, json={"status": "success", "output": 1})
    assert (late.status_code, late.json["code"]) == (409, "STALE_REPORT")
    assert attempt.row().status == "waiting"


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"pollUrl": 7},
        {"pollUrl": "https://a/", "intervalMs": 10},
        {"callbackUrl": True, "selectedNext": []},
    ],
)
def test_a_pending_attempt_that_does_not_say_what_it_waits_for_has_failed(
    api: Api, attempt: Attempt, wanted: dict[str, Any]
) -> None:
    answer = api.http.post(f"/api/task-runs/{attempt.id}/complete", json={"status": "pending", **wanted})
    assert (answer.status_code, answer.json["failureCode"]) == (422, "INVALID_ASYNC_RESULT")
    assert attempt.row().status == "failed"
