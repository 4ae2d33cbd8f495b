"""kill -9 of the service, of the worker that dispatches and of the API, in every phase of a dispatch.

A run goes on from each of them, and nothing is done twice that was recorded once.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

from support.api_server import Server
from support.crash_checks import check_completed_once
from support.http_service import NO_REPORT, HttpService, http_service
from support.live_stack import LiveStack

from pipeweave.orchestrator.dispatch.serverless import BEATING
from pipeweave.orchestrator.recovery.lost_attempts import DISPATCHING
from pipeweave.up.ports import free_port


def the_only(stack: LiveStack, run_id: UUID) -> Any:
    [task_run] = stack.task_runs(run_id)
    return task_run


def single(stack: LiveStack, task: str) -> UUID:
    stack.store({"id": task, "steps": [{"task": task}]})
    return stack.trigger(task)


# --- the worker that dispatches -----------------------------------------------------------------------


def test_killed_before_the_request_leaves(stack: LiveStack, url: str, secret: str) -> None:
    """It has claimed the task run, and reads where the instances of the service are."""
    with http_service(url, secret, {"unsent": lambda _: 1}, service_id="unsent") as service:
        service.register()
        worker = stack.start_worker("steps.py", concurrency=1)
        with stack.deployment.database.transaction() as tx:
            tx.execute("LOCK TABLE service_instances IN ACCESS EXCLUSIVE MODE")
            run_id = single(stack, "unsent")
            stack.until(lambda: the_only(stack, run_id).status == "running", "it was not claimed")
            stack.kill(worker)
        stack.start_worker("steps.py", concurrency=1)
        check_completed_once(stack, run_id)
        assert len(service.dispatches) == 1


class Held:
    """Holds the answer to one dispatch of a service, by default its first, until it is let go."""

    def __init__(self, service: HttpService, number: int = 0) -> None:
        self.is_let_go = threading.Event()
        self._service = service
        self._number = number
        service.answer = self._answer

    def _answer(self, dispatch: Any) -> None:
        if self._service.dispatches.index(dispatch) == self._number:
            self.is_let_go.wait(60)


def test_killed_before_the_answer_comes_and_the_report_comes_soon(
    stack: LiveStack, url: str, secret: str
) -> None:
    """Nobody has noticed the death when the service reports: the report counts, and no work is repeated."""
    with http_service(url, secret, {"soon": lambda _: 1}, service_id="soon") as service:
        held = Held(service)
        service.register()
        worker = stack.start_worker("steps.py", concurrency=1)
        run_id = single(stack, "soon")
        stack.until(lambda: bool(service.dispatches), "it was not dispatched")
        stack.kill(worker)
        held.is_let_go.set()
        check_completed_once(stack, run_id)
        assert len(service.dispatches) == 1
        assert the_only(stack, run_id).attempt == 1


def test_killed_before_the_answer_comes_and_the_report_comes_late(
    stack: LiveStack, url: str, secret: str
) -> None:
    """Another attempt has begun: the report of the first one is stale, and changes nothing."""
    with http_service(url, secret, {"later": lambda each: each.run_id}, service_id="later") as service:
        held = Held(service)
        service.register()
        worker = stack.start_worker("steps.py", concurrency=1)
        run_id = single(stack, "later")
        stack.until(lambda: bool(service.dispatches), "it was not dispatched")
        stack.kill(worker)
        stack.start_worker("steps.py", concurrency=1)
        check_completed_once(stack, run_id)
        first, second = service.dispatches
        assert first.run_id != second.run_id
        assert first.succeed("late")[0] == 409
        held.is_let_go.set()
        assert the_only(stack, run_id).output == second.run_id
        check_completed_once(stack, run_id)


def test_killed_while_the_service_works(stack: LiveStack, url: str, secret: str) -> None:
    """The service has taken the attempt: it is not that of the worker any more."""
    working = threading.Event()

    def work(_: Any) -> int:
        working.wait(60)
        return 1

    with http_service(url, secret, {"working": work}, service_id="working") as service:
        service.register()
        worker = stack.start_worker("steps.py", concurrency=1)
        run_id = single(stack, "working")
        stack.until(lambda: the_only(stack, run_id).dispatched_at is not None, "nobody noted the 202")
        stack.kill(worker)
        stack.tick()
        working.set()
        check_completed_once(stack, run_id)
        assert (len(service.dispatches), the_only(stack, run_id).attempt) == (1, 1)
        assert not stack.attempts(run_id)


# --- the service and the API --------------------------------------------------------------------------


def started(stack: LiveStack, url: str, gate: Path, task: str = "gated") -> tuple[int, int, UUID]:
    """An HTTP worker that works at a run: its process, its port and the run."""
    port = free_port()
    process = stack.start_http_worker("gated.py", "gated", url, port)
    stack.store({"id": task, "steps": [{"task": task, "params": {"gate": "${input.gate}"}}]})
    run_id = stack.trigger(task, {"gate": str(gate)})
    stack.until(lambda: bool(stack.calls(run_id)), "the service did not begin")
    stack.until(lambda: the_only(stack, run_id).dispatched_at is not None, "nobody noted the 202")
    return process, port, run_id


def test_a_service_killed_while_it_works(stack: LiveStack, url: str, gate: Path) -> None:
    """Its heartbeats end: the attempt is lost, and the next one goes to its successor."""
    stack.start_worker("steps.py", concurrency=1)
    service, port, run_id = started(stack, url, gate)
    stack.kill(service)
    successor = stack.start_http_worker("gated.py", "gated", url, port)
    stack.until(lambda: len(stack.calls(run_id)) == 2, "there was no further attempt")
    gate.touch()
    check_completed_once(stack, run_id)
    [lost] = stack.attempts(run_id)
    assert (lost.number, lost.error_code, lost.dispatched_at is not None) == (1, "HEARTBEAT_LOST", True)
    assert the_only(stack, run_id).output == successor


def test_the_api_killed_while_the_service_works(
    stack: LiveStack, crashing_api: Server, url: str, gate: Path
) -> None:
    """The service reports until an API takes the report."""
    stack.start_worker("steps.py", concurrency=1)
    service, _, run_id = started(stack, url, gate, "patient")
    crashing_api.kill()
    gate.touch()
    crashing_api.start_again()
    check_completed_once(stack, run_id)
    assert the_only(stack, run_id).output == service
    assert len(stack.calls(run_id)) == the_only(stack, run_id).attempt == 1


def chain(stack: LiveStack, *tasks: str) -> UUID:
    stack.store({"id": tasks[0], "steps": [{"task": each} for each in tasks]})
    return stack.trigger(tasks[0])


def test_the_api_killed_before_the_answer_to_its_dispatch_comes(
    stack: LiveStack, crashing_api: Server, url: str, secret: str
) -> None:
    """Its attempt is lost as soon as that of a worker."""
    is_back = threading.Event()
    tasks = {"told": lambda _: NO_REPORT, "then": lambda each: is_back.wait(60) and each.run_id}
    with http_service(url, secret, tasks, service_id="told") as service:
        held = Held(service, number=1)
        service.register()
        stack.start_worker("steps.py", concurrency=1)
        run_id = chain(stack, "told", "then")
        stack.until(lambda: bool(service.dispatches), "it was not dispatched")
        assert service.dispatches[0].succeed(1)[0] == 200
        stack.until(lambda: len(service.dispatches) == 2, "the API did not dispatch")
        crashing_api.kill()
        crashing_api.start_again()
        is_back.set()
        check_completed_once(stack, run_id, steps=2)
        [lost] = stack.attempts(run_id)
        assert (lost.error_code, lost.worker.startswith(BEATING)) == ("WORKER_LOST", True)
        assert lost.finished_at - lost.started_at < DISPATCHING, "as if it had no heartbeats"
        assert service.dispatches[1].succeed("late")[0] == 409
        held.is_let_go.set()


def test_an_api_that_was_frozen_before_its_dispatch_left_sends_it_no_more(
    stack: LiveStack, crashing_api: Server, url: str, secret: str
) -> None:
    """It reads where the instances of the service are; meanwhile another attempt has begun."""
    may_end = threading.Event()
    tasks = {"cold": lambda _: may_end.wait(60), "thawed": lambda each: each.run_id}
    with http_service(url, secret, tasks, service_id="cold") as service:
        service.register()
        stack.start_worker("steps.py", concurrency=1)
        run_id = chain(stack, "cold", "thawed")
        stack.until(lambda: bool(service.dispatches), "it was not dispatched")
        with stack.deployment.database.transaction() as tx:
            tx.execute("LOCK TABLE service_instances IN ACCESS EXCLUSIVE MODE")
            may_end.set()
            stack.until(lambda: stack.task_runs(run_id)[1].status == "running", "it was not claimed")
            crashing_api.signal(signal.SIGSTOP)
        try:
            stack.until(lambda: len(service.dispatches) == 2, "no other attempt began")
        finally:
            crashing_api.signal(signal.SIGCONT)
        check_completed_once(stack, run_id, steps=2)
        assert [stack.output(each) for each in stack.task_runs(run_id)] == [
            True,
            service.dispatches[1].run_id,
        ]
        assert (len(service.dispatches), len(stack.attempts(run_id))) == (2, 1)


_WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def test_the_api_killed_with_a_report_that_is_not_stored_yet(
    stack: LiveStack, crashing_api: Server, url: str, gate: Path
) -> None:
    """The report waits for the row of its task run; the service has no answer, and reports again."""
    stack.start_worker("steps.py", concurrency=1)
    service, _, run_id = started(stack, url, gate, "patient")
    with stack.deployment.database.transaction() as tx:
        tx.execute("SELECT 1 FROM task_runs WHERE run_id = :id FOR UPDATE", {"id": run_id})
        gate.touch()
        stack.until(lambda: bool(stack.rows(_WAITS)), "no report waits for the row")
        crashing_api.kill()
    crashing_api.start_again()
    check_completed_once(stack, run_id)
    assert the_only(stack, run_id).output == service
    assert len(stack.calls(run_id)) == the_only(stack, run_id).attempt == 1


def test_a_report_whose_answer_was_lost_is_repeated_and_changes_nothing(
    stack: LiveStack, url: str, secret: str
) -> None:
    with http_service(url, secret, {"twice": lambda _: "once"}, service_id="twice") as service:
        service.register()
        stack.start_worker("steps.py", concurrency=1)
        run_id = single(stack, "twice")
        check_completed_once(stack, run_id)
        [dispatch] = service.dispatches
        before = stack.rows("SELECT count(*) AS n FROM events WHERE run_id = :id", id=run_id)[0].n
        status, answer = dispatch.succeed("once")
        assert (status, answer["isRepeated"]) == (200, True)
        assert stack.rows("SELECT count(*) AS n FROM events WHERE run_id = :id", id=run_id)[0].n == before
