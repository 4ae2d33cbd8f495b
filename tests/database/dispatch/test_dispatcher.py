"""What dispatches do when their service does not answer, has moved, or PostgreSQL is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.memory_storage import MemoryStorage
from support.run_driver import header
from support.stored_values import values_in

from pipeweave.orchestrator.dispatch.dispatcher import AT_ONCE, Dispatcher
from pipeweave.orchestrator.dispatch.services import Services
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Dispatched, Postponed, TaskRun
from pipeweave.orchestrator.registry import instances, pipelines
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration, triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.sending import sender
from pipeweave.settings import Settings
from pipeweave.spec.document import parse_spec
from pipeweave.storage import Backends

TENANT, WORKER = "dispatcher-tests", "worker@host:1:ab"
STEPS = 60


@dataclass
class Hanging:
    """A service that takes requests and does not answer, until it is let go."""

    url: str
    let_go: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    close: Callable[[], None] = lambda: None


@contextmanager
def hanging() -> Iterator[Hanging]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            service.asked.append(self.path)
            service.let_go.wait()
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    service = Hanging(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def close() -> None:
        service.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()

    service.close = close
    try:
        yield service
    finally:
        close()


@pytest.fixture
def values(tmp_path: Path) -> Values:
    folder = {"basePath": str(tmp_path / "objects")}
    return Values(Backends([{"id": "local", "provider": "local", "credentials": folder}]))


def claimed(database: Database, values: Values, url: str, **members: Any) -> tuple[RunHeader, list[TaskRun]]:
    """A run of many steps side by side, all of them running."""
    with database.transaction() as tx:
        task = TaskRegistration("hang", "a" * 16, retries=0)
        service_registration.register(tx, TENANT, Registration("hanging", "1", "http", url, [task]))
        steps = [{"id": f"s{number}", "task": "hang", "needs": [], **members} for number in range(STEPS)]
        pipelines.store(tx, TENANT, parse_spec({"steps": steps}, id="hanging"), source="api")
        run_id = triggering.trigger(tx, values, TENANT, StartRequest("hanging", None)).id
        task_runs = claiming.start(tx, run_id, range(1, STEPS + 1), 1, worker=WORKER)
        return header(tx, run_id), task_runs


@pytest.fixture
def dispatcher(database: Database, values: Values, tmp_path: Path) -> Iterator[Dispatcher]:
    settings = Settings(secret_key="5e" * 32, dispatch_networks=("loopback",), data_dir=str(tmp_path))
    made = Dispatcher(database, values, settings, worker=WORKER)
    yield made
    made.close()


def test_a_service_that_hangs_holds_up_a_batch_once(
    database: Database, values: Values, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "ANSWER_WITHIN_S", 0.5)
    with hanging() as service:
        run, task_runs = claimed(database, values, service.url)
        outcomes = dispatcher.dispatch(run, task_runs)
        assert len(outcomes) == STEPS
        assert {each[1].code for each in outcomes if isinstance(each, tuple)} == {"TIMEOUT"}
        assert len(service.asked) <= AT_ONCE, "it was asked again after it had not answered"
        before = len(service.asked)
        dispatcher.dispatch(run, task_runs)
        assert len(service.asked) == before + 1, "one dispatch finds out whether it is back"
        monkeypatch.undo()
        service.let_go.set()
        outcomes = dispatcher.dispatch(run, task_runs)
    assert all(isinstance(each, Dispatched) for each in outcomes)


def test_an_instance_that_took_the_place_of_another_is_found_at_once(
    database: Database, values: Values, dispatcher: Dispatcher
) -> None:
    with hanging() as gone, hanging() as new:
        gone.let_go.set()
        new.let_go.set()
        run, (first, second, *_) = claimed(database, values, gone.url)
        assert isinstance(dispatcher.dispatch(run, [first])[0], Dispatched)
        with database.transaction() as tx:
            instances.remove(tx, TENANT, "hanging", gone.url)
            task = TaskRegistration("hang", "a" * 16, retries=0)
            service_registration.register(tx, TENANT, Registration("hanging", "1", "http", new.url, [task]))
        gone.close()
        [outcome] = dispatcher.dispatch(run, [second])
    assert isinstance(outcome, Dispatched)
    assert new.url in outcome.service


def test_a_dispatch_that_storage_prevents_uses_up_no_attempt(database: Database, tmp_path: Path) -> None:
    store = MemoryStorage()
    with hanging() as service:
        run, (first, *_) = claimed(database, values_in(store), service.url)
        settings = Settings(secret_key="5e" * 32, dispatch_networks=("loopback",), data_dir=str(tmp_path))
        dispatcher = Dispatcher(database, values_in(store), settings, worker=WORKER)
        store.is_away = True
        [outcome] = dispatcher.dispatch(run, [first])
        dispatcher.close()
    assert isinstance(outcome, tuple)
    assert (outcome[1].code, outcome[1].is_counted, outcome[1].retryable) == ("UNAVAILABLE", False, True)
    assert service.asked == []


def test_a_dispatch_that_postgresql_prevents_uses_up_no_attempt(
    database: Database, values: Values, tmp_path: Path
) -> None:
    with hanging() as service:
        service.let_go.set()
        run, (first, *_) = claimed(database, values, service.url)
        second_attempt = first._replace(attempt=2)
        settings = Settings(secret_key="5e" * 32, dispatch_networks=("loopback",), data_dir=str(tmp_path))
        nowhere = Database("postgresql://nobody@127.0.0.1:1/none", pool_size=1)
        dispatcher = Dispatcher(nowhere, values, settings, worker=WORKER)
        [unknown] = dispatcher.dispatch(run, [first])
        dispatcher._services = Services(database)
        [known] = dispatcher.dispatch(run, [second_attempt])
        dispatcher.close()
    assert isinstance(unknown, Postponed) and isinstance(known, Postponed)
    assert "PostgreSQL cannot be used" in unknown.reason
    assert service.asked == []


def test_a_step_with_a_sandbox_is_not_dispatched_to_a_service_which_has_none(
    database: Database, values: Values, dispatcher: Dispatcher
) -> None:
    with hanging() as service:
        run, task_runs = claimed(database, values, service.url, sandbox={"cpu": "1s"})
        outcomes = dispatcher.dispatch(run, task_runs[:2])
        assert not service.asked
    assert [failure.code for _, failure in outcomes] == ["SANDBOX_REFUSED"] * 2  # type: ignore[misc,union-attr]
