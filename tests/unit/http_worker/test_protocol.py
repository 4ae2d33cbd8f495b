"""What an HTTP worker answers, how it registers, and what it does when its orchestrator is away."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from support.fake_orchestrator import SECRET, FakeOrchestrator, Serve

from pipeweave import Context, HttpWorker, PipeWeaveError, task
from pipeweave.errors import AttemptCancelled, InvalidInput, InvalidSetting, PortInUse
from pipeweave.http_worker import registrar, reports


@task
def nothing() -> None:
    pass


class Gate:
    """A task that waits until the test opens the gate."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.opened = threading.Event()
        self.calls = 0

        @task
        def wait(ctx: Context) -> bool:
            self.calls += 1
            self.began.set()
            assert self.opened.wait(20)
            return ctx.is_cancelled

        self.task = wait


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Gate:
    found = Gate()
    request.addfinalizer(found.opened.set)
    return found


# --- registration -----------------------------------------------------------------------------------------


def test_a_worker_registers_what_it_serves(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    worker = serve(nothing, version="7")
    (body,) = orchestrator.registrations
    tasks = body.pop("tasks")
    assert body == {
        "serviceId": "shop",
        "version": "7",
        "baseUrl": f"http://127.0.0.1:{worker.port}",
        "tokenFormat": "pbkdf2",
        "storageAccess": "urls",
    }
    assert [each["id"] for each in tasks] == ["nothing"]
    assert orchestrator.headers[0]["Authorization"] == "Bearer pw_secret"
    assert orchestrator.headers[0]["X-Tenant"] == "default"


def test_a_refused_registration_is_an_error_that_says_why(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    problem = {"code": "FORBIDDEN", "detail": "the token may only read"}
    orchestrator.answers["register"] = [(403, problem)]
    with pytest.raises(PipeWeaveError, match="FORBIDDEN: the token may only read") as raised:
        serve(nothing)
    assert raised.value.hint == "the token needs scope orchestrator:worker"


def test_a_registration_is_tried_again_while_the_orchestrator_is_away(
    orchestrator: FakeOrchestrator, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "FIRST_PAUSE_S", 0.01)
    orchestrator.answers["register"] = [(503, None), (500, None)]
    serve(nothing)
    orchestrator.wait(lambda: orchestrator.registrations)


def test_a_worker_that_is_not_known_registers_again(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(nothing)
    orchestrator.answers["complete"] = [(404, {"code": "NOT_FOUND"})]
    orchestrator.dispatch("nothing")
    orchestrator.wait(lambda: len(orchestrator.registrations) == 2)


def test_a_token_in_the_url_is_never_shown(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    worker = HttpWorker("shop", f"{orchestrator.url}/w/default/pw_token", SECRET, tasks=[nothing], port=0)
    assert "pw_token" not in worker._link.shown_url
    worker.stop()


def test_a_worker_without_a_secret_says_so(orchestrator: FakeOrchestrator) -> None:
    with pytest.raises(InvalidSetting, match="PIPEWEAVE_SECRET_KEY is not set"):
        HttpWorker("shop", orchestrator.url, tasks=[nothing])


def test_a_port_that_is_taken_is_an_error(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    worker = serve(nothing)
    with pytest.raises(PortInUse, match=str(worker.port)):
        HttpWorker("shop", orchestrator.url, SECRET, tasks=[nothing], host="127.0.0.1", port=worker.port)


def test_wrong_arguments_are_refused(orchestrator: FakeOrchestrator) -> None:
    with pytest.raises(InvalidInput) as raised:
        HttpWorker("shop", orchestrator.url, SECRET, tasks=[nothing], concurrency=0, storage_access="x")  # type: ignore[arg-type]
    assert [each.field for each in raised.value.errors] == ["storage_access", "concurrency"]


# --- answers ----------------------------------------------------------------------------------------------


def test_health_says_what_the_worker_does(orchestrator: FakeOrchestrator, serve: Serve, gate: Gate) -> None:
    serve(gate.task, version="1")
    orchestrator.dispatch("wait")
    assert orchestrator.request("GET", "/health") == (
        200,
        {
            "status": "healthy",
            "service": "shop",
            "version": "1",
            "tasks": ["wait"],
            "running": 1,
            "capacity": 4,
        },
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/tasks/", 404),
        ("POST", "/tasks/a/b", 404),
        ("GET", "/tasks/nothing", 405),
        ("POST", "/health", 405),
    ],
)
def test_other_requests_are_refused(
    orchestrator: FakeOrchestrator, serve: Serve, method: str, path: str, status: int
) -> None:
    serve(nothing)
    assert orchestrator.request(method, path)[0] == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'"text"',
        {},
        {"runId": 3, "inputPath": "a"},
        {"runId": "../../etc", "inputPath": "a"},
        {"runId": "r", "inputPath": "a", "upstreamRefs": []},
        {"runId": "r", "inputPath": "a", "timeout": "soon"},
        {"runId": "r", "inputPath": "a", "attempt": True},
    ],
)
def test_a_malformed_dispatch_is_refused_and_the_worker_lives_on(
    orchestrator: FakeOrchestrator, serve: Serve, body: Any
) -> None:
    serve(nothing)
    status, problem = orchestrator.post("/tasks/nothing", body)
    assert status == 400
    assert problem["code"] in ("INVALID_INPUT", "MALFORMED_JSON")
    assert orchestrator.dispatch("nothing")[0] == 202


def test_an_unknown_task_is_not_found(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(nothing)
    assert orchestrator.dispatch("other")[0] == 404


def test_a_dispatch_that_is_too_large_is_refused(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(nothing)
    assert orchestrator.post("/tasks/nothing", b" " * 10_000_001)[0] == 413


@pytest.mark.parametrize(("secret", "age_s"), [(None, 0), ("another", 0), (SECRET, 301), (SECRET, -301)])
def test_only_the_orchestrator_dispatches(
    orchestrator: FakeOrchestrator, serve: Serve, secret: str | None, age_s: int
) -> None:
    serve(nothing)
    body = {"runId": "r", "inputPath": "a"}
    status, problem = orchestrator.post("/tasks/nothing", body, secret, time.time() - age_s)
    assert (status, problem["code"]) == (401, "UNAUTHENTICATED")
    assert orchestrator.count("complete") == 0


def test_a_worker_behind_a_proxy_checks_the_path_that_was_signed(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    from pipeweave.signatures import HEADER, sign

    worker = serve(nothing, base_url="http://proxy/shop")
    body = json.dumps({"runId": "r", "inputPath": "a"}).encode()
    orchestrator.registrations[-1]["baseUrl"] = f"http://127.0.0.1:{worker.port}"
    header = {HEADER: sign(SECRET, int(time.time()), "/shop/tasks/nothing", body)}
    assert orchestrator.request("POST", "/tasks/nothing", body, header)[0] == 202


def test_a_worker_that_verifies_nothing_takes_every_dispatch(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    serve(nothing, verify=False)
    assert orchestrator.post("/tasks/nothing", {"runId": "r", "inputPath": "a"}, None)[0] == 202


def test_a_dispatch_that_comes_twice_is_executed_once(
    orchestrator: FakeOrchestrator, serve: Serve, gate: Gate
) -> None:
    serve(gate.task)
    assert orchestrator.dispatch("wait")[0] == 202
    assert orchestrator.dispatch("wait")[1]["isRepeated"] is True
    gate.opened.set()
    orchestrator.report()
    assert orchestrator.dispatch("wait")[0] == 202
    assert gate.calls == 1


def test_a_worker_takes_no_more_than_it_may(orchestrator: FakeOrchestrator, serve: Serve, gate: Gate) -> None:
    serve(gate.task, concurrency=1)
    orchestrator.dispatch("wait")
    status, problem = orchestrator.dispatch("wait", "trun_2.1.mac")
    assert (status, problem["status"]) == (429, 429)


# --- heartbeats, cancellation, time limit -----------------------------------------------------------------


def test_heartbeats_are_sent_from_the_beginning(
    orchestrator: FakeOrchestrator, serve: Serve, gate: Gate
) -> None:
    serve(gate.task)
    orchestrator.dispatch("wait", heartbeatIntervalMs=100)
    orchestrator.wait(lambda: orchestrator.count("heartbeat") >= 2)


def test_an_attempt_learns_that_it_is_cancelled(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def work(ctx: Context) -> None:
        while not ctx.is_cancelled:
            time.sleep(0.01)
        ctx.progress(50)

    serve(work)
    orchestrator.answers["heartbeat"] = [(200, {"acknowledged": True, "shouldCancel": True})]
    orchestrator.dispatch("work", heartbeatIntervalMs=100)
    assert orchestrator.report()["errorCode"] == AttemptCancelled.code


def test_progress_is_sent_and_learns_of_a_cancellation(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def work(ctx: Context) -> None:
        ctx.progress(10, "begun")

    serve(work)
    orchestrator.answers["heartbeat"] = [(409, {"code": "STALE_REPORT"})]
    orchestrator.dispatch("work")
    assert orchestrator.report()["errorCode"] == "CANCELLED"
    assert ("refused heartbeat", "trun_1.1.mac", {"progress": 10, "message": "begun"}) in orchestrator.asked


def test_an_attempt_that_exceeds_its_time_limit_is_reported_at_once(
    orchestrator: FakeOrchestrator, serve: Serve, gate: Gate
) -> None:
    serve(gate.task)
    orchestrator.dispatch("wait", timeout=0.2)
    report = orchestrator.report()
    assert (report["errorCode"], report["retryable"]) == ("TIMEOUT", True)
    assert report["details"] == {"timeoutMs": 200}
    gate.opened.set()
    orchestrator.wait(lambda: orchestrator.request("GET", "/health")[1]["running"] == 0 or None)
    assert len(orchestrator.reports()) == 1


# --- reports ----------------------------------------------------------------------------------------------


def test_a_report_is_sent_until_it_is_durable(
    orchestrator: FakeOrchestrator, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "FIRST_PAUSE_S", 0.01)
    serve(nothing)
    orchestrator.answers["complete"] = [(500, None), (503, {}), (429, {})]
    orchestrator.dispatch("nothing")
    assert orchestrator.report()["status"] == "success"
    assert orchestrator.count("refused complete") == 3


def test_a_report_that_is_late_is_dropped(
    orchestrator: FakeOrchestrator, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    serve(nothing)
    orchestrator.answers["complete"] = [(409, {"code": "STALE_REPORT", "detail": "it is over"})]
    orchestrator.dispatch("nothing")
    orchestrator.wait(lambda: orchestrator.request("GET", "/health")[1]["running"] == 0 or None)
    assert orchestrator.reports() == []
    assert [each.reason for each in caplog.records if each.message == "report.dropped"] == [  # type: ignore[attr-defined]
        "STALE_REPORT: it is over"
    ]


def test_a_result_that_is_refused_fails_the_attempt(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(nothing)
    orchestrator.answers["complete"] = [(400, {"code": "INVALID_INPUT", "detail": "too deep"})]
    orchestrator.dispatch("nothing")
    report = orchestrator.report()
    assert (report["status"], report["errorCode"]) == ("failed", "INVALID_RESULT")


# --- stopping ---------------------------------------------------------------------------------------------


def test_a_worker_that_stops_ends_its_attempts_and_leaves(
    orchestrator: FakeOrchestrator, serve: Serve, gate: Gate
) -> None:
    worker = serve(gate.task)
    orchestrator.dispatch("wait")
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    orchestrator.wait(lambda: orchestrator.count("leave"))
    assert ("leave", worker.base_url, None) in orchestrator.asked
    assert orchestrator.dispatch("wait", "trun_2.1.mac")[0] == 503
    gate.opened.set()
    stopping.join(20)
    assert orchestrator.reports()[0]["status"] == "success"


def test_an_attempt_that_does_not_end_in_time_is_given_back(
    orchestrator: FakeOrchestrator, serve: Serve, gate: Gate
) -> None:
    worker = serve(gate.task, grace_s=0.1)
    orchestrator.dispatch("wait")
    worker.stop()
    assert orchestrator.reports()[0]["errorCode"] == "WORKER_STOPPED"
