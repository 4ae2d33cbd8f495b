"""Attempts that failed: another one follows, or a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.attempts import first, kept
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import a_task, register
from support.run_driver import PERMANENT, TASKS, TRANSIENT, RunDriver, claim, header, settle

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.failure import Failure, Outcome, fingerprint
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.state import attempts, claiming, releasing
from pipeweave.orchestrator.store.database import Database

STEPS = {"a": [], "b": ["a"]}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    found = RunDriver(database)
    with database.transaction() as tx:
        # Registered again as it was, and these beside it.
        register(
            tx,
            found.tenant,
            *TASKS,
            a_task("quick", retries=2, retry_delay_ms=1, retry_backoff="fixed"),
            a_task("later", retries=2, retry_delay_ms=3_600_000),
            a_task("once", retries=0),
            a_task("picky", retries=2, retry_delay_ms=1, retry_on=("BUSY",)),
            a_task("quick-limited", retries=2, retry_delay_ms=1, concurrency=1),
        )
    return found


def begun(driver: RunDriver, task: str, **members: Any) -> UUID:
    return driver.begin(STEPS, tasks={"a": task}, **members)


def fail(driver: RunDriver, run_id: UUID, attempt: int = 1, how: Failure = TRANSIENT) -> None:
    """Claim the first step's attempt and end it badly."""
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], attempt, worker="w1")
        settle(tx, started, failure=how)


def make_due(driver: RunDriver, run_id: UUID) -> None:
    driver.rows(
        "UPDATE task_runs SET due_at = now() WHERE run_id = :id AND due_at IS NOT NULL RETURNING id",
        id=run_id,
    )


def letters(driver: RunDriver, run_id: UUID) -> list[Any]:
    return driver.rows("SELECT * FROM dead_letters WHERE run_id = :id", id=run_id)


# --- another attempt --------------------------------------------------------------------------------------


def test_a_failed_attempt_waits_for_its_next_one(driver: RunDriver) -> None:
    run_id = begun(driver, "later")
    fail(driver, run_id)
    row = first(driver, run_id)
    assert (row.status, row.attempt, row.worker, row.started_at) == ("pending", 2, None, None)
    [wait] = driver.rows(
        "SELECT due_at - now() AS w FROM task_runs WHERE run_id = :id AND due_at > now()", id=run_id
    )
    assert timedelta(minutes=59) < wait.w <= timedelta(hours=1)
    assert kept(driver, run_id) == [(1, "failed", "WEAK")]
    [event] = driver.events(run_id, "task_run.retrying")
    assert (event.attempt, event.data["nextAttempt"], event.data["errorCode"]) == (1, 2, "WEAK")
    assert (driver.run(run_id).status, letters(driver, run_id)) == ("running", [])


def test_no_retry_waits_for_longer_than_the_deployment_allows(driver: RunDriver) -> None:
    run_id = begun(driver, "later")
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker="w1")
        Turn(header(tx, run_id), [(started, TRANSIENT)], started.queue, max_retry_delay_ms=250).store(tx)
    [row] = driver.rows(
        "SELECT due_at - now() AS wait FROM task_runs WHERE run_id = :id AND attempt = 2", id=run_id
    )
    assert row.wait <= timedelta(milliseconds=250)


def test_an_attempt_that_is_not_due_is_not_released(driver: RunDriver) -> None:
    run_id = begun(driver, "later")
    fail(driver, run_id)
    driver.sent.clear()
    due_attempts.release_due(driver.database)
    driver.check(run_id, 1)
    assert (first(driver, run_id).status, driver.released(run_id)) == ("pending", [])


def test_due_attempts_of_all_runs_are_released(driver: RunDriver) -> None:
    """Runs of a tenant share a transaction."""
    driver.store({"a": []})
    runs = [driver.trigger() for _ in range(3)]
    for run_id in runs:
        driver.finish(run_id, "a", failure=TRANSIENT)
        make_due(driver, run_id)
    driver.sent.clear()
    due_attempts.release_due(driver.database)
    assert [driver.statuses(each)["a"] for each in runs] == ["queued"] * 3
    assert [driver.released(each) for each in runs] == [[1]] * 3


def test_tenants_take_turns_when_more_is_due_than_goes_at_once(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_attempts, "BATCH", 2)
    many, few = RunDriver(fresh_database), RunDriver(fresh_database)
    many.store({"a": []})
    few.store({"a": []})
    runs = [*(many.trigger() for _ in range(4)), few.trigger()]
    for run_id in runs:
        many.finish(run_id, "a", failure=TRANSIENT)
        make_due(many, run_id)
    assert due_attempts.release_due(fresh_database) == 2
    statuses = [many.statuses(each)["a"] for each in runs]
    assert statuses == ["queued", "pending", "pending", "pending", "queued"]


def test_a_task_run_that_waits_for_its_predecessors_is_never_due(driver: RunDriver) -> None:
    """Whoever found it due may come late: meanwhile its run failed, and went on from before it."""
    run_id = begun(driver, "quick")
    with driver.database.transaction() as tx:
        waiting = driver.task_runs(run_id)[1]
        assert releasing.release_due(tx, run_id, [waiting.id]) == []
    assert driver.statuses(run_id)["b"] == "pending"


def test_a_due_task_run_is_sent_as_its_next_attempt_and_completes(driver: RunDriver) -> None:
    run_id = begun(driver, "later")
    fail(driver, run_id)
    make_due(driver, run_id)
    driver.sent.clear()
    due_attempts.release_due(driver.database)
    row = first(driver, run_id)
    assert (row.status, row.due_at, driver.released(run_id)) == ("queued", None, [1])
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is None, "a message of the first attempt starts nothing"
        [again] = claiming.start(tx, run_id, [1], 2, worker="w2")
        settle(tx, again)
    driver.finish(run_id, "b")
    assert driver.run(run_id).status == "completed"


def test_a_step_that_waits_for_its_next_attempt_is_not_skipped_or_released_by_a_join_message(
    driver: RunDriver,
) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["b"]}, tasks={"b": "later"})
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [2], 1, worker="w1")
        settle(tx, started, failure=TRANSIENT)
    driver.check(run_id, 2)
    assert driver.statuses(run_id) == {"a": "completed", "b": "pending", "c": "pending"}


def test_a_retry_of_a_limited_task_gives_its_slot_to_others(driver: RunDriver) -> None:
    driver.store({"a": []}, tasks={"a": "quick-limited"})
    one, two = driver.trigger(), driver.trigger()
    assert first(driver, two).status == "ready"
    fail(driver, one)
    assert first(driver, two).status == "queued"
    make_due(driver, one)
    due_attempts.release_due(driver.database)
    assert first(driver, one).status == "ready"


def test_another_attempt_runs_the_code_that_is_registered_now(driver: RunDriver) -> None:
    run_id = begun(driver, "later")
    before = first(driver, run_id)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("later", code="second", retries=2))
    fail(driver, run_id)
    after = first(driver, run_id)
    assert (after.code_version, after.code_hash != before.code_hash) == (before.code_version + 1, True)


# --- the last attempt -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fail-fast", "continue", "partial-merge"])
def test_the_last_attempt_leaves_one_dead_letter_with_all_of_them(driver: RunDriver, mode: str) -> None:
    run_id = begun(driver, "quick", failureMode=mode)
    for attempt in (1, 2, 3):
        fail(driver, run_id, attempt)
        make_due(driver, run_id)
        due_attempts.release_due(driver.database)
    row = first(driver, run_id)
    assert (row.status, row.error_code) == ("failed", "WEAK")
    assert driver.run(run_id).status == ("partial" if mode == "partial-merge" else "failed")
    [letter] = letters(driver, run_id)
    assert (letter.task_run_id, letter.attempts, letter.error_code) == (row.id, 3, "WEAK")
    assert [each["attempt"] for each in letter.history] == [1, 2, 3]
    assert kept(driver, run_id) == [(number, "failed", "WEAK") for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("task", "how", "retried"),
    [
        ("quick", TRANSIENT, True),
        ("quick", PERMANENT, False),
        ("once", TRANSIENT, False),
        ("picky", TRANSIENT, False),
        ("picky", replace(TRANSIENT, code="BUSY"), True),
        ("picky", failure.lost("gone"), True),
        ("once", failure.lost("gone"), False),
        ("once", failure.lost("gone", is_certain=False), True),
        ("once", failure.interrupted(), True),
        ("quick", failure.overdue(3), True),
        ("once", failure.overdue(3), False),
    ],
)
def test_whether_another_attempt_follows(driver: RunDriver, task: str, how: Failure, retried: bool) -> None:
    run_id = begun(driver, task)
    fail(driver, run_id, how=how)
    row = first(driver, run_id)
    assert (row.attempt == 2, letters(driver, run_id) == []) == (retried, retried)
    if not retried:
        assert row.status == ("timeout" if how.outcome is Outcome.TIMEOUT else "failed")
    assert kept(driver, run_id) == [(1, how.outcome.value, how.code)]


def test_a_loss_that_may_not_have_begun_uses_up_no_attempt(driver: RunDriver) -> None:
    run_id = begun(driver, "once")
    for attempt in (1, 2):
        fail(driver, run_id, attempt, failure.lost("gone", is_certain=False))
    row = first(driver, run_id)
    assert (row.attempt, row.max_attempts, row.status) == (3, 3, "queued")


@pytest.mark.parametrize(("how", "attempts"), [(failure.not_begun, 2), (failure.not_kept, 1)])
def test_an_attempt_that_met_a_server_that_is_away_is_followed_after_a_pause(
    driver: RunDriver, how: Callable[[Unavailable], Failure], attempts: int
) -> None:
    run_id = begun(driver, "quick")
    before = first(driver, run_id).max_attempts
    fail(driver, run_id, how=how(Unavailable("storage is away")))
    row = first(driver, run_id)
    assert (row.attempt, row.max_attempts - before) == (2, attempts - 1)
    [waits] = driver.rows(
        "SELECT due_at - now() > interval '4 s' AS pauses FROM task_runs"
        " WHERE run_id = :id AND due_at IS NOT NULL",
        id=run_id,
    )
    assert waits.pauses


def test_an_attempt_ends_badly_once_however_often_it_is_said(driver: RunDriver) -> None:
    run_id = begun(driver, "once")
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker="w1")

    def end(how: Failure) -> int:
        with driver.database.transaction() as tx:
            ended = attempts.end(tx, header(tx, run_id), [(started, how)], max_retry_delay_ms=None)
            return len(ended.final) + len(ended.retried)

    ends = call_concurrently(
        lambda: end(PERMANENT), lambda: end(failure.lost("gone")), lambda: end(failure.overdue(1))
    )
    assert sorted(each.result for each in ends) == [0, 0, 1]
    assert (len(letters(driver, run_id)), len(kept(driver, run_id))) == (1, 1)


def test_a_result_and_a_loss_at_once_end_an_attempt_once(driver: RunDriver) -> None:
    for _ in range(5):
        run_id = begun(driver, "once")
        with driver.database.transaction() as tx:
            [started] = claiming.start(tx, run_id, [1], 1, worker="w1")

        def complete(started: TaskRun = started) -> None:
            with driver.database.transaction() as tx:
                settle(tx, started)

        def lose(started: TaskRun = started) -> None:
            losses.end(driver.database, [(started, failure.lost("gone"))], max_retry_delay_ms=None)

        call_concurrently(complete, lose)
        is_completed = first(driver, run_id).status == "completed"
        assert len(letters(driver, run_id)) == (0 if is_completed else 1)


def test_many_items_that_fail_are_one_statement_per_outcome(driver: RunDriver) -> None:
    run_id = driver.begin(
        {"m": []}, {"list": list(range(50))}, tasks={"m": "quick"}, maps={"m": "${input.list}"}
    )
    with driver.database.transaction() as tx:
        started = claiming.start(tx, run_id, list(range(2, 52)), 1, worker="w1")
        ended = attempts.end(
            tx,
            header(tx, run_id),
            [(each, PERMANENT if each.map_index == 7 else TRANSIENT) for each in started],
            max_retry_delay_ms=None,
        )
    assert ([each.map_index for each in ended.final], len(ended.retried)) == ([7], 49)
    assert [each.map_index for each in letters(driver, run_id)] == [7]


def test_a_map_whose_items_failed_makes_no_letter_of_its_own(driver: RunDriver) -> None:
    run_id = driver.begin({"m": []}, {"list": [1, 2]}, maps={"m": "${input.list}"}, failureMode="continue")
    for ordinal in (2, 3):
        with driver.database.transaction() as tx:
            [started] = claiming.start(tx, run_id, [ordinal], 1, worker="w1")
            settle(tx, started, failure=PERMANENT)
    assert driver.statuses(run_id)["m"] == "failed"
    assert {each.kind for each in letters(driver, run_id)} == {"item"}


def test_a_map_that_cannot_be_laid_out_is_a_dead_letter(driver: RunDriver) -> None:
    run_id = driver.begin({"m": []}, {"list": "no list"}, maps={"m": "${input.list}"})
    [letter] = letters(driver, run_id)
    assert (letter.kind, letter.error_code, len(letter.history)) == ("map", "MAP_SOURCE_INVALID", 1)
    assert kept(driver, run_id) == [], "nobody had begun it"


@pytest.mark.parametrize("how", [PERMANENT, TRANSIENT, failure.lost("its worker is gone")])
def test_a_failure_of_a_returned_task_run_changes_nothing(driver: RunDriver, how: Failure) -> None:
    run_id = driver.begin({"a": []}, tasks={"a": "quick"})
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker="w1")
        assert claiming.give_back(tx, [started]) != []
        settle(tx, started, failure=how)
    row = first(driver, run_id)
    assert (row.status, row.attempt, driver.run(run_id).status) == ("queued", 1, "running")
    assert kept(driver, run_id) == letters(driver, run_id) == []


def test_a_loss_that_comes_with_a_failure_does_not_hasten_the_next_attempt(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []}, tasks={"a": "later"}, failureMode="continue")
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker="w1")
    with driver.database.transaction() as tx:
        settle(tx, started, failure=TRANSIENT)
        lost = failure.lost("its worker is gone")
        beside = BackgroundCall(
            lambda: losses.end(driver.database, [(started, lost)], max_retry_delay_ms=None)
        )
        beside.__enter__()
        wait_for_lock(driver.database)
    assert beside.result == 0
    assert (first(driver, run_id).status, kept(driver, run_id)) == ("pending", [(1, "failed", "WEAK")])


def test_an_attempt_sees_the_previous_attempts_of_its_own_step_only(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []}, tasks={"a": "quick", "b": "quick"})
    with driver.database.transaction() as tx:
        a, b = claiming.start(tx, run_id, [1, 2], 1, worker="w1")
        settle(tx, a, failure=TRANSIENT)
        settle(tx, b, failure=replace(TRANSIENT, message="another's"))
        assert [each["error"] for each in attempts.previous_attempts(tx, a)] == [TRANSIENT.message]


_LOCK_NOW = "SELECT 1 FROM task_runs WHERE run_id = :run_id AND id = :id FOR UPDATE NOWAIT"


def test_attempts_that_end_together_are_locked_in_the_order_of_their_ids(driver: RunDriver) -> None:
    """Two that end the same ones, however they know of them, would wait for each other otherwise."""
    run_id = driver.begin({"a": [], "b": []}, tasks={"a": "quick", "b": "quick"})
    with driver.database.transaction() as tx:
        a, b = claiming.start(tx, run_id, [1, 2], 1, worker="w1")

    def end() -> attempts.EndedAttempts:
        lost = failure.lost("its worker is gone")
        with driver.database.transaction() as tx:
            return attempts.end(tx, header(tx, run_id), [(b, lost), (a, lost)], max_retry_delay_ms=None)

    with driver.database.transaction() as tx:
        tx.execute(_LOCK_NOW, {"run_id": run_id, "id": a.id})
        beside = BackgroundCall(end)
        beside.__enter__()
        wait_for_lock(driver.database)
        held = tx.execute(_LOCK_NOW, {"run_id": run_id, "id": b.id})
        assert held.first() is not None, "who waits for the first holds none"
    assert len(beside.result.retried) == 2


def test_errors_that_differ_in_numbers_and_ids_are_alike() -> None:
    one = replace(TRANSIENT, message="row 17 of 0123456789abcdef0123 is missing after 3.5 s")
    two = replace(TRANSIENT, message="row 4 of fedcba98765432100123 is missing after 10.25 s")
    assert fingerprint("t", one) == fingerprint("t", two)
    assert len({fingerprint("t", one), fingerprint("u", one), fingerprint("t", replace(one, code="X"))}) == 3
