"""kill -9, SIGSTOP and TERM of an API that dispatches the step after a report, in every phase of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psutil
import pytest
from support.api_server import Server
from support.crash_checks import check_completed_once
from support.http_service import HttpService, http_service
from support.live_stack import LiveStack

from pipeweave.orchestrator.dispatch.serverless import BEATING

_AGE = """
UPDATE task_runs SET claimed_at = claimed_at - interval '31 seconds' WHERE run_id = :id AND status = 'running'
"""
_TRUST = """
UPDATE task_runs SET heartbeat_at = now() + interval '1 hour' WHERE run_id = :id AND status = 'running'
"""


@pytest.fixture
def gate() -> threading.Event:
    """Holds back the report of the first step."""
    return threading.Event()


@contextmanager
def chain(
    stack: LiveStack, url: str, secret: str, name: str, gate: threading.Event
) -> Iterator[tuple[HttpService, UUID]]:
    """A service and a run of two steps, whose first one is about to report."""
    first, second = f"{name}-first", f"{name}-second"

    def begin(_: Any) -> int:
        gate.wait(60)
        return 1

    tasks = {first: begin, second: lambda each: each.run_id}
    with http_service(url, secret, tasks, service_id=name) as service:
        service.register()
        stack.start_worker("steps.py", concurrency=1)
        stack.store({"id": name, "steps": [{"id": "first", "task": first}, {"id": "second", "task": second}]})
        run_id = stack.trigger(name)
        stack.until(lambda: stack.steps(run_id)["first"].dispatched_at is not None, "nobody noted the first")
        yield service, run_id


def second(stack: LiveStack, run_id: UUID) -> Any:
    return stack.steps(run_id)["second"]


def until_claimed(stack: LiveStack, run_id: UUID) -> None:
    """Wait until the API has claimed the second step."""
    stack.until(lambda: (second(stack, run_id).worker or "").startswith(BEATING), "it was not claimed")


def grow_old(stack: LiveStack, run_id: UUID) -> None:
    """Let the time pass after which no dispatch of a claim can be under way."""
    with stack.deployment.database.transaction() as tx:
        tx.execute(_AGE, {"id": run_id})


def kill_unnoticed(stack: LiveStack, api: Server, run_id: UUID) -> None:
    """Kill the API, and let nobody notice that the process with the claim is dead: on a busy machine the tick
    does so before the API has started again.
    """
    api.kill()
    with stack.deployment.database.transaction() as tx:
        tx.execute(_TRUST, {"id": run_id})


def test_killed_between_the_commit_of_the_report_and_the_dispatch(
    stack: LiveStack, crashing_api: Server, url: str, secret: str, gate: threading.Event
) -> None:
    """It reads where the instances of the service are. Another attempt goes by the workers."""
    with chain(stack, url, secret, "unsent-next", gate) as (service, run_id):
        with stack.deployment.database.transaction() as tx:
            tx.execute("LOCK TABLE service_instances IN ACCESS EXCLUSIVE MODE")
            gate.set()
            until_claimed(stack, run_id)
            kill_unnoticed(stack, crashing_api, run_id)
        crashing_api.start_again()
        grow_old(stack, run_id)
        check_completed_once(stack, run_id, 2)
        assert len(service.dispatches) == 2
        assert second(stack, run_id).attempt == 2


def test_killed_after_the_dispatch_and_before_its_answer(
    stack: LiveStack, crashing_api: Server, url: str, secret: str, gate: threading.Event
) -> None:
    """Nobody has noticed the death when the service reports: the report counts, and no work is repeated."""
    with chain(stack, url, secret, "unanswered-next", gate) as (service, run_id):
        is_let_go = threading.Event()

        def answer(_: Any) -> None:
            is_let_go.wait(60)

        service.answer = answer
        gate.set()
        stack.until(lambda: len(service.dispatches) == 2, "it was not dispatched")
        assert second(stack, run_id).worker.startswith(BEATING)
        kill_unnoticed(stack, crashing_api, run_id)
        crashing_api.start_again()
        is_let_go.set()
        check_completed_once(stack, run_id, 2)
        assert (len(service.dispatches), second(stack, run_id).attempt) == (2, 1)


def test_frozen_before_the_dispatch_until_another_attempt_has_begun(
    stack: LiveStack, crashing_api: Server, url: str, secret: str, gate: threading.Event
) -> None:
    """If the late dispatch still leaves, the report of its attempt is stale, and changes nothing."""
    with chain(stack, url, secret, "frozen-next", gate) as (service, run_id):
        with stack.deployment.database.transaction() as tx:
            tx.execute("LOCK TABLE service_instances IN ACCESS EXCLUSIVE MODE")
            gate.set()
            until_claimed(stack, run_id)
            frozen = psutil.Process(crashing_api.process.pid).children()
            for each in frozen:
                each.send_signal(signal.SIGSTOP)
        grow_old(stack, run_id)
        stack.until(lambda: len(service.dispatches) == 2, "no other attempt was dispatched")
        for each in frozen:
            each.send_signal(signal.SIGCONT)
        check_completed_once(stack, run_id, 2)
        ended = second(stack, run_id)
        assert (ended.attempt, ended.output) == (2, service.dispatches[1].run_id)
        assert len(stack.attempts(run_id)) == 1


def test_a_term_leaves_no_dispatch_without_its_note(
    stack: LiveStack, crashing_api: Server, url: str, secret: str, gate: threading.Event
) -> None:
    """The service works on, and it is known that the attempt is its own."""
    with chain(stack, url, secret, "noted-next", gate) as (service, run_id):
        is_done = threading.Event()
        work = service.tasks["noted-next-second"]
        service.tasks = {**service.tasks, "noted-next-second": lambda each: is_done.wait(60) and work(each)}
        gate.set()
        stack.until(lambda: len(service.dispatches) == 2, "it was not dispatched")
        os.kill(crashing_api.process.pid, signal.SIGTERM)
        assert crashing_api.process.wait(60) == 0
        assert second(stack, run_id).dispatched_at is not None
        assert second(stack, run_id).worker == f"noted-next {service.url}"
        crashing_api.start_again()
        is_done.set()
        check_completed_once(stack, run_id, 2)
        assert (len(service.dispatches), second(stack, run_id).attempt) == (2, 1)
