"""Workers with different code on one queue: what one of them cannot call, another one calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, a_worker, own_queue_of, register
from support.run_driver import RunDriver

from pipeweave import Context
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.outbox import InvalidChord, JoinCheck, Outgoing
from pipeweave.orchestrator.messaging.batching import RunMessage, group_into_messages
from pipeweave.orchestrator.queueing import placement
from pipeweave.settings import Settings
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner


@dataclass
class Fleet:
    """Workers of one service in the test's own thread; each has tasks of its own, and its own queue."""

    driver: RunDriver
    calls: list[tuple[str, str]] = field(default_factory=list)
    published: list[Outgoing] = field(default_factory=list)
    runners: dict[str, tuple[Runner, tuple[str, ...]]] = field(default_factory=dict)
    slots: list[Slots] = field(default_factory=list)
    messages: int = 0

    def start(self, name: str, *tasks: str, code: str = "first") -> None:
        """Start a worker with these tasks, in this code."""
        driver = self.driver
        listed = [a_task(each, code) for each in tasks]
        with driver.database.transaction() as tx:
            register(tx, driver.tenant, *listed)
            id_ = a_worker(tx, driver.tenant, *listed, name=name)
        queues = (
            queue_names.service_queue(driver.tenant, "python"),
            own_queue_of(driver.tenant, *listed),
        )
        publisher: Any = SimpleNamespace(publish=self.published.extend)
        settings = Settings(database_url=driver.database.url, broker_url="memory://", tenant=driver.tenant)
        deployment = Deployment(settings, driver.database, driver.values, publisher=publisher)
        made = {
            each.id: Task(self._function(name, each.id), TaskSpec(id=each.id, code_hash=each.code_hash))
            for each in listed
        }
        self.slots.append(Slots(1))
        slot = self.slots[-1].take(0, os.getpid())
        assert slot is not None
        process = ChildProcess(f"{id_}#{os.getpid()}", queues, slot)
        self.runners[name] = (
            Runner(deployment, Calls(driver.database, driver.values, made, settings), process),
            queues,
        )

    def _function(self, worker: str, task: str) -> Callable[..., None]:
        def called(ctx: Context) -> None:
            self.calls.append((worker, str(ctx.step_id)))

        return called

    def work(self, *preferred: str, most: int = 100) -> None:
        """Work off all messages. The first named worker that consumes its queue takes a message."""
        names = [*preferred, *(each for each in self.runners if each not in preferred)]
        while most and (waiting := self._take()):
            for message in waiting:
                most -= 1
                self.messages += 1
                takers = [name for name in names if message.queue in self.runners[name][1]]
                assert takers, f"nobody consumes {message.queue}"
                joins: Sequence[int] = message.joins
                runner = self.runners[takers[0]][0]
                runner.run(
                    message.run_id,
                    message.ordinals,
                    message.attempt,
                    message.part,
                    joins,
                    queue=message.queue,
                )

    def _take(self) -> list[RunMessage]:
        found = group_into_messages(self.driver.sent)
        self.driver.sent.clear()
        for check in found.checks:
            self.driver.check(check.run_id, check.join)
        return list(found.messages) + (self._take() if found.checks else [])


@pytest.fixture
def fleet(isolated_driver: RunDriver) -> Fleet:
    return Fleet(isolated_driver)


def outcome(driver: RunDriver, run_id: UUID) -> tuple[str, set[tuple[str, int]]]:
    return driver.run(run_id).status, {(row.status, row.attempt) for row in driver.task_runs(run_id)}


def test_a_message_for_a_task_that_a_worker_has_not_loaded_goes_to_one_that_has(fleet: Fleet) -> None:
    driver = fleet.driver
    fleet.start("mail", "noop")
    fleet.start("print", "limited", "single")
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["b"]}, tasks={"b": "single"})
    fleet.work("print")
    assert outcome(driver, run_id) == ("completed", {("completed", 1)})
    assert fleet.calls == [("mail", "a"), ("print", "b"), ("mail", "c")]
    assert driver.rows("SELECT 1 FROM dead_letters WHERE run_id = :id", id=run_id) == []
    assert fleet.messages <= 6, "each message is handed on once at most"


def test_a_worker_goes_on_itself_with_the_steps_that_it_has(fleet: Fleet) -> None:
    driver = fleet.driver
    fleet.start("mail", "noop")
    fleet.start("print", "single")
    driver.store({"a": [], "b": ["a"], "c": ["a"]}, tasks={"b": "single"})
    run_id = driver.trigger()
    fleet.work("mail")
    assert outcome(driver, run_id) == ("completed", {("completed", 1)})
    assert sorted(fleet.calls) == [("mail", "a"), ("mail", "c"), ("print", "b")]
    started = [row.data.get("worker", "") for row in driver.events(run_id, "task_run.started")]
    assert len(started) <= 4


def test_items_of_a_map_are_handed_on_with_the_rest_of_their_message(fleet: Fleet) -> None:
    driver = fleet.driver
    fleet.start("mail", "noop")
    fleet.start("print", "single")
    run_id = driver.begin({"m": [], "z": ["m"]}, maps={"m": list(range(300))})
    fleet.work("print", most=2_000)
    assert outcome(driver, run_id) == ("completed", {("completed", 1)})
    assert {worker for worker, _ in fleet.calls} == {"mail"}
    assert len(fleet.calls) == 301


def test_a_message_that_was_handed_on_counts_for_no_chord(fleet: Fleet) -> None:
    driver = fleet.driver
    fleet.start("mail", "noop")
    fleet.start("print", "single")
    run_id = driver.begin({"m": []}, maps={"m": list(range(300))})
    message = fleet._take()[0]
    assert message.joins
    runner = fleet.runners["print"][0]
    runner.run(run_id, message.ordinals, 1, message.part, message.joins, queue=message.queue)
    kinds = {type(each) for each in fleet.published}
    assert kinds == {InvalidChord, JoinCheck}


def test_work_for_a_task_that_no_live_worker_has_waits_and_goes_on_when_one_comes(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    driver = fleet.driver
    fleet.start("print", "single")
    runs = [driver.begin({"a": []}) for _ in range(3)]
    with caplog.at_level("WARNING"):
        fleet.work()
    assert {outcome(driver, run_id)[1] == {("queued", 1)} for run_id in runs} == {True}
    assert fleet.messages == 3, "no message goes in circles"
    assert caplog.messages.count("task.not_loaded") == 1, "the log says so once"
    fleet.start("mail", "noop")
    assert placement.place_again(driver.database) == 3
    fleet.work("print")
    assert [outcome(driver, run_id) for run_id in runs] == [("completed", {("completed", 1)})] * 3


def test_new_and_old_code_of_a_task_run_side_by_side(fleet: Fleet) -> None:
    driver = fleet.driver
    fleet.start("old", "noop")
    driver.store({"a": [], "b": ["a"]}, id="pinned", code="pinned")
    driver.store({"a": [], "b": ["a"]}, id="any")
    pinned = driver.trigger("pinned")
    fleet.start("new", "noop", code="second")
    free, later = driver.trigger("any"), driver.trigger("pinned")
    fleet.work("new")
    assert [driver.run(each).status for each in (pinned, free, later)] == ["completed"] * 3
    assert fleet.calls.count(("old", "a")) == fleet.calls.count(("old", "b")) == 1, "the pinned one"
    assert fleet.calls.count(("new", "a")) == fleet.calls.count(("new", "b")) == 2
