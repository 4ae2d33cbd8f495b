"""A service with several instances loses one, loses all, and gets them back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.http_service import NO_REPORT, Dispatch, http_service
from support.live_stack import LiveStack

from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.up.ports import free_port


@pytest.fixture
def document() -> Iterator[dict[str, Any]]:
    yield {"id": "pooled", "steps": [{"task": "pooled"}]}


def test_an_instance_that_is_gone_is_passed_over(
    http_stack: LiveStack, orchestrator_url: str, secret: str, document: dict[str, Any]
) -> None:
    tasks = {"pooled": lambda _: 1}
    with http_service(orchestrator_url, secret, tasks, service_id="pooled") as left:
        with http_service(orchestrator_url, secret, tasks, service_id="pooled") as gone:
            left.register()
            gone.register()
        for _ in range(8):
            run = http_stack.ran(document)
            assert (run.status, http_stack.task_runs(run.id)[0].attempt) == ("completed", 1)
    statuses = {row.base_url: row.set_aside_at is None for row in _instances(http_stack, "pooled")}
    assert statuses == {left.url: True, gone.url: False}


def test_a_service_that_was_down_takes_dispatches_again(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    port = free_port()
    tasks = {"down": lambda _: "up again"}
    with http_service(orchestrator_url, secret, tasks, service_id="down", port=port) as service:
        service.register(retries=20, retryDelayMs=200)
    http_stack.store({"id": "down", "steps": [{"task": "down"}]})
    run_id = http_stack.trigger("down")
    http_stack.until(lambda: len(http_stack.attempts(run_id)) >= 1, "nothing was tried")
    assert {each.error_code for each in http_stack.attempts(run_id)} == {"DISPATCH_FAILED"}
    http_stack.until(lambda: _status(http_stack, "down") == "disconnected", "it was not set aside")
    with http_service(orchestrator_url, secret, tasks, service_id="down", port=port):
        assert http_stack.finished(run_id).status == "completed"
        http_stack.until(lambda: _status(http_stack, "down") == "active", "no probe found it")


def test_a_service_that_hangs_is_given_up_after_five_seconds(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    is_over = threading.Event()

    def hang(_: Dispatch) -> None:
        is_over.wait(60)

    with http_service(
        orchestrator_url, secret, {"hangs": lambda _: NO_REPORT}, service_id="hanging"
    ) as service:
        service.answer = hang
        service.register(retries=0)
        run = http_stack.ran({"id": "hanging", "steps": [{"task": "hangs"}]})
        is_over.set()
    [letter] = http_stack.dead_letters(run.id)
    assert (letter.error_code, letter.status) == ("TIMEOUT", "timeout")


def test_an_attempt_that_says_nothing_is_tried_again(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    def silent_once(dispatch: Dispatch) -> object:
        return NO_REPORT if dispatch.body["attempt"] == 1 else "second"

    with http_service(orchestrator_url, secret, {"silent": silent_once}, service_id="silent") as service:
        service.register(heartbeatIntervalMs=500)
        run = http_stack.ran({"id": "silent", "steps": [{"task": "silent"}]})
    [attempt] = http_stack.attempts(run.id)
    assert (run.status, attempt.error_code) == ("completed", "HEARTBEAT_LOST")
    assert service.dispatches[1].body["previousAttempts"][0]["errorCode"] == "TIMEOUT"


def test_an_attempt_that_takes_too_long_is_ended(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    with http_service(orchestrator_url, secret, {"slow": lambda _: NO_REPORT}, service_id="slow") as service:
        service.register(timeout=1, retries=0)
        run = http_stack.ran({"id": "slow", "steps": [{"task": "slow"}]})
        [dispatch] = service.dispatches
        status, problem = dispatch.succeed("late")
    assert (status, problem["code"]) == (409, "STALE_REPORT")
    [letter] = http_stack.dead_letters(run.id)
    assert (letter.error_code, letter.status) == ("TIMEOUT", "timeout")


def test_a_cancelled_run_tells_its_worker(http_stack: LiveStack, orchestrator_url: str, secret: str) -> None:
    with http_service(orchestrator_url, secret, {"long": lambda _: NO_REPORT}, service_id="long") as service:
        service.register()
        http_stack.store({"id": "long", "steps": [{"task": "long"}]})
        run_id = http_stack.trigger("long")
        http_stack.until(lambda: bool(service.of("long")), "it was not dispatched")
        http_stack.cancel(run_id)
        [dispatch] = service.of("long")
        assert service.heartbeat(dispatch.run_id)[1] == {"acknowledged": False, "shouldCancel": True}
        assert dispatch.succeed("late")[0] == 409
    assert http_stack.finished(run_id).status == "cancelled"


def test_one_of_two_task_runs_with_a_key_is_dispatched(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    with http_service(orchestrator_url, secret, {"keyed": lambda _: "once"}, service_id="keyed") as service:
        service.register()
        request = QueueRequest("keyed", {}, idempotency_key="order-1")
        [first] = http_stack.enqueue(request)
        http_stack.finished(_run_of(http_stack, first))
        [second] = http_stack.enqueue(request)
    assert len(service.dispatches) == 1
    assert second.task_run_id == first.task_run_id


def test_a_limit_holds_for_what_services_run(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    most, running = 0, 0
    lock, is_crowded = threading.Lock(), threading.Event()

    def counted(_: Dispatch) -> int:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
            if running > 1:
                is_crowded.set()
        # The first waits for the second: both are there at once.
        is_crowded.wait(60)
        with lock:
            running -= 1
        return 1

    with http_service(orchestrator_url, secret, {"two-at-once": counted}, service_id="limited") as service:
        service.register(concurrency=2)
        steps = [{"id": "all", "task": "two-at-once", "map": "${input}"}]
        run = http_stack.ran({"id": "limited", "steps": steps}, list(range(12)))
    assert run.status == "completed"
    assert most == 2


def _run_of(stack: LiveStack, queued: Any) -> Any:
    return stack.rows("SELECT run_id FROM task_runs WHERE id = :id", id=queued.task_run_id)[0].run_id


def _instances(stack: LiveStack, service: str) -> list[Any]:
    return stack.rows("SELECT * FROM service_instances WHERE service_id = :id", id=service)


def _status(stack: LiveStack, service: str) -> str:
    return str(stack.rows("SELECT status FROM services WHERE id = :id", id=service)[0].status)
