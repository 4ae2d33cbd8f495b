"""What a run costs in statements and commits, exactly: figures that no noise hides.

The API and a worker's child work in the test's own thread, a message after the other. A figure that became
smaller is good news: write it down here, and in docs/performance.md. An idle tick is in
database/recovery/test_look.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
import pytest
from flask.testing import FlaskClient
from support.counted_calls import counted_calls
from support.factories import register
from support.run_driver import store_spec
from support.sent_statements import sent_statements
from support.servers import wait_until
from support.taking_service import TakingService, taking_service
from werkzeug.test import EnvironBuilder

from pipeweave import dispatch_ids, ids
from pipeweave.api import create_app
from pipeweave.api.http import auth
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.dispatch import open_dispatches, posting, services
from pipeweave.orchestrator.dispatch.next_steps import NextSteps, of_process
from pipeweave.orchestrator.domain.outbox import Outgoing
from pipeweave.orchestrator.messaging.batching import MESSAGES_PER_FAN_OUT, SHORT_S, group_into_messages
from pipeweave.orchestrator.queueing import durations, widths
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.statements import PREPARE_AFTER
from pipeweave.settings import Settings
from pipeweave.spec import PipelineSpec, StepSpec
from pipeweave.workers.consumer import message, watchdog
from pipeweave.workers.consumer import runner as runner_module
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner

TENANT = "default"

# Statements and commits.
Cost = tuple[int, int]
TRIES = 5


@dataclass
class Plant:
    """The API, a worker's child and the messages between them."""

    deployment: Deployment
    client: FlaskClient
    headers: dict[str, str]
    runner: Runner
    waiting: list[Outgoing] = field(default_factory=list)

    def trigger(self, pipeline: str, count: int = 0) -> str:
        """Trigger a run over HTTP; its id."""
        path = f"/api/pipelines/{pipeline}/trigger"
        answer = self.client.post(path, json={"input": {"count": count}}, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return str(answer.json["pipelineRunId"])

    def calls_of(self, path: str, body: object) -> int:
        """The calls of functions in the application for a POST, its messages sent to the broker included."""
        environ = EnvironBuilder(path, method="POST", json=body, headers=self.headers).get_environ()
        started: list[str] = []
        with counted_calls() as calls:
            answer = self.client.application.wsgi_app(environ, lambda status, _: started.append(status))
            content = b"".join(answer)
        assert started[0].startswith("200"), content
        assert orjson.loads(content)
        return calls.total()

    def work(self) -> None:
        """Work off all messages and then the full chords, and what follows from them."""
        chords: set[tuple[UUID, int]] = set()
        while self.waiting or chords:
            batch = group_into_messages(self.waiting)
            self.waiting.clear()
            chords.update((each.run_id, each.join) for each in (*batch.parts, *batch.checks))
            for each in batch.messages:
                self.runner.run(each.run_id, each.ordinals, each.attempt, each.part, each.joins)
            if not self.waiting and chords:
                self.runner.join(*chords.pop())

    def run(self, pipeline: str, count: int = 0) -> None:
        """Trigger a run and work it off."""
        self.trigger(pipeline, count)
        self.work()

    def unfinished(self) -> list[str]:
        """The status of each run that is not completed."""
        with self.deployment.database.reading() as tx:
            return tx.execute("SELECT status FROM runs WHERE status <> 'completed'").scalars()

    def store(self, name: str, *steps: dict[str, object]) -> None:
        answer = self.client.put(f"/api/pipelines/{name}", json={"steps": steps}, headers=self.headers)
        assert answer.status_code in (200, 201), answer.text


def a_child(deployment: Deployment) -> Runner:
    def noop() -> None:
        """Do nothing."""

    def numbers(count: int) -> list[int]:
        return list(range(count))

    functions = (noop, numbers)
    tasks = {each.__name__: Task(each, TaskSpec(id=each.__name__, code_hash="0" * 64)) for each in functions}
    slot = Slots(1).take(0, os.getpid())
    assert slot is not None
    process = ChildProcess(f"w#{os.getpid()}", (f"pipeweave.{TENANT}.python",), slot)
    return Runner(
        deployment, Calls(deployment.database, deployment.values, tasks, deployment.settings), process
    )


@pytest.fixture
def plant(
    fresh_database_url: str,
    fresh_broker_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Plant]:
    # However slow the machine is: no turn and no message ends early, and what was read a moment ago is not
    # read again.
    for module, name in (
        (runner_module, "TURN_S"),
        (message, "MESSAGE_S"),
        (watchdog, "MESSAGE_S"),
        (auth, "TOKEN_CACHE_S"),
        (widths, "FRESH_S"),
        (services, "READ_EVERY_S"),
        (posting, "SEEN_EVERY_S"),
    ):
        monkeypatch.setattr(module, name, 600.0)
    deployment = Deployment.open(
        Settings(
            database_url=fresh_database_url,
            broker_url=fresh_broker_url,
            data_dir=str(tmp_path_factory.mktemp("costs")),
            secret_key="5e" * 32,
            dispatch_networks=("loopback",),
        )
    )
    with deployment.database.transaction() as tx:
        register(tx, TENANT, "noop", "numbers")
        token = access_tokens.create_token(tx, name="test", tenants=[TENANT], scopes=[access_tokens.WRITE])
    headers = {"Authorization": f"Bearer {token}", "X-Tenant": TENANT}
    client = create_app(deployment.settings, deployment).test_client()
    made = Plant(deployment, client, headers, a_child(deployment))
    deployment.database.sender = made.waiting.extend
    monkeypatch.setattr(deployment.publisher, "publish", made.waiting.extend)
    yield made
    deployment.close()


def chain(length: int) -> list[dict[str, object]]:
    return [{"id": f"s{n}", "task": "noop", "needs": [f"s{n - 1}"] if n else []} for n in range(length)]


def assert_costs(work: Callable[[], object], expected: Cost, *, of_all_threads: bool = False) -> None:
    """Statements and commits of some work, once all its statements are prepared and all caches filled."""
    for _ in range(PREPARE_AFTER + 1):
        work()
    seen: list[Cost] = []
    # What a cache remembers for a second or two is read again on a machine that stood still for so long.
    while expected not in seen and len(seen) < TRIES:
        with sent_statements(of_all_threads=of_all_threads) as sent:
            work()
        seen.append(sent.cost)
    assert seen[-1] == expected, "\n\n".join([str(seen), *sent])


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_run_over_http_costs_three_statements_and_each_hop_of_its_chain_one(
    plant: Plant, length: int
) -> None:
    """To trigger it, to claim its first step, and one for the end of each step. Each is a commit."""
    plant.store("chain", *chain(length))
    assert_costs(lambda: plant.run("chain"), (2 + length, 2 + length))
    assert plant.unfinished() == []


def test_a_trigger_costs_one_statement(plant: Plant) -> None:
    plant.store("chain", *chain(2))
    assert_costs(lambda: plant.trigger("chain"), (1, 1))


MAPPED: tuple[dict[str, object], ...] = (
    {"id": "numbers", "task": "numbers", "needs": [], "params": {"count": "${input.count}"}},
    {"id": "each", "task": "noop", "needs": ["numbers"], "map": {"over": "${steps.numbers}"}},
)


DIAMOND: tuple[dict[str, object], ...] = (
    {"id": "a", "task": "noop", "needs": []},
    {"id": "b", "task": "noop", "needs": ["a"]},
    {"id": "c", "task": "noop", "needs": ["a"]},
    {"id": "d", "task": "noop", "needs": ["b", "c"]},
)


def test_short_branches_that_meet_again_cost_one_statement_together(plant: Plant) -> None:
    """To trigger, to claim the first step, and one for the end of the first, of both and of the last."""
    plant.store("diamond", *DIAMOND)
    for _ in range(2):  # the child learns that the calls are short
        plant.run("diamond")
    assert_costs(lambda: plant.run("diamond"), (2 + 3, 2 + 3))
    assert plant.unfinished() == []


def test_branches_whose_calls_take_long_travel_apart(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second branch has its own message and claim, and its end is stored alone."""
    plant.store("diamond", *DIAMOND)
    monkeypatch.setattr(CallDurations, "usual", lambda *_: 1.0)
    assert_costs(lambda: plant.run("diamond"), (2 + 5, 2 + 5))
    assert plant.unfinished() == []


@pytest.mark.parametrize("count", [64, 320])
def test_an_item_costs_nothing_beside_the_message_that_carries_it(plant: Plant, count: int) -> None:
    """A message costs two statements and two commits, however many items it carries: 64 messages carry them
    all. The other commits are the trigger, the claim of the list, its end and the end of the map.
    """
    plant.store("map", *MAPPED)
    assert_costs(
        lambda: plant.run("map", count), (15 + 2 * MESSAGES_PER_FAN_OUT, 4 + 2 * MESSAGES_PER_FAN_OUT)
    )
    assert plant.unfinished() == []


@pytest.mark.parametrize(("count", "messages"), [(64, 16), (320, 16), (1_600, 32)])
def test_short_calls_travel_in_fewer_messages(plant: Plant, count: int, messages: int) -> None:
    """Two statements and two commits for each message, as for those of other calls."""
    plant.store("map", *MAPPED)
    with plant.deployment.database.transaction() as tx:
        durations.record(tx, TENANT, "noop", SHORT_S)
    assert_costs(lambda: plant.run("map", count), (15 + 2 * messages, 4 + 2 * messages))
    assert plant.unfinished() == []


def test_a_parameter_that_is_the_output_before_it_costs_nothing_more(plant: Plant) -> None:
    """The process that stored the output goes on with the next step, and need not read it again."""
    count = {"params": {"count": "${input.count}"}}
    again = {"params": {"count": "${len(steps.s0)}"}}
    plant.store(
        "passed-on", {"id": "s0", "task": "numbers", **count}, {"id": "s1", "task": "numbers", **again}
    )
    assert_costs(lambda: plant.run("passed-on", 2), (2 + 2, 2 + 2))
    assert plant.unfinished() == []


def test_a_condition_that_the_worker_knows_to_be_true_costs_nothing_more(plant: Plant) -> None:
    """A chain of three steps, of which two have a condition: over the output before, and over the input."""
    steps = (
        StepSpec("s0", "numbers"),
        StepSpec("s1", "noop", ("s0",), params={}, condition="len(steps.s0) == 2 && input.count > 1"),
        StepSpec("s2", "noop", ("s1",), params={}, condition="variables.least <= input.count"),
    )
    with plant.deployment.database.transaction() as tx:
        store_spec(tx, TENANT, PipelineSpec("chosen", steps, variables={"least": 2}))
    assert_costs(lambda: plant.run("chosen", 2), (2 + 3, 2 + 3))
    assert plant.unfinished() == []


def test_a_condition_that_is_false_costs_its_step_s_turn_some_statements_and_no_commit(plant: Plant) -> None:
    """The turn is a transaction of its own verbs: it reads the values, and skips the step with its event."""
    steps = (
        StepSpec("s0", "numbers"),
        StepSpec("s1", "noop", ("s0",), params={}, condition="len(steps.s0) > 2"),
        StepSpec("s2", "noop", ("s1",), params={}),
    )
    with plant.deployment.database.transaction() as tx:
        store_spec(tx, TENANT, PipelineSpec("passed", steps))
    assert_costs(lambda: plant.run("passed", 2), (2 + 2 + 4, 2 + 2))
    assert plant.unfinished() == []


# --- calls of functions -----------------------------------------------------------------------------------

# They are upper bounds, because versions of Python and of libraries differ by a few.
CALLS_OF_A_TRIGGER = 750
CALLS_OF_A_RUN_OF_A_BATCH = 105
CALLS_OF_A_HOP = 405
CALLS_OF_A_LISTED_TASK_RUN = 32
CALLS_OF_A_DISPATCH = 720


@pytest.fixture
def sending(plant: Plant) -> Plant:
    """A plant whose messages go to the broker."""
    publisher = plant.deployment.publisher
    plant.deployment.database.sender = lambda outbox: type(publisher).publish(publisher, outbox)
    plant.store("chain", *chain(2))
    return plant


def least(count: Callable[[], int]) -> int:
    """What the same costs when all is known: the least of some counts."""
    return min(count() for _ in range(PREPARE_AFTER + 5))


def test_a_trigger_over_http_costs_so_many_calls_of_functions(sending: Plant) -> None:
    path, body = "/api/pipelines/chain/trigger", {"input": {"count": 3}}
    assert least(lambda: sending.calls_of(path, body)) <= CALLS_OF_A_TRIGGER


def test_each_further_run_of_a_batch_costs_so_many_calls_of_functions(sending: Plant) -> None:
    def of(runs: int) -> int:
        body = {"runs": [{"input": {"count": 3}}] * runs}
        return least(lambda: sending.calls_of("/api/pipelines/chain/trigger/batch", body))

    assert (of(21) - of(1)) / 20 <= CALLS_OF_A_RUN_OF_A_BATCH


def test_a_hop_of_a_chain_costs_its_worker_so_many_calls_of_functions(plant: Plant) -> None:
    for length in (2, 22):
        plant.store(f"chain-{length}", *chain(length))

    def of(length: int) -> int:
        plant.trigger(f"chain-{length}")
        with counted_calls() as calls:
            plant.work()
        return calls.total()

    # The rest of a message and of a run is in both.
    assert (least(lambda: of(22)) - least(lambda: of(2))) / 20 <= CALLS_OF_A_HOP
    assert plant.unfinished() == []


def test_each_task_run_that_a_run_shows_costs_so_many_calls_of_functions(plant: Plant) -> None:
    plant.store("map", *MAPPED)
    plant.run("map", 120)
    [run_id] = plant.client.get("/api/runs", headers=plant.headers).json["runs"]

    def of(shown: int) -> int:
        path = f"/api/runs/{run_id['id']}?taskRuns={shown}"
        with counted_calls() as calls:
            answer = plant.client.get(path, headers=plant.headers)
        assert len(answer.json["taskRuns"]) == shown
        return calls.total()

    assert (least(lambda: of(110)) - least(lambda: of(10))) / 100 <= CALLS_OF_A_LISTED_TASK_RUN


# --- steps of HTTP services -------------------------------------------------------------------------------


@dataclass
class Hops:
    """A chain of steps of an HTTP service, and the API processes that take its reports in turn."""

    plant: Plant
    service: TakingService
    clients: list[FlaskClient]
    deployments: list[Deployment]
    done: int = 0

    def hop(self) -> None:
        """Report the end of a step, and wait until the service has the next one and its answer is read."""
        client, deployment = self.clients[0], self.deployments[0]
        self.clients.append(self.clients.pop(0))
        self.deployments.append(self.deployments.pop(0))
        report = {"status": "success", "output": {"n": self.done}}
        path = f"/api/task-runs/{self.service.taken[-1]['runId']}/complete"
        answer = client.post(path, json=report)
        assert (answer.status_code, answer.json["isRepeated"]) == (200, False), answer.text
        self.done += 1
        self.service.dispatches(self.done + 1)
        steps = of_process(deployment.database, deployment.values, deployment.settings)
        assert steps is not None
        wait_until(lambda: steps.is_idle, what="the answer was not read")


def a_step(number: int) -> dict[str, object]:
    """A step that is given what the one before it returned."""
    step: dict[str, object] = {"id": f"s{number}", "task": "take"}
    if number == 0:
        return step | {"needs": []}
    before = f"s{number - 1}"
    return step | {"needs": [before], "params": {"n": f"${{steps.{before}.n}}"}}


@pytest.fixture
def hops(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hops]:
    """A run of a long chain, whose first step runs."""
    monkeypatch.setattr(open_dispatches, "NOTE_AFTER_S", 600.0)
    deployment = plant.deployment
    with taking_service() as service:
        with deployment.database.transaction() as tx:
            task = TaskRegistration("take", "a" * 16)
            service_registration.register(
                tx, TENANT, Registration("takers", "1", "http", service.url, [task])
            )
        plant.store("hops", *(a_step(n) for n in range(40)))
        run_id = ids.read(ids.RUN, plant.trigger("hops"))
        with deployment.database.transaction() as tx:
            [first] = claiming.start(tx, run_id, [1], 1, worker="w#1")
        plant.waiting.clear()
        service.taken.append({"runId": dispatch_ids.make("5e" * 32, first.id, 1)})
        yield Hops(plant, service, [plant.client], [deployment])


def test_a_hop_of_an_http_service_costs_one_statement_and_no_message(hops: Hops) -> None:
    """The report that ends a step claims the next one; its dispatch needs nothing that is not known."""
    assert_costs(hops.hop, (1, 1), of_all_threads=True)
    assert hops.plant.waiting == []


def test_a_hop_whose_report_comes_to_another_process_costs_two_statements_more(hops: Hops) -> None:
    """It reads the row of the attempt and its run, and the outputs before the next step."""
    other = Deployment.open(hops.plant.deployment.settings)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(other.publisher, "publish", hops.plant.waiting.extend)
    hops.clients.append(create_app(other.settings, other).test_client())
    hops.deployments.append(other)
    assert_costs(hops.hop, (3, 3), of_all_threads=True)
    assert hops.plant.waiting == []
    monkey.undo()
    other.close()


def test_a_dispatch_after_a_report_costs_so_many_calls_of_functions(
    hops: Hops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the outputs of all steps before it, and stores the last one of them and its input."""
    seen = []

    def counted(*arguments: Any) -> None:
        with counted_calls() as calls:
            work(*arguments)
        seen.append(calls.total())

    work = NextSteps._work
    monkeypatch.setattr(NextSteps, "_work", counted)
    for _ in range(30):
        hops.hop()
    assert min(seen[-10:]) <= CALLS_OF_A_DISPATCH
