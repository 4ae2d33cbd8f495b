"""Idempotency keys: of all calls with one key, one executes and the others take its result."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.keyed_driver import Keyed
from support.run_driver import PERMANENT, TRANSIENT

from pipeweave import ids
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, KeyWait, TaskRun
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import INLINE_BYTES


@pytest.fixture
def driver(database: Database) -> Keyed:
    return Keyed(database)


# --- one executes, the others take its result -------------------------------------------------------------


def test_the_first_executes_and_its_result_answers_for_the_key(driver: Keyed) -> None:
    first = driver.holder()
    assert driver.row(first).idempotency_key == "k"
    driver.turn(driver.done(first, {"n": 1}))
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Completion)
    assert found.cached_from == first.id
    driver.turn(found)
    row = driver.row(second)
    assert (row.status, row.output, row.attempt) == ("completed", {"n": 1}, 1)
    assert (row.cached_from, row.idempotency_key) == (first.id, "k")
    assert row.output_hash == driver.row(first).output_hash
    assert driver.run(second.run_id).status == "completed"
    driver.assert_told(first.run_id, second.run_id)


def test_a_cached_result_is_marked_in_its_event_and_releases_the_successors(driver: Keyed) -> None:
    first = driver.holder()
    driver.turn(driver.done(first))
    run_id = driver.begin({"a": [], "b": ["a"]})
    found = driver.take(driver.start(run_id))
    assert isinstance(found, Completion)
    driver.turn(found)
    assert driver.statuses(run_id) == {"a": "completed", "b": "queued"}
    (event,) = driver.events(run_id, "task_run.completed")
    assert event.data["cached"] is True
    assert event.data["cachedFrom"] == ids.show(ids.TASK_RUN, first.id)
    (plain,) = driver.events(first.run_id, "task_run.completed")
    assert "cached" not in plain.data


def test_the_files_of_a_result_are_taken_with_it(driver: Keyed) -> None:
    assets = {"a": {"path": "local//runs/x/assets/a", "size": 1, "type": "text"}}
    driver.turn(replace(driver.done(driver.holder()), assets=assets))
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Completion)
    driver.turn(found)
    assert driver.row(second).assets == assets


@pytest.mark.parametrize("output", [None, [], 0, "x" * (INLINE_BYTES + 1)])
def test_any_result_is_taken_as_it_is(driver: Keyed, output: Any) -> None:
    driver.turn(driver.done(driver.holder(), output))
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Completion)
    driver.turn(found)
    row = driver.row(second)
    assert driver.values.load(row.output, row.output_path) == output


def test_a_cached_result_chooses_the_same_successors(driver: Keyed) -> None:
    needs = {"a": [], "b": ["a"], "c": ["a"]}
    driver.store(needs, id="choice")
    first, second = (driver.start(driver.trigger("choice")) for _ in range(2))
    assert driver.take(first) is None
    driver.turn(driver.done(first, chosen=("c",)))
    found = driver.take(second)
    assert isinstance(found, Completion)
    assert found.selected_next == ("c",)
    driver.turn(found)
    for run_id in (first.run_id, second.run_id):
        assert driver.statuses(run_id) == {"a": "completed", "b": "skipped", "c": "queued"}


def test_keys_of_another_tenant_or_task_are_other_keys(driver: Keyed) -> None:
    driver.holder()
    assert driver.take(driver.start(driver.one("limited"))) is None
    other = Keyed(driver.database)
    assert other.take(other.start(other.one())) is None


def test_of_many_at_once_one_executes(driver: Keyed) -> None:
    started = [driver.start(driver.one()) for _ in range(6)]
    found = [
        each.result for each in call_concurrently(*[lambda each=each: driver.take(each) for each in started])
    ]
    assert found.count(None) == 1
    winner = started[found.index(None)]
    assert {each.holder for each in found if isinstance(each, KeyWait)} == {winner.id}


def test_a_claim_waits_for_one_that_is_not_durable_yet(driver: Keyed) -> None:
    first, second = (driver.start(driver.one()) for _ in range(2))
    with driver.database.transaction() as tx:
        assert idempotency.claim(tx, driver.tenant, first, "k") is None
        with BackgroundCall(lambda: driver.take(second)) as beside:
            wait_for_lock(driver.database)
            assert not beside.is_done
            tx.commit()
    found = beside.result
    assert isinstance(found, KeyWait)
    assert found.holder == first.id


def test_a_result_is_read_without_waiting_for_anyone(driver: Keyed) -> None:
    driver.turn(driver.done(driver.holder()))
    second = driver.start(driver.one())
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM idempotency_claims WHERE tenant_id = :t FOR UPDATE", {"t": driver.tenant})
        assert isinstance(driver.take(second), Completion)


# --- many in one run --------------------------------------------------------------------------------------


def test_equal_keys_in_one_turn_are_settled_together(driver: Keyed) -> None:
    run_id = driver.begin({"list": [], "each": ["list"], "after": ["each"]}, maps={"each": "${steps.list}"})
    driver.finish(run_id, "list", output=[1, 1, 2, 1])
    items = [driver.start(run_id, ordinal) for ordinal in range(4, 8)]
    found = [driver.take(each, str(each.item)) for each in items]
    assert [each is None for each in found] == [True, False, True, False]
    outcomes: list[CallOutcome] = [
        driver.done(each, each.item, str(each.item)) if other is None else other
        for each, other in zip(items, found, strict=True)
    ]
    driver.turn(*outcomes)
    assert [driver.row(each).status for each in items] == ["completed", "queued", "completed", "queued"]
    for each in (items[1], items[3]):
        cached = driver.take(driver.start(run_id, each.ordinal), "1")
        assert isinstance(cached, Completion)
        driver.turn(cached)
    assert driver.statuses(run_id)["after"] == "queued"
    driver.assert_told(run_id)


def test_a_run_that_fails_wakes_waiters_of_all_that_it_cancels(driver: Keyed) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": []})
    one, two = driver.start(run_id, 1), driver.start(run_id, 2)
    assert driver.take(one, "k1") is None
    second = driver.waiting("k1")
    driver.turn((two, PERMANENT))
    assert driver.run(run_id).status == "failed"
    assert driver.row(second).status == "queued"
    assert driver.key_row("k1") is None


def test_a_waiter_is_cancelled_when_its_run_fails(driver: Keyed) -> None:
    driver.holder()
    run_id = driver.begin({"a": [], "b": []})
    one, two = driver.start(run_id, 1), driver.start(run_id, 2)
    found = driver.take(one)
    assert isinstance(found, KeyWait)
    driver.turn(found)
    driver.turn((two, PERMANENT))
    assert driver.statuses(run_id) == {"a": "cancelled", "b": "failed"}
    driver.assert_told(run_id)


def test_calls_without_a_key_leave_no_trace(driver: Keyed) -> None:
    run_id = driver.one()
    driver.finish(run_id, "a")
    (row,) = driver.task_runs(run_id)
    assert (row.idempotency_key, row.awaits, row.cached_from) == (None, None, None)
    assert driver.key_row() is None
    with driver.database.transaction() as tx:
        assert idempotency.lock(tx, driver.tenant, [(claim_none(), PERMANENT)]) == set()


def claim_none() -> TaskRun:
    """A task run that nothing is done with."""
    values = (ids.new_id(), ids.new_id(), "a", "noop", "task", TaskStatus.RUNNING, 1, None, None, None)
    return TaskRun(*values, 100, "q", False, 1, "hash")


# --- by chance --------------------------------------------------------------------------------------------


class Chances:
    """Task runs with a few keys, to whom anything happens in any order."""

    def __init__(self, driver: Keyed, seed: int, runs_: int = 8, keys: int = 2) -> None:
        self.driver = driver
        self.chance = random.Random(seed)
        made = [driver.one("noop" if n % 3 else "one") for n in range(runs_)]
        self.keys = {run_id: f"k{self.chance.randrange(keys)}" for run_id in made}
        self.executing: dict[UUID, TaskRun] = {}
        self.awaiting: dict[UUID, KeyWait] = {}
        # Executions that began and that a result or a failure has ended, by task and key.
        self.results: dict[tuple[str, str], list[str]] = {}

    @property
    def is_over(self) -> bool:
        return all(self.driver.run(run_id).finished_at is not None for run_id in self.keys)

    def step(self) -> None:
        rows = {run_id: self.driver.task_runs(run_id)[0] for run_id in self.keys}
        run_id = self.chance.choice(list(rows))
        row = rows[run_id]
        if run_id in self.awaiting:
            self.driver.turn(self.awaiting.pop(run_id))
        elif run_id in self.executing:
            self.end(run_id, row)
        elif row.status == "queued":
            self.begin(run_id, row)
        elif row.status == "pending" and row.awaits is None:
            self.driver.rows("UPDATE task_runs SET due_at = now() WHERE id = :id RETURNING 1", id=row.id)
            due_attempts.release_due(self.driver.database)
        elif self.chance.random() < 0.02 and row.finished_at is None:
            self.driver.database.run(lambda tx: triggering.cancel(tx, self.driver.tenant, run_id))
        self.check()

    def begin(self, run_id: UUID, row: Any) -> None:
        started = self.driver.start(run_id, attempt=row.attempt)
        found = self.driver.take(started, self.keys[run_id])
        if found is None:
            self.executing[run_id] = started
        elif isinstance(found, KeyWait):
            self.awaiting[run_id] = found
        else:
            assert found.output.inline == f'"{self.results[row.task_id, self.keys[run_id]][-1]}"'
            self.driver.turn(found)

    def end(self, run_id: UUID, row: Any) -> None:
        started, key = self.executing.pop(run_id), self.keys[run_id]
        ending = self.chance.random()
        if ending < 0.15:
            self.driver.turn((started, failure.lost("its worker is gone")))
        elif ending < 0.3:
            self.driver.turn((started, TRANSIENT))
        elif ending < 0.4:
            self.driver.turn((started, PERMANENT))
        elif ending < 0.45:
            self.driver.database.run(lambda tx: triggering.cancel(tx, self.driver.tenant, run_id))
        else:
            self.driver.turn(self.driver.done(started, str(run_id), key))
            self.results.setdefault((row.task_id, key), []).append(str(run_id))

    def check(self) -> None:
        """Nobody executes beside another one, and nobody waits for nothing."""
        rows = {run_id: self.driver.task_runs(run_id)[0] for run_id in self.keys}
        names = [(rows[run_id].task_id, self.keys[run_id]) for run_id in self.executing]
        assert len(names) == len(set(names))
        for run_id, row in rows.items():
            if row.status == "pending" and row.awaits is not None:
                others = [
                    each
                    for other, each in rows.items()
                    if each.task_id == row.task_id and self.keys[other] == self.keys[run_id]
                ]
                assert any(each.finished_at is None and each.awaits is None for each in others), "it is stuck"


@pytest.mark.parametrize("seed", range(12))
def test_in_random_histories_one_task_run_at_a_time_executes_under_a_key_and_all_waiters_are_woken(
    driver: Keyed, seed: int
) -> None:
    chances = Chances(driver, seed)
    for _ in range(400):
        chances.step()
        if chances.is_over:
            break
    assert chances.is_over
    assert all(len(each) == 1 for each in chances.results.values()), "a key gave more than one result"
    driver.assert_told(*chances.keys)
