"""Of those with the same idempotency key one executes at a time, and its result answers for all of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import a_task, register
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, header

from pipeweave import ids
from pipeweave.errors import AttemptFenced
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.call_outcome import CallOutcome, task_run_of
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Awaits, Completion, TaskRun
from pipeweave.orchestrator.engine import idempotency, key_waiters
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.reactions import reactions_to
from pipeweave.orchestrator.runs.standalone_tasks import Queued, QueueRequest
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.size_limits import INLINE_BYTES

TTL_S = 60
DAY = timedelta(days=1)


class Keyed(RunDriver):
    """A driver whose calls have idempotency keys."""

    def __post_init__(self) -> None:
        super().__post_init__()
        with self.database.transaction() as tx:
            brief = a_task("brief", idempotency_ttl=TTL_S, retry_delay_ms=60_000)
            register(tx, self.tenant, brief, a_task("one", concurrency=1), id="keyed")

    def one(self, task: str = "noop", **members: Any) -> UUID:
        """Begin a run of one step."""
        return self.begin({"a": []}, tasks={"a": task}, **members)

    def start(self, run_id: UUID, ordinal: int = 1, attempt: int = 1, worker: str = "w1") -> TaskRun:
        """Claim a queued task run."""
        with self.database.transaction() as tx:
            (started,) = claiming.start(tx, run_id, [ordinal], attempt, worker=worker)
            return started

    def take(self, started: TaskRun, key: str = "k") -> Completion | Awaits | None:
        """What becomes of a call with this key."""
        with self.database.statements() as tx:
            return idempotency.claim(tx, self.tenant, started, key)

    def holder(self, key: str = "k", task: str = "noop") -> TaskRun:
        """A task run of a run of its own that executes under a key."""
        started = self.start(self.one(task))
        assert self.take(started, key) is None
        return started

    def turn(self, *outcomes: CallOutcome) -> list[TaskRun]:
        """Store outcomes as a worker does; those that ended with it."""
        called = [task_run_of(each) for each in outcomes]
        with self.database.transaction() as tx:
            before = self._final(tx, called)
            Turn(header(tx, called[0].run_id), outcomes, called[0].queue).store(tx)
            return [each for each in self._final(tx, called) if each not in before]

    @staticmethod
    def _final(tx: Transaction, called: Sequence[TaskRun]) -> list[TaskRun]:
        statement = "SELECT t.id FROM task_runs AS t WHERE t.id = ANY(:ids) AND t.finished_at IS NOT NULL"
        final = set(tx.execute(statement, {"ids": [each.id for each in called]}).scalars())
        return [each for each in called if each.id in final]

    def done(
        self, started: TaskRun, output: Any = "done", key: str = "k", chosen: tuple[str, ...] | None = None
    ) -> Completion:
        """What its function gives."""
        return Completion(started, self.database.values_or_raise.keep(output), chosen, key)

    def row(self, task_run: TaskRun) -> Any:
        return self.rows("SELECT * FROM task_runs WHERE id = :id", id=task_run.id)[0]

    def key_row(self, key: str = "k") -> Any:
        found = self.rows(
            "SELECT * FROM idempotency_claims WHERE tenant_id = :tenant AND key = :key",
            tenant=self.tenant,
            key=key,
        )
        return found[0] if found else None

    def waiting(self, key: str = "k", task: str = "noop") -> TaskRun:
        """A task run of a run of its own that stepped back."""
        started = self.start(self.one(task))
        found = self.take(started, key)
        assert isinstance(found, Awaits)
        self.turn(found)
        return started

    def waiting_for_another(self) -> TaskRun:
        """One that waits for another key."""
        self.holder("another")
        return self.waiting("another")

    def assert_told(self, *runs: UUID) -> None:
        """Events and rows of runs agree."""
        for run_id in runs:
            with verify.snapshot(self.database) as tx:
                assert verify.run(tx, run_id) == []


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


def test_a_cached_result_says_so_in_its_event_and_releases_what_follows(driver: Keyed) -> None:
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


@pytest.mark.parametrize("output", [None, [], 0, "x" * (INLINE_BYTES + 1)])
def test_any_result_is_taken_as_it_is(driver: Keyed, output: Any) -> None:
    driver.turn(driver.done(driver.holder(), output))
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Completion)
    driver.turn(found)
    row = driver.row(second)
    assert driver.database.values_or_raise.load(row.output, row.output_path) == output


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
    assert {each.holder for each in found if isinstance(each, Awaits)} == {winner.id}


def test_a_claim_waits_for_one_that_is_not_durable_yet(driver: Keyed) -> None:
    first, second = (driver.start(driver.one()) for _ in range(2))
    with driver.database.transaction() as tx:
        assert idempotency.claim(tx, driver.tenant, first, "k") is None
        with BackgroundCall(lambda: driver.take(second)) as beside:
            wait_for_lock(driver.database)
            assert not beside.is_done
            tx.commit()
    found = beside.result
    assert isinstance(found, Awaits)
    assert found.holder == first.id


def test_a_result_is_read_without_waiting_for_anyone(driver: Keyed) -> None:
    driver.turn(driver.done(driver.holder()))
    second = driver.start(driver.one())
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM idempotency_claims WHERE tenant_id = :t FOR UPDATE", {"t": driver.tenant})
        assert isinstance(driver.take(second), Completion)


# --- stepping back and going on ---------------------------------------------------------------------------


def test_who_finds_the_key_taken_waits_without_a_worker_and_without_an_attempt(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    row = driver.row(second)
    assert (row.status, row.attempt, row.worker, row.started_at) == ("pending", 1, None, None)
    assert (row.awaits, row.idempotency_key) == (first.id, "k")
    assert row.due_at > datetime.now(UTC)
    assert driver.rows("SELECT 1 FROM attempts WHERE run_id = :id", id=second.run_id) == []
    (event,) = driver.events(second.run_id, "task_run.stepped_back")
    assert event.data["awaits"] == ids.show(ids.TASK_RUN, first.id)
    driver.assert_told(second.run_id)


def test_the_end_of_the_holder_wakes_all_who_wait(driver: Keyed) -> None:
    first = driver.holder()
    waiting = [driver.waiting() for _ in range(3)]
    other = driver.waiting_for_another()
    driver.sent.clear()
    driver.turn(driver.done(first, 7))
    for each in waiting:
        row = driver.row(each)
        assert (row.status, row.due_at, row.awaits, row.attempt) == ("queued", None, None, 1)
        assert driver.released(each.run_id) == [1]
        found = driver.take(driver.start(each.run_id))
        assert isinstance(found, Completion)
        driver.turn(found)
        assert driver.row(each).output == 7
        driver.assert_told(each.run_id)
    assert driver.row(other).status == "pending"


def test_more_than_one_transaction_wakes_are_woken_all_the_same(
    driver: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_waiters, "BATCH", 2)
    first = driver.holder()
    waiting = [driver.waiting() for _ in range(5)]
    driver.turn(driver.done(first))
    assert [driver.row(each).status for each in waiting] == ["queued"] * 5


def test_a_failure_is_not_kept_and_one_waiter_takes_its_place(driver: Keyed) -> None:
    first = driver.holder()
    waiting = [driver.waiting() for _ in range(3)]
    driver.turn((first, PERMANENT))
    assert driver.key_row() is None
    assert [driver.row(each).status for each in waiting] == ["queued", "pending", "pending"]
    second = driver.start(waiting[0].run_id)
    assert driver.take(second) is None
    assert driver.key_row().task_run_id == second.id
    driver.turn(driver.done(second, 2))
    assert [driver.row(each).status for each in waiting] == ["completed", "queued", "queued"]


def test_a_cancelled_holder_gives_way_and_its_late_result_counts_for_nothing(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, first.run_id))
    assert driver.row(second).status == "queued"
    assert driver.turn(driver.done(first, "late")) == []
    assert driver.take(driver.start(second.run_id)) is None
    assert driver.key_row().finished_at is None


def test_a_waiter_that_is_cancelled_leaves_the_holder_alone(driver: Keyed) -> None:
    first = driver.holder()
    second, third = driver.waiting(), driver.waiting()
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, second.run_id))
    assert driver.key_row().task_run_id == first.id
    assert driver.row(third).status == "pending"


def test_the_next_holder_may_be_cancelled_before_it_begins(driver: Keyed) -> None:
    first = driver.holder()
    second, third = driver.waiting(), driver.waiting()
    driver.turn((first, PERMANENT))
    assert [driver.row(each).status for each in (second, third)] == ["queued", "pending"]
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, second.run_id))
    assert driver.row(third).status == "queued"


def test_a_wake_up_that_was_lost_is_made_up_for_when_it_is_due(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    with driver.database.transaction() as tx:
        # As a process leaves it that dies between its commit and what it does after that.
        advance = Advance(tx, header(tx, first.run_id))
        advance.settle(advance.fail([(first, PERMANENT)]))
        tx._after.clear()
    assert (driver.row(second).status, driver.key_row().task_run_id) == ("pending", first.id)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE task_runs SET due_at = now() WHERE id = :id", {"id": second.id})
    due_attempts.release(driver.database)
    assert driver.row(second).status == "queued"
    assert driver.take(driver.start(second.run_id)) is None, "a holder that failed is taken over"


def test_the_longer_the_holder_takes_the_later_a_waiter_looks_on_its_own(driver: Keyed) -> None:
    driver.holder()
    started = driver.start(driver.one())
    found = driver.take(started)
    assert isinstance(found, Awaits)
    now = datetime.now(UTC)
    pauses = []
    for age in (timedelta(), timedelta(seconds=100), DAY):
        run_id = driver.one()
        each = driver.start(run_id)
        driver.turn(Awaits(each, "k", found.holder, now - age))
        pauses.append(driver.row(each).due_at - now)
    leeway = timedelta(seconds=10)
    for pause, expected in zip(
        pauses, (key_waiters.SOONEST, timedelta(seconds=100), key_waiters.LATEST), strict=True
    ):
        assert expected - leeway < pause < expected + leeway


def test_a_limited_task_that_waits_leaves_its_slot_to_others(driver: Keyed) -> None:
    first = driver.start(driver.one("limited"))
    assert driver.take(first) is None
    second, third = driver.start(driver.one("limited")), driver.one("limited")
    found = driver.take(second)
    assert isinstance(found, Awaits)
    assert driver.statuses(third) == {"a": "ready"}
    driver.turn(found)
    assert driver.statuses(third) == {"a": "queued"}
    driver.turn(driver.done(first))
    assert driver.row(second).status == "queued"


# --- stepping back while the holder ends ------------------------------------------------------------------


def ends_well(driver: Keyed, holder: TaskRun) -> object:
    return driver.turn(driver.done(holder))


def ends_badly(driver: Keyed, holder: TaskRun) -> object:
    return driver.turn((holder, PERMANENT))


def is_cancelled(driver: Keyed, holder: TaskRun) -> object:
    return driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, holder.run_id))


@pytest.mark.parametrize("end", [ends_well, ends_badly, is_cancelled])
def test_who_steps_back_just_after_the_holder_ended_goes_on_at_once(
    driver: Keyed, end: Callable[[Keyed, TaskRun], object]
) -> None:
    first = driver.holder()
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Awaits)
    end(driver, first)
    driver.turn(found)
    assert driver.row(second).status == "queued"


@pytest.mark.parametrize("end", [ends_well, ends_badly, is_cancelled])
def test_who_steps_back_while_the_holder_ends_is_not_forgotten(
    driver: Keyed, end: Callable[[Keyed, TaskRun], object]
) -> None:
    first = driver.holder()
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Awaits)
    call_concurrently(lambda: driver.turn(found), lambda: end(driver, first))
    assert driver.row(second).status == "queued"


def test_the_end_of_the_holder_waits_for_who_is_stepping_back(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, Awaits)
    with driver.database.transaction() as tx:
        assert idempotency.lock(tx, driver.tenant, [found]) == set()
        with BackgroundCall(lambda: driver.turn(driver.done(first))) as beside:
            wait_for_lock(driver.database)
            idempotency.settle(tx, header(tx, second.run_id), [found], [], set(), TouchedLimits())
            tx.commit()
    assert beside.result
    assert driver.row(second).status == "queued"


def test_turns_that_end_and_await_each_others_keys_do_not_block_each_other(driver: Keyed) -> None:
    runs_ = {key: driver.begin({"a": [], "b": []}) for key in ("k1", "k2")}
    holders = {key: driver.start(run_id, 1) for key, run_id in runs_.items()}
    assert [driver.take(each, key) for key, each in holders.items()] == [None, None]
    found = {
        key: driver.take(driver.start(runs_[key], 2), other) for key, other in (("k1", "k2"), ("k2", "k1"))
    }

    def turn(key: str) -> Callable[[], object]:
        awaits = found[key]
        assert isinstance(awaits, Awaits)
        return lambda: driver.turn(driver.done(holders[key], key, key), awaits)

    for each in call_concurrently(turn("k1"), turn("k2")):
        assert each.error is None
    assert [driver.statuses(run_id) for run_id in runs_.values()] == [{"a": "completed", "b": "queued"}] * 2


# --- retries, losses, expiry ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [TRANSIENT, failure.lost("its worker is gone"), failure.interrupted()],
    ids=lambda each: each.code,
)
def test_a_key_stays_with_its_task_run_through_further_attempts(driver: Keyed, ending: Failure) -> None:
    first = driver.holder()
    second = driver.waiting()
    driver.turn((first, ending))
    assert driver.row(second).status == "pending", "its holder goes on"
    third = driver.start(driver.one())
    assert isinstance(driver.take(third), Awaits)
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET due_at = now() WHERE id = :id AND status = 'pending'", {"id": first.id}
        )
    due_attempts.release(driver.database)
    again = driver.start(first.run_id, attempt=2)
    assert again.idempotency_key == "k"
    assert driver.take(again) is None
    driver.turn(driver.done(again, "at last"))
    assert driver.row(second).status == "queued"


def test_an_attempt_that_is_not_its_workers_any_more_takes_no_key(driver: Keyed) -> None:
    late = driver.start(driver.one())
    driver.turn((late, failure.lost("its worker is gone")))
    with pytest.raises(AttemptFenced):
        driver.take(late)
    assert driver.key_row() is None
    driver.turn(driver.done(driver.holder()))
    assert isinstance(driver.take(late), Completion), "which changes nothing when it is stored"


def test_an_attempt_takes_no_key_while_the_next_one_runs(driver: Keyed) -> None:
    late = driver.start(driver.one())
    driver.turn((late, failure.lost("its worker is gone")))
    again = driver.start(late.run_id, attempt=2, worker="w2")
    with pytest.raises(AttemptFenced):
        driver.take(late)
    assert driver.key_row() is None
    assert driver.take(again) is None


def test_a_late_result_does_not_answer_for_the_key_of_the_next_attempt(driver: Keyed) -> None:
    late = driver.holder()
    waiter = driver.waiting()
    driver.turn((late, failure.lost("its worker is gone")))
    again = driver.start(late.run_id, attempt=2, worker="w2")
    assert driver.take(again) is None
    assert driver.turn(driver.done(late, "late")) == []
    assert driver.key_row().finished_at is None
    assert driver.row(waiter).status == "pending"
    driver.turn(driver.done(again, "in time"))
    assert driver.key_row().output == "in time"
    assert driver.row(waiter).status == "queued"


def test_a_result_answers_only_for_a_key_that_its_task_run_has(driver: Keyed) -> None:
    """Should two ever execute under a key, the one that wrote itself into it last answers for it."""
    holder, other = driver.holder(), driver.start(driver.one())
    driver.rows("UPDATE task_runs SET idempotency_key = 'k' WHERE id = :id RETURNING 1", id=other.id)
    driver.turn(driver.done(other, "another's"))
    assert driver.row(other).status == "completed"
    assert (driver.key_row().task_run_id, driver.key_row().finished_at) == (holder.id, None)


def test_who_looks_while_the_holder_is_ending_takes_its_result(driver: Keyed) -> None:
    holder, other = driver.holder(), driver.start(driver.one())
    with driver.database.transaction() as tx:
        Turn(header(tx, holder.run_id), [driver.done(holder)], holder.queue).store(tx)
        beside = BackgroundCall(lambda: driver.take(other))
        beside.__enter__()
        wait_for_lock(driver.database)
    assert isinstance(beside.result, Completion)
    assert beside.result.cached_from == holder.id


def test_a_result_answers_for_as_long_as_its_task_says(database: Database) -> None:
    ahead = timedelta()
    moved = Database(
        database.url, values=database.values, react=reactions_to, now=lambda: datetime.now(UTC) + ahead
    )
    driver = Keyed(moved)
    driver.turn(driver.done(driver.holder(task="brief")))
    ahead = timedelta(seconds=TTL_S - 10)
    assert isinstance(driver.take(driver.start(driver.one("brief"))), Completion)
    ahead = timedelta(seconds=TTL_S + 10)
    second = driver.start(driver.one("brief"))
    assert driver.take(second) is None, "what expired is taken over"
    assert (driver.key_row().task_run_id, driver.key_row().output_hash) == (second.id, None)
    moved.dispose()


def test_of_many_that_find_an_expired_result_one_executes(driver: Keyed) -> None:
    driver.turn(driver.done(driver.holder()))
    driver.rows(
        "UPDATE idempotency_claims SET expires_at = now() - interval '1 s' WHERE tenant_id = :t RETURNING 1",
        t=driver.tenant,
    )
    started = [driver.start(driver.one()) for _ in range(4)]
    found = [
        each.result for each in call_concurrently(*[lambda each=each: driver.take(each) for each in started])
    ]
    assert found.count(None) == 1


def test_a_key_whose_holder_is_open_is_never_purged(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    database = driver.database
    far = Database(database.url, values=database.values, now=lambda: datetime.now(UTC) + 1000 * DAY)
    with far.transaction() as tx:
        expiry.run_once(tx, Policy())
    far.dispose()
    assert driver.key_row().task_run_id == first.id
    driver.turn(driver.done(first))
    assert driver.row(second).status == "queued"


def test_a_result_answers_after_its_runs_history_is_gone(driver: Keyed) -> None:
    first = driver.holder()
    driver.turn(driver.done(first, "kept"))
    for table, key in (("task_runs", "run_id"), ("events", "run_id"), ("runs", "id")):
        driver.rows(f"DELETE FROM {table} WHERE {key} = :id RETURNING 1", id=first.run_id)
    found = driver.take(driver.start(driver.one()))
    assert isinstance(found, Completion)
    assert found.output.inline == '"kept"'


def test_an_open_key_whose_holders_history_is_gone_is_taken_over(driver: Keyed) -> None:
    first = driver.holder()
    for table, key in (("task_runs", "run_id"), ("events", "run_id"), ("runs", "id")):
        driver.rows(f"DELETE FROM {table} WHERE {key} = :id RETURNING 1", id=first.run_id)
    assert driver.take(driver.start(driver.one())) is None


# --- dead letters -----------------------------------------------------------------------------------------


def letter_of(driver: Keyed, task_run: TaskRun) -> UUID:
    found = driver.rows("SELECT id FROM dead_letters WHERE task_run_id = :id", id=task_run.id)[0].id
    assert isinstance(found, UUID)
    return found


def test_a_run_that_goes_on_from_a_dead_letter_takes_its_key_again_or_finds_a_result(driver: Keyed) -> None:
    first, other = driver.holder("one"), driver.holder("other")
    driver.turn((first, PERMANENT))
    driver.turn((other, PERMANENT))
    driver.turn(driver.done(driver.holder("other"), "meanwhile", "other"))
    for each, key in ((first, "one"), (other, "other")):
        driver.database.run(
            lambda tx, each=each: dead_letters.retry(tx, driver.tenant, letter_of(driver, each))
        )
        again = driver.start(each.run_id, attempt=2)
        assert again.idempotency_key == key
        assert (driver.take(again, key) is None) == (key == "one")
    assert driver.key_row("one").task_run_id == first.id


def test_a_standalone_task_that_is_retried_keeps_its_key(driver: Keyed) -> None:
    def queued() -> Queued:
        request = QueueRequest("noop", 1, idempotency_key="k")
        return driver.database.run(lambda tx: standalone_tasks.enqueue(tx, driver.tenant, [request]))[0]

    first = driver.start(ids.run_id_of(queued().task_run_id))
    assert driver.take(first) is None
    driver.turn((first, PERMANENT))
    retried = driver.database.run(lambda tx: dead_letters.retry(tx, driver.tenant, letter_of(driver, first)))
    assert queued().task_run_id == retried.task_run_id != first.id


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


def test_who_waits_in_a_run_that_fails_is_cancelled_with_it(driver: Keyed) -> None:
    driver.holder()
    run_id = driver.begin({"a": [], "b": []})
    one, two = driver.start(run_id, 1), driver.start(run_id, 2)
    found = driver.take(one)
    assert isinstance(found, Awaits)
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
        self.awaiting: dict[UUID, Awaits] = {}
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
            due_attempts.release(self.driver.database)
        elif self.chance.random() < 0.02 and row.finished_at is None:
            self.driver.database.run(lambda tx: triggering.cancel(tx, self.driver.tenant, run_id))
        self.check()

    def begin(self, run_id: UUID, row: Any) -> None:
        started = self.driver.start(run_id, attempt=row.attempt)
        found = self.driver.take(started, self.keys[run_id])
        if found is None:
            self.executing[run_id] = started
        elif isinstance(found, Awaits):
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
def test_whatever_happens_one_executes_at_a_time_and_nobody_waits_for_nothing(
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
