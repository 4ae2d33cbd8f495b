"""PostgreSQL commits, and its answer is lost: what a process then holds without knowing it is given back."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import orjson
import pytest
from celery import Celery
from support.factories import register
from support.run_driver import RunDriver, claim, header
from support.stored_values import values_in

from pipeweave import Context, ids
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.errors import Deadlocked, Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.outbox import ChordPart, InvalidChord, JoinCheck, Outgoing, Released
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine.hand_over import Unstarted
from pipeweave.orchestrator.messaging.envelope import RUN_TASK
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.settings import Settings
from pipeweave.storage.local import LocalStorage
from pipeweave.workers.consumer import child_slots, runner
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.celery_tasks import define
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.message import Work
from pipeweave.workers.consumer.runner import ChildProcess, Runner

APP = Celery("doubt", broker="memory://", set_as_current=False)
# The one whose turn it is: Celery shares tasks among all its apps, so they are defined once.
runners: list[Runner] = []
define(APP, lambda: runners[-1])


class Forgetful(Database):
    """Commits, and says for some transactions that it cannot tell; of these no message leaves.

    Some it refuses.
    """

    # Which of the next transactions: 0 is the next one.
    doubtful: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    begun = 0

    @contextmanager
    def _begin(self, *, is_one: bool) -> Iterator[Transaction]:
        is_doubtful, is_refused = self.begun in self.doubtful, self.begun in self.refused
        self.begun += 1
        if is_refused:
            raise ValueError("it cannot be stored")
        with super()._begin(is_one=is_one) as tx:
            yield tx
            if is_doubtful:
                tx.outbox.clear()
        if is_doubtful:
            raise Unavailable("the answer was lost")

    def doubt(self, *ordinals: int) -> None:
        self.doubtful = frozenset(self.begun + each for each in ordinals)

    def refuse(self, *ordinals: int) -> None:
        self.refused = frozenset(self.begun + each for each in ordinals)


@dataclass
class Child:
    """A worker's child with its messages, in this process."""

    driver: RunDriver
    database: Forgetful
    calls: list[str] = field(default_factory=list)
    # What a function does beside noting its call.
    on_call: Callable[[], object] = bool
    is_stopping: bool = False
    # How often its process would have ended.
    leaves: int = 0
    # How many promotions of PostgreSQL its process has noticed.
    promotions: int = 0
    # What left beside the messages of transactions.
    published: list[Outgoing] = field(default_factory=list)

    def stop(self) -> None:
        """The worker is told to stop."""
        self.is_stopping = True

    def leave(self) -> None:
        """Its process would end."""
        self.leaves += 1

    def take(self, message: Released) -> None:
        """Work off a message."""
        APP.tasks[RUN_TASK](message.run_id.hex, [message.ordinal], message.attempt, -1, [])

    def take_first(self) -> None:
        """Work off the only message there is."""
        [message] = [each for each in self.driver.sent if isinstance(each, Released)]
        self.driver.sent.clear()
        self.take(message)

    def take_all(self) -> None:
        """Work off every message there is, and those that follow."""
        while waiting := [each for each in self.driver.sent if isinstance(each, Released)]:
            self.driver.sent.remove(waiting[0])
            self.take(waiting[0])


@pytest.fixture
def child(database_url: str, tmp_path: Path) -> Iterator[Child]:
    values = values_in(LocalStorage(tmp_path / "storage"))
    database = Forgetful(database_url)
    driver = RunDriver(database, values=values)
    made = Child(driver, database)

    def noop(ctx: Context) -> None:
        made.calls.append(str(ctx.step_id))
        made.on_call()

    tasks: dict[str, Task[..., Any]] = {"noop": Task(noop, TaskSpec(id="noop", code_hash="0" * 64))}
    settings = Settings(database_url=database_url, broker_url="memory://", tenant=driver.tenant)
    publisher: Any = SimpleNamespace(publish=made.published.extend)
    deployment = Deployment(settings, database, values, publisher=publisher)
    slot = Slots(1).take(0, os.getpid())
    assert slot is not None
    post = ChildProcess(
        f"w#{os.getpid()}",
        (f"pipeweave.{driver.tenant}.python",),
        slot,
        lambda: made.is_stopping,
        leave=made.leave,
        promotions=lambda: made.promotions,
    )
    runners.append(Runner(deployment, Calls(database, values, tasks, settings), post))
    yield made
    database.dispose()


CHAIN = {"a": [], "b": ["a"], "c": ["b"]}


@pytest.mark.parametrize(
    "doubtful",
    [(0,), (1,), (2,), (3,), (0, 1), (1, 2), (1, 3), (0, 2, 4)],
    ids=lambda which: f"transaction {', '.join(map(str, which))}",
)
def test_whichever_answers_are_lost_every_step_is_called_once(
    child: Child, doubtful: tuple[int, ...]
) -> None:
    run_id = child.driver.begin(CHAIN)
    child.database.doubt(*doubtful)
    child.take_all()
    assert child.driver.statuses(run_id) == {"a": "completed", "b": "completed", "c": "completed"}
    assert child.driver.run(run_id).status == "completed"
    assert child.calls == ["a", "b", "c"]
    with verify.snapshot(child.database) as tx:
        assert verify.run(tx, run_id) == []


def test_a_child_that_a_task_has_spoilt_stores_the_result_hands_over_the_rest_and_leaves(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = child.driver.begin(CHAIN)

    def spoil() -> None:
        monkeypatch.setattr(orjson, "dumps", lambda *_, **__: b"null")
        child.on_call = bool

    child.on_call = spoil
    child.take_first()
    assert child.driver.statuses(run_id) == {"a": "completed", "b": "queued", "c": "pending"}
    assert (child.calls, child.leaves) == (["a"], 1)
    assert {each.ordinal for each in child.driver.sent if isinstance(each, Released)} == {2}
    assert attempts(child, run_id) == []


def test_a_claim_whose_answer_was_lost_is_given_back_and_sent_again(child: Child) -> None:
    run_id = child.driver.begin(CHAIN)
    child.database.doubt(0)
    child.take_first()
    assert child.driver.statuses(run_id)["a"] == "queued"
    assert child.calls == []
    assert {each.ordinal for each in child.driver.sent if isinstance(each, Released)} == {1}


# --- a standby took over ----------------------------------------------------------------------------------


def came_back(child: Child) -> tuple[UUID, str]:
    """A run whose first step is `running` in the name of the child, though its call has ended: the standby
    that took over does not know that.
    """
    run_id = child.driver.begin(CHAIN)
    child.driver.sent.clear()
    with child.database.transaction() as tx:
        assert claim(tx, run_id, 1, f"w#{os.getpid()}")
    child.promotions += 1
    return run_id, child.driver.statuses(run_id)["a"]


def test_before_its_next_message_a_child_gives_back_what_a_promotion_left_in_its_name(child: Child) -> None:
    run_id, before = came_back(child)
    assert before == "running"
    other = child.driver.begin(CHAIN)
    child.take_all()
    assert child.driver.run(other).status == "completed"
    assert child.driver.run(run_id).status == "completed"
    assert attempts(child, run_id) == []


def test_between_two_messages_a_child_gives_back_what_a_promotion_left_in_its_name(child: Child) -> None:
    run_id, _ = came_back(child)
    runners[-1].watchdog.between()
    assert child.driver.statuses(run_id)["a"] == "queued"
    assert {each.ordinal for each in child.driver.sent if isinstance(each, Released)} == {1}


def test_while_a_message_is_under_way_its_claims_are_left_alone(child: Child) -> None:
    run_id, _ = came_back(child)
    with runners[-1].at_work:
        runners[-1].watchdog.between()
    assert child.driver.statuses(run_id)["a"] == "running"


# --- what cannot be stored --------------------------------------------------------------------------------


def attempts(child: Child, run_id: UUID) -> list[tuple[str, int, str]]:
    statement = """SELECT t.step_id, a.number, a.status FROM attempts AS a
        JOIN task_runs AS t ON t.run_id = a.run_id AND t.id = a.task_run_id
        WHERE a.run_id = :id ORDER BY t.id, a.number"""
    return [tuple(row) for row in child.driver.rows(statement, id=run_id)]


def test_a_call_whose_result_cannot_be_stored_is_lost_at_once_and_another_attempt_follows(
    child: Child,
) -> None:
    run_id = child.driver.begin(CHAIN)
    child.database.refuse(1)
    with pytest.raises(ValueError, match="cannot be stored"):
        child.take_first()
    assert attempts(child, run_id) == [("a", 1, "lost")]
    assert child.leaves == 1
    child.take_all()
    assert child.driver.run(run_id).status == "completed"
    assert child.calls == ["a", "a", "b", "c"]


def test_a_message_that_cannot_be_begun_is_left_to_the_tick(child: Child) -> None:
    run_id = child.driver.begin(CHAIN)
    child.database.refuse(0)
    with pytest.raises(ValueError, match="cannot be stored"):
        child.take_first()
    # Sent at once, it would come back without end.
    assert (child.driver.statuses(run_id)["a"], child.driver.sent, child.calls) == ("queued", [], [])
    assert (attempts(child, run_id), child.leaves) == ([], 1)


def test_a_call_that_cannot_be_stored_is_lost_and_the_rest_of_its_message_is_handed_over(
    child: Child,
) -> None:
    run_id = child.driver.begin({"a": [], "b": []})
    worker = f"w#{os.getpid()}"
    with child.database.transaction() as tx:
        run = header(tx, run_id)
        called, waiting = (claim(tx, run_id, run.plan.ordinals[step], worker=worker) for step in "ab")
    assert called is not None
    assert waiting is not None
    child.driver.sent.clear()
    child.database.refuse(0)
    given = Completion(called, child.driver.values.keep(1))
    runners[-1].watchdog.store(Work(run), [given], Unstarted([waiting]))
    assert attempts(child, run_id) == [("a", 1, "lost")]
    assert child.driver.statuses(run_id)["b"] == "queued"
    assert waiting.ordinal in child.driver.released(run_id)


# --- who claims in between --------------------------------------------------------------------------------


def test_a_repeated_give_back_leaves_the_claim_of_another_worker_alone(child: Child) -> None:
    run_id: UUID = child.driver.begin(CHAIN)
    with child.database.transaction() as tx:
        held = claim(tx, run_id, 1, worker="first")
        assert held is not None
        assert claiming.give_back(tx, [held], worker="first")
        assert claim(tx, run_id, 1, worker="second") is not None
        assert claiming.give_back(tx, [held], worker="first") == []
    assert child.driver.statuses(run_id)["a"] == "running"


@pytest.mark.parametrize(("attempt", "expected"), [(1, [3, 3, 3]), (2, [1, 1, 1])])
def test_another_attempt_is_claimed_alone(
    child: Child, attempt: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should its worker die, nobody has to guess whether it had begun."""
    # All three fit in a turn, however long they take here.
    monkeypatch.setattr(runner, "TURN_S", 3_600.0)
    run_id = child.driver.begin({"a": [], "b": [], "c": []})
    child.driver.rows(
        "UPDATE task_runs SET attempt = :to WHERE run_id = :id RETURNING 1", to=attempt, id=run_id
    )
    running: list[int] = []
    child.on_call = lambda: running.append(
        [row.status for row in child.driver.task_runs(run_id)].count("running")
    )
    runners[-1].durations.record(child.driver.tenant, "noop", 0.001)
    APP.tasks[RUN_TASK](run_id.hex, [1, 2, 3], attempt, -1, [])
    assert child.calls == ["a", "b", "c"]
    assert running == expected


@pytest.mark.parametrize(
    ("needs", "left"),
    [({"a": [], "b": ["a"]}, [2]), ({"a": [], "b": [], "c": []}, [2, 3])],
    ids=["what follows", "the rest of its message"],
)
@pytest.mark.parametrize("is_quick", [True, False], ids=["claimed together", "claimed one by one"])
def test_a_worker_that_is_told_to_stop_begins_nothing_more(
    child: Child, needs: dict[str, list[str]], left: list[int], is_quick: bool
) -> None:
    run_id = child.driver.begin(needs)
    child.driver.sent.clear()
    child.on_call = child.stop
    if is_quick:
        runners[-1].durations.record(child.driver.tenant, "noop", 0.001)
    entries = [number for number, step in enumerate(needs, start=1) if not needs[step]]
    APP.tasks[RUN_TASK](run_id.hex, entries, 1, -1, [])
    assert child.calls == ["a"]
    expected = ["completed"] + ["queued"] * (len(needs) - 1)
    assert [row.status for row in child.driver.task_runs(run_id)] == expected
    assert sorted(child.driver.released(run_id)) == left
    for ordinal in left:
        APP.tasks[RUN_TASK](run_id.hex, [ordinal], 1, -1, [])
    assert child.calls == ["a"], "a message that comes now is handed over, too"
    assert [row.status for row in child.driver.task_runs(run_id)] == expected
    assert sorted(child.driver.released(run_id)) == sorted(left * 2)


def test_a_deadlock_loses_no_task_run_of_the_message(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim that was broken off had taken it from the list."""
    run_id = child.driver.begin({"a": [], "b": [], "c": []})
    start, tries = claiming.start, itertools.count()

    def start_or_deadlock(*arguments: Any, **options: Any) -> list[TaskRun]:
        started = start(*arguments, **options)
        if ids.task_run_id(run_id, 2) in {each.id for each in started} and next(tries) == 0:
            claiming.give_back(arguments[0], started)
            raise Deadlocked("two transactions waited for each other")
        return started

    monkeypatch.setattr(claiming, "start", start_or_deadlock)
    APP.tasks[RUN_TASK](run_id.hex, [1, 2, 3], 1, -1, [])
    assert next(tries) > 1
    assert child.calls == ["a", "b", "c"]


def deadlock_once(monkeypatch: pytest.MonkeyPatch, module: ModuleType, verb: str) -> None:
    """The first call of a verb ends in a deadlock."""
    real, calls = getattr(module, verb), itertools.count()

    def verb_or_deadlock(*arguments: Any, **named: Any) -> Any:
        if next(calls) == 0:
            raise Deadlocked("two transactions waited for each other")
        return real(*arguments, **named)

    monkeypatch.setattr(module, verb, verb_or_deadlock)


def test_a_step_that_runs_here_already_is_not_forgotten_when_a_limit_deadlocks(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its predecessor was stored by a statement of its own: done again, that statement would find nothing."""
    run_id = child.driver.begin({"a": [], "b": ["a"], "c": ["a"]}, tasks={"c": "limited"})
    deadlock_once(monkeypatch, limits, "fill")
    child.take_first()
    assert child.calls == ["a", "b"]
    assert child.driver.statuses(run_id) == {"a": "completed", "b": "completed", "c": "queued"}


def test_released_steps_are_sent_though_the_next_claim_deadlocks(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    with child.database.transaction() as tx:
        register(tx, child.driver.tenant, "elsewhere", id="another")
    run_id = child.driver.begin({"a": [], "b": [], "c": ["a"]}, tasks={"c": "elsewhere"})
    child.driver.sent.clear()
    deadlock_once(monkeypatch, claiming, "start")
    APP.tasks[RUN_TASK](run_id.hex, [1, 2], 1, -1, [])
    assert child.calls == ["a", "b"]
    assert child.driver.released(run_id) == [3]


def test_a_message_may_go_on_for_longer_than_a_slot_can_note_calls(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_slots, "MOST_CALLED", 2)
    run_id = child.driver.begin({"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]})
    APP.tasks[RUN_TASK](run_id.hex, [1], 1, -1, [])
    assert child.calls == ["a", "b", "c", "d", "e"]
    assert child.driver.run(run_id).status == "completed"


def test_a_message_counts_for_its_joins_only_if_it_found_something_to_do(child: Child) -> None:
    """Whoever does it counts when it is done; counted before, nobody would ask about the join again."""
    wide = [f"a{number}" for number in range(8)]
    run_id = child.driver.begin({**{each: [] for each in wide}, "join": wide})
    with child.database.transaction() as tx:
        held = claim(tx, run_id, 1, worker="another")
    APP.tasks[RUN_TASK](run_id.hex, [1], 1, 0, [9])
    queue = runners[-1].queue
    assert child.published == [InvalidChord(run_id, 9), JoinCheck(run_id, 9, queue)]
    child.published.clear()
    with child.database.transaction() as tx:
        assert held is not None
        claiming.give_back(tx, [held])
    APP.tasks[RUN_TASK](run_id.hex, [1], 1, 0, [9])
    assert child.published == [ChordPart(run_id, 9, queue, message=0)]
