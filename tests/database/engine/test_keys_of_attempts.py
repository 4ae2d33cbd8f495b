"""Idempotency keys through retries, losses, expiry and dead letters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.keyed_driver import DAY, TTL_S, Keyed
from support.run_driver import PERMANENT, TRANSIENT, header
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import AttemptFenced
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.task_run import Completion, KeyWait, TaskRun
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import Queued, QueueRequest
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> Keyed:
    return Keyed(database)


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
    assert isinstance(driver.take(third), KeyWait)
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET due_at = now() WHERE id = :id AND status = 'pending'", {"id": first.id}
        )
    due_attempts.release_due(driver.database)
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


def test_a_claim_of_a_key_waits_for_an_ending_holder_and_takes_its_result(driver: Keyed) -> None:
    holder, other = driver.holder(), driver.start(driver.one())
    with driver.database.transaction() as tx:
        Turn(header(tx, holder.run_id), [driver.done(holder)], holder.queue, max_retry_delay_ms=None).store(
            tx
        )
        beside = BackgroundCall(lambda: driver.take(other))
        beside.__enter__()
        wait_for_lock(driver.database)
    assert isinstance(beside.result, Completion)
    assert beside.result.cached_from == holder.id


def test_a_result_answers_for_as_long_as_its_task_says(database: Database) -> None:
    ahead = timedelta()
    moved = Database(database.url, react=reactions_to, now=lambda: datetime.now(UTC) + ahead)
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
    far = Database(database.url, now=lambda: datetime.now(UTC) + 1000 * DAY)
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
        return driver.database.run(lambda tx: standalone_tasks.enqueue(tx, VALUES, driver.tenant, [request]))[
            0
        ]

    first = driver.start(ids.run_id_of(queued().task_run_id))
    assert driver.take(first) is None
    driver.turn((first, PERMANENT))
    retried = driver.database.run(lambda tx: dead_letters.retry(tx, driver.tenant, letter_of(driver, first)))
    assert queued().task_run_id == retried.task_run_id != first.id
