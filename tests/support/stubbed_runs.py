"""Runs of documents whose services are stubs: by the real engine and the runner of a real worker.

All of it happens in the test's own thread. Messages are consumed one after the other, and time passes when
the test says so.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import yaml

from pipeweave import async_reports
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.callback_tokens import PATH
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import pausing, triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.starts import new_runs
from pipeweave.orchestrator.waits import approvals, callback_urls, callbacks, sending
from pipeweave.orchestrator.waits.approvals import Vote
from pipeweave.orchestrator.waits.loading import look
from pipeweave.settings import Settings
from pipeweave.spec import parse_spec
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner
from support.factories import a_task, a_worker, register
from support.failed_runs import retry, still_open
from support.inline_worker import InlineWorker
from support.pages import ROOT, blocks
from support.run_driver import RunDriver, release_due

FINAL = ("completed", "partial", "failed", "cancelled")
_DUE = """
SELECT DISTINCT run_id FROM task_runs WHERE tenant_id = :tenant AND status = 'pending' AND due_at <= :now
"""
_SECRET, _URL = "0123456789abcdef" * 4, "https://pipeweave.example"


@dataclass(slots=True)
class StoppedClock:
    """A clock that stands still until the test moves it on: how long a test takes changes nothing."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now


@dataclass(slots=True)
class RunnerOfStubs(InlineWorker):
    """The broker of an inline worker; a real runner consumes what is in its queue."""

    runner: Runner | None = None

    def consume_one(self) -> None:
        """Consume the oldest message."""
        assert self.runner is not None, "no service has begun"
        message = self.waiting.pop(0)
        if isinstance(message, JoinCheck):
            self.runner.join(message.run_id, message.join)
        else:
            named = message.run_id, message.ordinals, message.attempt, message.part, message.joins
            self.runner.run(*named, queue=message.queue)


@dataclass(slots=True)
class StubbedRuns:
    """Runs of one tenant whose tasks are functions of the test.

    Args:
        driver: the tenant; its database has `clock`.
        called: the calls so far: the task, and what it was called with.
    """

    driver: RunDriver
    clock: StoppedClock
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    worker: RunnerOfStubs = field(init=False)
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.worker = RunnerOfStubs(self.driver)
        self.settings = Settings(
            database_url=self.driver.database.url,
            broker_url="memory://",
            tenant=self.driver.tenant,
            secret_key=_SECRET,
            orchestrator_url=_URL,
        )
        self.serve()

    def serve(self, **functions: Callable[..., Any]) -> None:
        """Serve tasks with these functions, by their names; a task is retried only where its step says so."""
        driver = self.driver
        listed = [a_task(each, retries=0) for each in functions]
        with driver.database.transaction() as tx:
            register(tx, driver.tenant, *listed, id="stubs")
            worker = a_worker(tx, driver.tenant, *listed, service="stubs")
        slot = Slots(1).take(0, os.getpid())
        assert slot is not None
        queues = queue_names.service_queue(driver.tenant, "stubs")
        process = ChildProcess(f"{worker}#{os.getpid()}", (queues,), slot)
        publisher: Any = SimpleNamespace(publish=self.worker.receive)
        hashes = {each.id: each.code_hash for each in listed}
        tasks = {
            id: Task(self._recorded(id, function), TaskSpec(id=id, code_hash=hashes[id]))
            for id, function in functions.items()
        }
        deployment = Deployment(self.settings, driver.database, driver.values, publisher=publisher)
        calls = Calls(driver.database, driver.values, tasks, self.settings)
        self.worker.runner = Runner(deployment, calls, process)

    def _recorded(self, task: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(**arguments: Any) -> Any:
            self.called.append((task, arguments))
            return function(**arguments)

        return called

    # --- runs ---------------------------------------------------------------------------------------------

    def put(self, *documents: str | Mapping[str, Any]) -> None:
        """Store documents, as users write them."""
        for each in documents:
            spec = parse_spec(yaml.safe_load(each) if isinstance(each, str) else each)
            with self.driver.database.transaction() as tx:
                pipelines.store(tx, self.driver.tenant, spec, source="api")

    def begin(self, pipeline: str, input: Any = None, **options: Any) -> UUID:
        """Trigger a run, as schedules do, and do what can be done without waiting; the run's id.

        Args:
            options: as `StartRequest` takes them.

        Raises:
            InputValidationFailed: the pipeline refuses the input.
        """
        request = StartRequest(pipeline, {} if input is None else input, **options)
        with self.driver.database.transaction() as tx:
            [created] = new_runs.start(tx, self.driver.values, self.driver.tenant, [request])
        self.worker.consume_all()
        return created.id

    def cancel(self, run_id: UUID) -> None:
        """Cancel a run."""
        with self.driver.database.transaction() as tx:
            triggering.cancel(tx, self.driver.tenant, run_id)
        self.worker.consume_all()

    def pause(self, run_id: UUID) -> None:
        """Let nothing of a run start."""
        with self.driver.database.transaction() as tx:
            pausing.pause(tx, self.driver.tenant, run_id)

    def resume(self, run_id: UUID) -> None:
        """Let a paused run go on."""
        with self.driver.database.transaction() as tx:
            pausing.resume(tx, self.driver.tenant, run_id)
        self.worker.consume_all()

    def retry(self, run_id: UUID) -> None:
        """Retry the only dead letter of a run."""
        [letter] = still_open(self.driver, run_id)
        retry(self.driver, letter)
        self.worker.consume_all()

    # --- what comes from outside --------------------------------------------------------------------------

    def wait(self, *, most: int = 100, **time: float) -> None:
        """Let time pass, and do what is due then: what a beat does that looks often.

        Args:
            most: how often something may become due.
            time: as `timedelta` takes it.
        """
        self.clock.now += timedelta(**time)
        while most and (self._release() or self._look() or self.worker.waiting):
            self.worker.consume_all()
            most -= 1

    def _release(self) -> int:
        """Release the attempts that are due."""
        rows = self.driver.rows(_DUE, tenant=self.driver.tenant, now=self.clock())
        for row in rows:
            release_due(self.driver, row.run_id, self.clock())
        return len(rows)

    def _look(self) -> bool:
        """Look at all waits; whether one of them ended, or went into another round."""
        waits = "SELECT run_id, task_run_id, data FROM waits WHERE tenant_id = :tenant ORDER BY task_run_id"
        before = self.driver.rows(waits, tenant=self.driver.tenant)
        look(self.driver.database, self.driver.values, [(row.run_id, row.task_run_id) for row in before])
        return before != self.driver.rows(waits, tenant=self.driver.tenant)

    def signal(self, run_id: UUID, name: str, payload: Any = None, *, once: str | None = None) -> None:
        """Send a signal to a run."""
        driver = self.driver
        kept = driver.values.keep(payload)
        with driver.database.transaction() as tx:
            sending.send(tx, driver.tenant, run_id, name, kept, once=once, by="sender")
        self.worker.consume_all()

    def of_token(self, pipeline: str, token: str) -> UUID:
        """The run of a pipeline that was triggered with a run token."""
        with self.driver.database.transaction() as tx:
            return sending.run_of_token(tx, self.driver.tenant, pipeline, token)

    def vote(
        self,
        run_id: UUID,
        step: str,
        is_approval: bool = True,
        *,
        by: str = "ann",
        groups: Sequence[str] = (),
        comment: str | None = None,
    ) -> None:
        """Let a person decide about an approval."""
        vote = Vote(by, groups, is_approval, comment=comment)
        with self.driver.database.transaction() as tx:
            approvals.vote(tx, self.driver.tenant, self.task_run(run_id, step).id, vote)
        self.worker.consume_all()

    def report(self, url: str, body: Any) -> bool:
        """Report the result of a suspended call by its URL; whether the report was new."""
        named = callback_urls.read(self.settings, url.removeprefix(f"{_URL}{PATH}"))
        kept = self.driver.values.keep(async_reports.of_callback(body))
        with self.driver.database.transaction() as tx:
            is_new = callbacks.receive(tx, named, kept)
        self.worker.consume_all()
        return is_new

    # --- what came of it ----------------------------------------------------------------------------------

    def outcome(self, run_id: UUID) -> tuple[str, Any]:
        """Status and output of a run. What is final is checked against its events, with all runs below."""
        row = self.driver.run(run_id)
        tree = [run_id] if row.status in FINAL else []
        for each in tree:
            tree += self.children(each)
        with verify.snapshot(self.driver.database) as tx:
            for each in tree:
                assert verify.run(tx, each) == []
            output = outputs.of_run(tx, self.driver.tenant, row, Loading(False))["output"]
        return row.status, output

    def failure(self, run_id: UUID, step: str) -> tuple[str, str]:
        """The error code of a step, and its message."""
        row = self.task_run(run_id, step)
        return row.error_code, row.error["message"]

    def task_run(self, run_id: UUID, step: str) -> Any:
        """The row of a step."""
        steps = [each for each in self.driver.task_runs(run_id) if each.kind != "item"]
        return next(each for each in steps if each.step_id == step)

    def retried_after(self, run_id: UUID, step: str, since: datetime, seconds: float) -> bool:
        """Whether the next attempt of a step comes so long after something that happened from `since` to now.

        PostgreSQL's clock says when that is, and not the clock of the test.
        """
        due: datetime = self.task_run(run_id, step).due_at
        delay = timedelta(seconds=seconds)
        return since + delay <= due <= datetime.now(UTC) + delay

    def step(self, run_id: UUID, step: str) -> str:
        """The status of a step."""
        return self.driver.statuses(run_id)[step]

    def children(self, run_id: UUID) -> list[UUID]:
        """The runs that a run has begun, oldest first."""
        rows = self.driver.rows("SELECT id FROM runs WHERE parent_run_id = :id ORDER BY id", id=run_id)
        return [UUID(str(row.id)) for row in rows]

    def calls(self, task: str) -> list[dict[str, Any]]:
        """What a task was called with, call by call."""
        return [arguments for each, arguments in self.called if each == task]


def documents_of(page: str) -> dict[str, Any]:
    """The documents on a page for people who come from another tool, by their ids."""
    texts = blocks(ROOT / f"docs/coming-from/{page}.md", "yaml")
    return {each["id"]: each for text in texts for each in yaml.safe_load_all(text)}
