"""What a run does next, with two connections where it matters."""

from __future__ import annotations

import functools
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.run_driver import (
    PERMANENT,
    Clock,
    RunDriver,
    claim,
    finish_step,
    finish_task_run,
    header,
    settle,
)
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.outbox import Chord, ChordPart, JoinCheck, Released
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.runs import orphans
from pipeweave.orchestrator.state import completing
from pipeweave.orchestrator.store.database import Database

JOIN = {"a": [], "b": [], "c": ["a", "b"]}
ENDS: dict[str, list[str]] = {"a": [], "b": []}
WIDE = {"a": [], **{f"b{n}": ["a"] for n in range(8)}, "c": [f"b{n}" for n in range(8)]}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


# --- joins ------------------------------------------------------------------------------------------------


def test_the_second_of_two_transactions_that_end_a_join_s_predecessors_releases_it(driver: RunDriver) -> None:
    run_id = driver.begin(JOIN)
    driver.sent.clear()

    def end_b() -> None:
        with driver.database.transaction() as tx:
            finish_step(tx, run_id, "b")

    with driver.database.transaction() as tx:
        finish_step(tx, run_id, "a")
        beside = BackgroundCall(end_b)
        beside.__enter__()
        wait_for_lock(driver.database)
    beside.wait()

    assert beside.error is None
    assert driver.released(run_id) == [3]
    assert driver.statuses(run_id) == {"a": "completed", "b": "completed", "c": "queued"}
    rows = {row.step_id: row for row in driver.task_runs(run_id)}
    assert rows["c"].queued_at >= max(rows["a"].finished_at, rows["b"].finished_at)


@pytest.mark.parametrize("needs", [JOIN, WIDE])
def test_a_join_is_queued_and_starts_after_ends_that_a_faster_clock_wrote(
    database_url: str, needs: dict[str, list[str]]
) -> None:
    """What two processes know of PostgreSQL's clock differs by a millisecond when the machine is busy."""
    clock = Clock(timedelta(minutes=1))
    database = Database(database_url, react=reactions_to, now=clock)
    driver = RunDriver(database)
    *before, join = needs
    run_id = driver.begin(needs)
    driver.finish(run_id, *before[:-1])
    clock.ahead = timedelta()
    driver.finish(run_id, before[-1])
    driver.check(run_id, len(needs))
    clock.ahead = -timedelta(minutes=1)
    driver.finish(run_id, join)
    rows = {row.step_id: row for row in driver.task_runs(run_id)}
    ended = max(rows[each].finished_at for each in before)
    assert ended <= rows[join].queued_at <= rows[join].started_at
    database.dispose()


@pytest.mark.parametrize("count", [2, 5, 7])
def test_predecessors_that_end_at_once_release_their_narrow_join_exactly_once(
    driver: RunDriver, count: int
) -> None:
    before = [f"s{number}" for number in range(count)]
    driver.store({each: [] for each in before} | {"join": before})
    for _ in range(10):
        run_id = driver.trigger()
        driver.sent.clear()
        threads = call_concurrently(*(functools.partial(driver.finish, run_id, step) for step in before[:5]))
        driver.finish(run_id, *before[5:])
        assert [each.error for each in threads] == [None] * len(threads)
        assert driver.released(run_id) == [count + 1]


_LOCK_NOW = "SELECT 1 FROM task_runs WHERE run_id = :run_id AND id = :id FOR UPDATE NOWAIT"


def test_joins_are_locked_in_the_order_of_their_ids(driver: RunDriver) -> None:
    """Two that end predecessors of the same joins would wait for each other otherwise."""
    run_id = driver.begin({"a": [], "b": [], "c": ["a", "b"], "d": ["b", "a"]})
    c, d = ({"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)} for ordinal in (3, 4))
    with driver.database.transaction() as tx:
        tx.execute(_LOCK_NOW, c)
        beside = BackgroundCall(lambda: driver.finish(run_id, "a"))
        beside.__enter__()
        wait_for_lock(driver.database)
        assert tx.execute(_LOCK_NOW, d).first() is not None, "who waits for the first holds none"
    assert beside.result is None


def test_a_worker_that_ends_a_join_s_last_predecessor_twice_releases_it_once(driver: RunDriver) -> None:
    run_id = driver.begin(JOIN)
    driver.sent.clear()
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 2)
    assert started is not None
    for _ in range(2):
        with driver.database.transaction() as tx:
            settle(tx, started)
    assert driver.released(run_id) == [3]


def test_a_checked_join_waits_while_a_predecessor_is_open(driver: RunDriver) -> None:
    run_id = driver.begin(JOIN)
    driver.finish(run_id, "a")
    driver.sent.clear()
    driver.check(run_id, 3)
    driver.check(run_id, END)
    assert driver.sent == []
    assert driver.statuses(run_id)["c"] == "pending"


def test_a_join_that_is_checked_by_two_at_once_is_released_once(driver: RunDriver) -> None:
    run_id = driver.begin(WIDE)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(8)))
    driver.sent.clear()
    threads = call_concurrently(*[lambda: driver.check(run_id, 10)] * 4)
    assert [each.error for each in threads] == [None] * 4
    assert driver.released(run_id) == [10]


def test_a_wide_join_is_left_to_its_chord(driver: RunDriver) -> None:
    run_id = driver.begin(WIDE)
    driver.sent.clear()
    driver.finish(run_id, "a")
    chords = [each for each in driver.sent if isinstance(each, Chord)]
    assert chords == [Chord(run_id, 10, 0)], "its parts are the messages"
    assert {each.joins for each in driver.sent if isinstance(each, Released)} == {(10,)}
    driver.sent.clear()
    driver.finish(run_id, *(f"b{number}" for number in range(8)))
    assert driver.sent == []
    assert driver.statuses(run_id)["c"] == "pending"
    driver.check(run_id, 10)
    assert driver.statuses(run_id)["c"] == "queued"


def test_steps_of_an_irregular_wide_join_count_one_by_one(driver: RunDriver) -> None:
    before = [f"b{number}" for number in range(8)]
    needs = {"a": [], **{each: ["a"] for each in before[:7]}, "b7": ["b0"], "c": before}
    run_id = driver.begin(needs)
    assert [each for each in driver.sent if isinstance(each, Chord)] == [Chord(run_id, 10, 8)]
    driver.finish(run_id, "a")
    driver.sent.clear()
    driver.finish(run_id, *before)
    parts = [each for each in driver.sent if isinstance(each, ChordPart)]
    assert [each.ordinal for each in parts] == list(range(2, 10))
    assert {each.join for each in parts} == {10}


def test_skipped_steps_send_a_check_of_their_gathered_join(driver: RunDriver) -> None:
    run_id = driver.begin(WIDE)
    driver.sent.clear()
    driver.finish(run_id, "a", chosen=())
    checks = [each.join for each in driver.sent if isinstance(each, JoinCheck)]
    assert checks == [10]
    driver.check(run_id, 10)
    assert driver.statuses(run_id) == dict.fromkeys(WIDE, "skipped") | {"a": "completed"}
    assert driver.run(run_id).status == "completed"


# --- the end ----------------------------------------------------------------------------------------------


def test_end_steps_that_end_at_once_end_the_run_exactly_once(driver: RunDriver) -> None:
    driver.store(ENDS)
    for _ in range(10):
        run_id = driver.trigger()
        threads = call_concurrently(*(functools.partial(driver.finish, run_id, step) for step in ENDS))
        assert [each.error for each in threads] == [None, None]
        run = driver.run(run_id)
        assert run.status == "completed"
        assert len(driver.events(run_id, "run.completed")) == 1
        assert run.finished_at >= max(row.finished_at for row in driver.task_runs(run_id))


def test_steps_that_fail_at_once_fail_the_run_once(driver: RunDriver) -> None:
    driver.store({"a": [], "b": [], "c": [], "d": ["a", "b", "c"]})
    for _ in range(10):
        run_id = driver.trigger()
        with driver.database.transaction() as tx:
            started = [claim(tx, run_id, number) for number in (1, 2, 3)]

        def fail(each: TaskRun | None) -> None:
            assert each is not None
            driver.database.run(lambda tx: settle(tx, each, failure=PERMANENT))

        threads = call_concurrently(*(functools.partial(fail, each) for each in started))
        assert [each.error for each in threads] == [None] * 3
        assert driver.run(run_id).status == "failed"
        assert len(driver.events(run_id, "run.failed")) == 1
        statuses = sorted(driver.statuses(run_id).values())
        assert set(statuses) <= {"failed", "cancelled"}
        assert "failed" in statuses


def test_a_failure_and_a_completion_at_once_leave_no_open_task_run(driver: RunDriver) -> None:
    driver.store({"a": [], "b": [], "c": ["b"], "d": ["c"]})
    for _ in range(10):
        run_id = driver.trigger()
        with driver.database.transaction() as tx:
            first, second = claim(tx, run_id, 1), claim(tx, run_id, 2)
        assert first is not None
        assert second is not None

        def end(started: TaskRun, failure: Failure | None) -> None:
            driver.database.run(lambda tx: settle(tx, started, failure=failure))

        threads = call_concurrently(
            functools.partial(end, first, PERMANENT), functools.partial(end, second, None)
        )
        assert [each.error for each in threads] == [None, None]
        statuses = driver.statuses(run_id)
        assert statuses["a"] == "failed"
        assert statuses["b"] in ("completed", "cancelled")
        assert (statuses["c"], statuses["d"]) == ("cancelled", "cancelled")
        assert driver.run(run_id).status == "failed"


# --- choices and failures ---------------------------------------------------------------------------------


def test_a_choice_is_stored_with_the_completion_and_skips_the_rest(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b"]})
    driver.sent.clear()
    driver.finish(run_id, "a", chosen=("c",))
    assert driver.statuses(run_id) == {"a": "completed", "b": "skipped", "c": "queued", "d": "skipped"}
    (event,) = driver.events(run_id, "task_run.completed")
    assert event.data["selectedNext"] == ["c"]
    assert driver.released(run_id) == [3]


def test_a_step_skipped_because_of_a_failure_has_an_error_code(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": []}, failureMode="continue")
    driver.finish(run_id, "a", failure=PERMANENT)
    rows = {row.step_id: row for row in driver.task_runs(run_id)}
    assert (rows["b"].status, rows["b"].error_code) == ("skipped", "PREDECESSOR_FAILED")
    assert driver.run(run_id).status == "running"
    driver.finish(run_id, "c")
    run = driver.run(run_id)
    assert (run.status, run.error_code) == ("failed", "STEP_FAILED")
    assert run.error["message"] == f"step a failed: {PERMANENT.code}: {PERMANENT.message}"


def test_a_run_that_ends_partial_says_why(driver: RunDriver) -> None:
    document: dict[str, Any] = {"failureMode": "partial-merge"}
    run_id = driver.begin({"a": [], "b": [], "c": [], "m": []}, maps={"m": [1, 2, 3, 4]}, **document)
    driver.finish(run_id, "a", failure=PERMANENT)
    driver.finish(run_id, "b", "c")
    with driver.database.transaction() as tx:
        for ordinal in (5, 6, 7):
            finish_task_run(tx, run_id, ordinal, failure=replace(PERMANENT, code="WORSE", message="no luck"))
        finish_task_run(tx, run_id, 8)
    driver.check(run_id, 4)
    run = driver.run(run_id)
    assert run.status == "partial"
    why = f"3 at step m: WORSE: no luck; 1 at step a: {PERMANENT.code}: {PERMANENT.message}"
    assert run.error["message"] == f"4 of 8 task runs failed: {why}"
    [event] = driver.events(run_id, "run.partial")
    assert event.data["error"] == run.error["message"]


def test_a_run_whose_task_was_removed_does_not_say_that_its_step_failed(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        orphans.cancel_unstarted(tx, driver.tenant, ["noop"], "task 'noop' was removed", TouchedLimits())
    assert (
        driver.run(run_id).error["message"] == "step a was cancelled: TASK_REMOVED: task 'noop' was removed"
    )


def test_a_run_that_failed_lets_nothing_go_any_more(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": ["a", "b"]})
    with driver.database.transaction() as tx:
        late = claim(tx, run_id, 2)
    assert late is not None
    driver.finish(run_id, "a", failure=PERMANENT)
    driver.sent.clear()
    with driver.database.transaction() as tx:
        settle(tx, late)
    driver.check(run_id, 3)
    driver.check(run_id, END)
    assert driver.sent == []
    assert driver.statuses(run_id) == {"a": "failed", "b": "cancelled", "c": "cancelled"}


def test_continuing_takes_as_many_steps_along_as_there_is_room(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"]})
    driver.sent.clear()
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        run = header(tx, run_id)
        advance = Advance(tx, run, Claimant("w1", started.queue), queue=started.queue)
        advance.settle(completing.complete(tx, [Completion(started, VALUES.keep(1))]))
        continued = advance.close()
    assert [each.step_id for each in continued] == ["b"]
    assert continued[0].status is TaskStatus.RUNNING
    assert driver.statuses(run_id) == {"a": "completed", "b": "running", "c": "queued"}
    assert driver.released(run_id) == [3]


def ended_by_a_worker(driver: RunDriver, run_id: UUID) -> list[TaskRun]:
    """The first step completes on a worker that may go on with another one: those that it takes along."""
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        claimant = Claimant("w1", started.queue)
        advance = Advance(tx, header(tx, run_id), claimant, queue=started.queue)
        advance.settle(completing.complete(tx, [Completion(started, VALUES.keep(1))]))
        return advance.close()


def test_a_limited_step_is_never_taken_along(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]}, tasks={"b": "limited"})
    assert ended_by_a_worker(driver, run_id) == []
    assert driver.statuses(run_id)["b"] == "queued"


def test_nothing_of_a_gathered_fan_out_is_taken_along(driver: RunDriver) -> None:
    """Its join counts messages: it would not learn of the end of what travels in none."""
    run_id = driver.begin(WIDE)
    driver.sent.clear()
    assert ended_by_a_worker(driver, run_id) == []
    assert driver.released(run_id) == list(range(2, 10))


def test_the_error_of_a_run_that_fails_fast_says_why_its_step_failed(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a", failure=PERMANENT)
    assert driver.run(run_id).error["message"] == "step a failed: BOOM: it broke"
