"""Task-run verbs: each moves a row only from the statuses the state machine allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.plans import parts_of, plans_of
from support.run_driver import PERMANENT, RunDriver, claim, header, settle
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.domain import states
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.state import (
    attempts,
    cancelling,
    claiming,
    completing,
    heartbeats,
    releasing,
    rows,
    run_headers,
)
from pipeweave.orchestrator.store.database import Database, Transaction

T = TaskStatus


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    """A run whose first step is queued, second pending and third a pending map."""
    return driver.begin({"a": [], "b": ["a"], "c": ["a"]}, {"list": [1]}, maps={"c": "${input.list}"})


_PUT = """
UPDATE task_runs SET status = CAST(:status AS text), queued_at = :now, started_at = :now, worker = 'w1',
    finished_at = CASE WHEN :is_final THEN CAST(:now AS timestamptz) END,
    error_code = CASE WHEN :is_final THEN 'X' END
WHERE run_id = :run_id AND id = :id
"""


def put(tx: Transaction, run_id: UUID, ordinal: int, status: TaskStatus) -> None:
    """Write a status, whatever it was before."""
    parameters = {"status": status.value, "is_final": status.is_final, "now": tx.now, "run_id": run_id}
    tx.execute(_PUT, parameters | {"id": ids.task_run_id(run_id, ordinal)})


def read(tx: Transaction, run_id: UUID, ordinal: int) -> Any:
    parameters = {"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)}
    return tx.execute("SELECT * FROM task_runs WHERE run_id = :run_id AND id = :id", parameters).one()


def as_task_run(tx: Transaction, run_id: UUID, ordinal: int, attempt: int = 1) -> TaskRun:
    """A task run as a worker that claimed it knows it."""
    statement = f"SELECT {rows.COLUMNS} FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id"
    row = tx.execute(statement, {"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)}).one()
    return rows.of_row(row)._replace(attempt=attempt)


def completion(tx: Transaction, run_id: UUID, ordinal: int, attempt: int = 1) -> Completion:
    return Completion(as_task_run(tx, run_id, ordinal, attempt), VALUES.keep({"n": 1}))


def fail(tx: Transaction, task_run: TaskRun) -> list[TaskRun]:
    run = header(tx, task_run.run_id)
    return attempts.end(tx, run, [(task_run, PERMANENT)], max_retry_delay_ms=None).final


Verb = Callable[[Transaction, UUID], Any]

# Verb -> the ordinal it is tried on, the statuses it may be called in, the status it leads to, the call.
VERBS: dict[str, tuple[int, set[TaskStatus], TaskStatus, Verb]] = {
    "start": (1, {T.QUEUED}, T.RUNNING, lambda tx, run_id: claiming.start(tx, run_id, [1], 1, worker="w")),
    "release": (2, {T.PENDING}, T.QUEUED, lambda tx, run_id: releasing.release(tx, run_id, [2])),
    "release and continue": (
        2,
        {T.PENDING},
        T.RUNNING,
        lambda tx, run_id: releasing.release(
            tx, run_id, [2], continued=[2], worker="w", queues=[read(tx, run_id, 2).queue]
        ),
    ),
    "dispatch": (
        1,
        {T.READY},
        T.QUEUED,
        lambda tx, run_id: releasing.dispatch_ready(tx, [(run_id, ids.task_run_id(run_id, 1))]),
    ),
    "give back": (
        1,
        {T.RUNNING},
        T.QUEUED,
        lambda tx, run_id: claiming.give_back(tx, [as_task_run(tx, run_id, 1)]),
    ),
    "complete": (
        1,
        {T.RUNNING},
        T.COMPLETED,
        lambda tx, run_id: completing.complete(tx, [completion(tx, run_id, 1)]),
    ),
    "fail": (
        1,
        {T.PENDING, T.QUEUED, T.RUNNING, T.WAITING},
        T.FAILED,
        lambda tx, run_id: fail(tx, as_task_run(tx, run_id, 1)),
    ),
    "skip": (2, {T.PENDING}, T.SKIPPED, lambda tx, run_id: cancelling.skip(tx, run_id, [2])),
    "cancel": (
        1,
        set(states.OPEN_TASK),
        T.CANCELLED,
        lambda tx, run_id: [
            each
            for each in cancelling.cancel_all(
                tx, run_id, code="CANCELLED", message="enough", end=Event(run_id, "run.cancelled")
            )
            if each.ordinal == 1
        ],
    ),
    "lay out": (
        3,
        {T.PENDING},
        T.WAITING,
        lambda tx, run_id: completing.lay_out(tx, run_id, 3, first=4, count=2),
    ),
    "finish map": (
        3,
        {T.PENDING, T.RUNNING, T.WAITING},
        T.COMPLETED,
        lambda tx, run_id: completing.finish_map(tx, run_id, 3, count=0),
    ),
}


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_moves_a_task_run_only_from_its_statuses(
    driver: RunDriver, run_id: UUID, verb: str, status: TaskStatus
) -> None:
    ordinal, before, after, call = VERBS[verb]
    with driver.database.transaction() as tx:
        put(tx, run_id, ordinal, status)
        unmoved = read(tx, run_id, ordinal)
        events = tx.execute("SELECT count(*) FROM events WHERE run_id = :id", {"id": run_id}).scalar_one()
        moved = call(tx, run_id)
        row = read(tx, run_id, ordinal)
        if status in before:
            assert moved
            assert row.status == after.value
            assert after in states.TASK_MOVES[status]
            assert (row.finished_at is not None) == after.is_final
        else:
            assert not moved
            assert row == unmoved
            if verb != "cancel":
                count = "SELECT count(*) FROM events WHERE run_id = :id"
                assert tx.execute(count, {"id": run_id}).scalar_one() == events


@pytest.mark.parametrize("attempt", [0, 2, 99])
def test_another_attempt_moves_nothing(driver: RunDriver, run_id: UUID, attempt: int) -> None:
    with driver.database.transaction() as tx:
        assert claiming.start(tx, run_id, [1], attempt, worker="w") == []
        put(tx, run_id, 1, T.RUNNING)
        unmoved = read(tx, run_id, 1)
        stale = as_task_run(tx, run_id, 1, attempt)
        assert completing.complete(tx, [completion(tx, run_id, 1, attempt)]) == []
        assert fail(tx, stale) == []
        assert claiming.give_back(tx, [stale]) == []
        assert heartbeats.progress(tx, stale, 50, "half") is False
        assert read(tx, run_id, 1) == unmoved
        assert heartbeats.progress(tx, as_task_run(tx, run_id, 1), 50, "half") is True
        assert read(tx, run_id, 1).progress == 50


def test_a_message_in_another_queue_claims_nothing(driver: RunDriver, run_id: UUID) -> None:
    """It strayed, or somebody forged it: the worker of that queue may be another tenant's."""
    with driver.database.transaction() as tx:
        unmoved = read(tx, run_id, 1)
        for queue in ("pipeweave.other.python", f"{unmoved.queue}x", ""):
            assert claiming.start(tx, run_id, [1], 1, worker="w", queue=queue) == []
            assert claiming.start_with_header(tx, run_id, [1], 1, worker="w", queue=queue)[1] == []
        assert read(tx, run_id, 1) == unmoved
        [started] = claiming.start(tx, run_id, [1], 1, worker="w", queue=unmoved.queue)
        assert started.ordinal == 1


def test_a_claim_that_reads_its_run_opens_the_partitions_of_one_month(
    driver: RunDriver, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other months would be opened by each claim, and a history has many."""
    monkeypatch.setattr(run_headers, "cached", lambda *_: None)
    with driver.database.transaction() as tx:
        [plan] = plans_of(tx, lambda: claiming.start_with_header(tx, run_id, [1], 1, worker="w"), monkeypatch)
        months = {
            each.name for each in partitions.list_partitions(tx) if each.parent in ("runs", "task_runs")
        }
    opened = {part.get("Relation Name") for part in parts_of(plan)} & months
    assert len(opened) == 2 < len(months)


def test_a_message_hands_over_only_task_runs_queued_at_its_attempt(driver: RunDriver, run_id: UUID) -> None:
    """The next attempt has a message already: one that is late must not send it once more."""
    with driver.database.transaction() as tx:
        assert [each.ordinal for each in claiming.queued(tx, run_id, [1, 2, 3], 1)] == [1]
        assert claiming.queued(tx, run_id, [1, 2, 3], 2) == []


def test_a_sign_of_life_is_of_the_attempt_that_runs(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        put(tx, run_id, 1, T.RUNNING)
        started, stale = as_task_run(tx, run_id, 1), as_task_run(tx, run_id, 1, 2)
        unmoved = read(tx, run_id, 1)
        assert not heartbeats.beat(tx, stale)
        assert read(tx, run_id, 1) == unmoved
        assert heartbeats.beat(tx, started)
        assert read(tx, run_id, 1).heartbeat_at is not None
        for status in set(TaskStatus) - {T.RUNNING}:
            put(tx, run_id, 1, status)
            unmoved = read(tx, run_id, 1)
            assert not heartbeats.beat(tx, started)
            assert not heartbeats.progress(tx, started, 50, "half")
            assert read(tx, run_id, 1) == unmoved


def test_only_a_map_is_laid_out_or_finished_as_one(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        assert completing.lay_out(tx, run_id, 2, first=4, count=1) is None
        assert completing.finish_map(tx, run_id, 2, count=0) is None


def test_a_doubled_completion_keeps_the_first_output(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        assert completing.complete(tx, [Completion(started, VALUES.keep("first"))])
        assert completing.complete(tx, [Completion(started, VALUES.keep("second"))]) == []
        assert fail(tx, started) == []
        assert read(tx, run_id, 1).output == "first"
    assert len(driver.events(run_id, "task_run.completed")) == 1


def test_a_failed_attempt_is_archived_with_its_error(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1, worker="w7")
        assert started is not None
        fail(tx, started)
        row = read(tx, run_id, 1)
    (attempt,) = driver.rows("SELECT * FROM attempts WHERE run_id = :id", id=run_id)
    assert (attempt.task_run_id, attempt.number, attempt.status) == (row.id, 1, "failed")
    assert (attempt.worker, attempt.error_code, attempt.error) == ("w7", "BOOM", PERMANENT.to_json())
    assert (attempt.started_at, attempt.finished_at) == (row.started_at, row.finished_at)
    (event,) = driver.events(run_id, "task_run.failed")
    assert event.data == {"outcome": "failed", "error": "it broke", "errorCode": "BOOM"}


def test_a_returned_task_run_can_be_claimed_by_another_worker(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        claiming.give_back(tx, [started])
        assert (read(tx, run_id, 1).worker, read(tx, run_id, 1).started_at) == (None, None)
        again = claim(tx, run_id, 1, worker="w2")
        assert again is not None
        assert again.attempt == 1


# --- two connections --------------------------------------------------------------------------------------


def test_of_two_workers_that_start_the_same_attempt_one_gets_it(driver: RunDriver) -> None:
    driver.store({"a": []})
    for _ in range(10):
        run_id = driver.trigger()

        def start(worker: str, run_id: UUID = run_id) -> TaskRun | None:
            with driver.database.transaction() as tx:
                return claim(tx, run_id, 1, worker)

        threads = call_concurrently(*(lambda worker=worker: start(worker) for worker in ("w1", "w2", "w3")))
        got = [each.result for each in threads if each.result is not None]
        assert len(got) == 1
        assert len(driver.events(run_id, "task_run.started")) == 1


def test_a_worker_that_waited_for_a_claim_that_was_rolled_back_gets_it(
    driver: RunDriver, run_id: UUID
) -> None:
    def start() -> TaskRun | None:
        with driver.database.transaction() as tx:
            return claim(tx, run_id, 1, "w2")

    class RolledBack(Exception):
        pass

    beside = BackgroundCall(start)
    with pytest.raises(RolledBack), driver.database.transaction() as tx:
        claim(tx, run_id, 1, "w1")
        beside.__enter__()
        wait_for_lock(driver.database)
        raise RolledBack
    assert beside.result is not None
    assert driver.task_runs(run_id)[0].worker == "w2"


@pytest.mark.parametrize("is_cancel_first", [True, False])
def test_of_a_cancel_and_a_completion_the_first_wins(
    driver: RunDriver, run_id: UUID, is_cancel_first: bool
) -> None:
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None

    def cancel() -> None:
        driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

    def complete() -> None:
        driver.database.run(lambda tx: settle(tx, started))

    first, second = (cancel, complete) if is_cancel_first else (complete, cancel)
    if is_cancel_first:
        with driver.database.transaction() as tx:
            triggering.cancel(tx, driver.tenant, run_id)
            beside = BackgroundCall(second)
            beside.__enter__()
            wait_for_lock(driver.database)
        assert beside.result is None
    else:
        first()
        second()
    expected = "cancelled" if is_cancel_first else "completed"
    assert driver.statuses(run_id)["a"] == expected
    assert driver.run(run_id).status == "cancelled"
    assert {status for step, status in driver.statuses(run_id).items() if step != "a"} == {"cancelled"}


def test_a_cancelled_task_run_does_not_end_before_it_started(driver: RunDriver, run_id: UUID) -> None:
    def cancel() -> None:
        driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

    with driver.database.transaction() as tx:
        tx.catch_up()
        claim(tx, run_id, 1)
        beside = BackgroundCall(cancel)
        beside.__enter__()
        wait_for_lock(driver.database)
        started_later = (
            "UPDATE task_runs SET started_at = clock_timestamp() WHERE run_id = :id AND status = 'running'"
        )
        tx.execute(started_later, {"id": run_id})
    assert beside.result is None
    row = driver.task_runs(run_id)[0]
    assert row.status == "cancelled"
    assert row.started_at <= row.finished_at
