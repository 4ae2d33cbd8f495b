"""Pauses of runs: what runs ends, nothing of the run starts, and the resumed run goes on and ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import register
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, claim, header, settle
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import verify, why
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine import fast_path
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.queueing import limits, paused_runs
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.runs import admission, deadlines, pausing, triggering
from pipeweave.orchestrator.store.database import Database

CHAIN = {"a": [], "b": ["a"]}
DIAMOND = {"a": [], "b": [], "c": ["a", "b"]}


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, "other", id="others")
    yield made
    for row in made.rows("SELECT id FROM runs WHERE tenant_id = :id", id=made.tenant):
        with verify.snapshot(database) as tx:
            assert verify.run(tx, row.id) == []
    # A pause is of an open run; and it goes with the run, so that it holds back nothing else.
    over = """SELECT r.finished_at FROM run_pauses AS p JOIN runs AS r ON r.id = p.run_id
        WHERE p.tenant_id = :id"""
    assert all(row.finished_at is None for row in made.rows(over, id=made.tenant))
    # Nothing is left to admit, or to release, for the ticks of other tests in this database.
    still_open = "SELECT id FROM runs WHERE tenant_id = :id AND finished_at IS NULL ORDER BY id DESC"
    for row in made.rows(still_open, id=made.tenant):
        cancel(made, row.id)


def pause(driver: RunDriver, run_id: UUID, **options: str) -> bool:
    return driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, run_id, **options))


def resume(driver: RunDriver, run_id: UUID, **options: str) -> bool:
    return driver.database.run(lambda tx: pausing.resume(tx, driver.tenant, run_id, **options))


def cancel(driver: RunDriver, run_id: UUID) -> None:
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))


def status(driver: RunDriver, run_id: UUID) -> str:
    return str(driver.run(run_id).status)


def started(driver: RunDriver, run_id: UUID, ordinal: int = 1) -> TaskRun:
    with driver.database.transaction() as tx:
        found = claim(tx, run_id, ordinal)
    assert found is not None
    return found


def end(driver: RunDriver, task_run: TaskRun, **ending: object) -> None:
    with driver.database.transaction() as tx:
        settle(tx, task_run, **ending)  # type: ignore[arg-type]


# --- what does not start ----------------------------------------------------------------------------------


def test_queued_task_runs_become_ready_and_their_messages_claim_nothing(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    other = driver.trigger()
    assert pause(driver, run_id)
    assert status(driver, run_id) == "paused"
    assert (driver.statuses(run_id)["a"], driver.statuses(other)["a"]) == ("ready", "queued")
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is None
        assert claim(tx, other, 1) is not None


def test_a_running_step_ends_and_the_step_behind_it_waits(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id)
    pause(driver, run_id)
    driver.sent.clear()
    end(driver, first)
    assert driver.statuses(run_id) == {"a": "completed", "b": "ready"}
    assert driver.released(run_id) == []
    assert resume(driver, run_id)
    assert (status(driver, run_id), driver.statuses(run_id)["b"]) == ("running", "queued")
    assert driver.released(run_id) == [2]


@pytest.mark.parametrize("is_join", [False, True])
def test_the_fast_path_does_not_go_on_either(driver: RunDriver, is_join: bool) -> None:
    run_id = driver.begin(DIAMOND if is_join else CHAIN)
    if is_join:
        driver.finish(run_id, "b")
    first = started(driver, run_id)
    pause(driver, run_id)
    with driver.database.statements() as tx:
        completion, claimant = Completion(first, VALUES.keep(None)), Claimant("w1", first.queue)
        assert fast_path.complete_and_go_on(tx, header(tx, run_id), [completion], claimant) == []
    assert driver.statuses(run_id)["c" if is_join else "b"] == "ready"


def test_the_items_of_a_map_wait(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "m": ["a"]}, {"list": [1, 2, 3]}, maps={"m": "${input.list}"})
    first = started(driver, run_id)
    pause(driver, run_id)
    end(driver, first)
    items = [row.status for row in driver.task_runs(run_id) if row.kind == "item"]
    assert items in ([], ["ready"] * 3)
    resume(driver, run_id)
    assert [row.status for row in driver.task_runs(run_id) if row.kind == "item"] == ["queued"] * 3


def test_a_retry_that_is_due_waits(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id)
    pause(driver, run_id)
    driver.rows("UPDATE task_runs SET max_attempts = 3 WHERE run_id = :id RETURNING 1", id=run_id)
    end(driver, first, failure=TRANSIENT)
    driver.rows("UPDATE task_runs SET due_at = now() WHERE id = :id RETURNING 1", id=first.id)
    due_attempts.release_due(driver.database)
    assert driver.statuses(run_id)["a"] == "ready"
    resume(driver, run_id)
    assert driver.statuses(run_id)["a"] == "queued"


def test_claimed_task_runs_that_are_given_back_wait(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id)
    pause(driver, run_id)
    driver.sent.clear()
    with driver.database.transaction() as tx:
        hand_over(tx, run_id, Unstarted([first]), worker="w1")
    assert (driver.statuses(run_id)["a"], driver.sent) == ("ready", [])


def test_a_limit_passes_over_a_paused_run_and_takes_the_next_one(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one", tasks={"a": "single"})
    holder, first, second = (driver.trigger("one") for _ in range(3))
    pause(driver, first)
    driver.finish(holder, "a")
    assert [driver.statuses(each)["a"] for each in (first, second)] == ["ready", "queued"]
    resume(driver, first)
    assert driver.statuses(first)["a"] == "ready"
    driver.finish(second, "a")
    assert driver.statuses(first)["a"] == "queued"


def test_the_tick_finds_no_limit_with_room_in_a_paused_run(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    pause(driver, run_id)
    limits.fill_waiting(driver.database)
    with driver.database.transaction() as tx:
        assert limits.fill(tx, driver.tenant, ["noop"]) == 0
    assert driver.statuses(run_id)["a"] == "ready"


def test_the_tick_takes_back_what_was_being_released_when_the_run_was_paused(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    pause(driver, run_id)
    driver.rows(
        "UPDATE task_runs SET status = 'queued' WHERE id = :id RETURNING 1", id=ids.task_run_id(run_id, 1)
    )
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is None
    paused_runs.take_back_waiting(driver.database)
    assert driver.statuses(run_id)["a"] == "ready"
    long_ago = (
        "UPDATE run_pauses SET paused_at = paused_at - interval '1 hour' WHERE run_id = :id RETURNING 1"
    )
    driver.rows(long_ago, id=run_id)
    paused_runs.take_back_waiting(driver.database)
    settled = "SELECT settled_at IS NOT NULL AS is_settled FROM run_pauses WHERE run_id = :id"
    assert driver.rows(settled, id=run_id)[0].is_settled
    # So that the events agree with the rows: the row was queued by hand.
    latest = "SELECT max(seq) FROM events WHERE run_id = :id"
    driver.rows(f"DELETE FROM events WHERE run_id = :id AND seq = ({latest}) RETURNING 1", id=run_id)


def test_a_message_that_was_dropped_is_sent_again_by_the_resume(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        assert pausing.pause(tx, driver.tenant, run_id)
        # A process that dies after the commit takes nothing back.
        tx.run_after_commit = lambda: None  # type: ignore[method-assign]
    assert driver.statuses(run_id)["a"] == "queued"
    driver.sent.clear()
    resume(driver, run_id)
    assert driver.released(run_id) == [1]
    driver.finish(run_id, "a")
    assert status(driver, run_id) == "completed"


# --- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fail-fast", "continue", "partial-merge"])
@pytest.mark.parametrize("steps", [{"a": []}, DIAMOND])
def test_the_last_step_of_a_paused_run_ends_nothing_and_the_resume_ends_the_run(
    driver: RunDriver, mode: str, steps: dict[str, list[str]]
) -> None:
    run_id = driver.begin(steps, failureMode=mode)
    *before, last = steps
    driver.finish(run_id, *before)
    ending = started(driver, run_id, len(steps))
    pause(driver, run_id)
    with driver.database.statements() as tx:
        completion = Completion(ending, VALUES.keep(None))
        if fast_path.applies(header(tx, run_id), completion):
            fast_path.complete_reported(tx, header(tx, run_id), completion, ending.queue)
        else:
            tx.hold()
            settle(tx, ending)
    assert (status(driver, run_id), driver.statuses(run_id)[last]) == ("paused", "completed")
    driver.check(run_id, END)
    assert status(driver, run_id) == "paused"
    resume(driver, run_id)
    assert status(driver, run_id) == "completed"


def test_a_failure_ends_a_paused_run_that_fails_fast(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    first = started(driver, run_id)
    pause(driver, run_id)
    end(driver, first, failure=PERMANENT)
    assert status(driver, run_id) == "failed"
    assert driver.statuses(run_id) == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    # And its dead letter opens it again, unpaused.
    [letter] = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)
    driver.database.run(lambda tx: dead_letters.retry(tx, driver.tenant, letter.id))
    assert (status(driver, run_id), driver.statuses(run_id)["b"]) == ("running", "queued")


def test_a_failure_of_a_paused_run_that_continues_fails_it_when_it_is_resumed(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN, failureMode="continue")
    first = started(driver, run_id)
    pause(driver, run_id)
    end(driver, first, failure=PERMANENT)
    assert (status(driver, run_id), driver.statuses(run_id)["b"]) == ("paused", "skipped")
    resume(driver, run_id)
    assert status(driver, run_id) == "failed"


def test_a_cancel_ends_a_paused_run_with_all_that_waits_and_runs(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "m": []}, {"list": [1, 2]}, maps={"m": "${input.list}"})
    first = started(driver, run_id)
    pause(driver, run_id)
    cancel(driver, run_id)
    assert status(driver, run_id) == "cancelled"
    assert {row.status for row in driver.task_runs(run_id)} == {"cancelled"}
    end(driver, first)
    assert driver.statuses(run_id)["a"] == "cancelled", "the late result changed something"
    with pytest.raises(Conflict, match="already cancelled"):
        resume(driver, run_id)


# --- repeats and refusals ---------------------------------------------------------------------------------


def test_repeated_pauses_and_resumes_change_nothing(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    assert not resume(driver, run_id)
    assert pause(driver, run_id, reason="the bank is away", by="ann")
    assert not pause(driver, run_id, reason="another", by="bob")
    assert resume(driver, run_id, by="bob")
    assert not resume(driver, run_id)
    [paused], [resumed] = (driver.events(run_id, f"run.{each}") for each in ("paused", "resumed"))
    assert paused.data == {"by": "ann", "reason": "the bank is away"}
    assert resumed.data == {"by": "bob"}


def test_a_final_run_is_not_paused_and_an_unknown_one_not_found(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a")
    with pytest.raises(Conflict, match="already completed"):
        pause(driver, run_id)
    with pytest.raises(NotFound):
        pause(driver, ids.new_id())
    with pytest.raises(NotFound):
        driver.database.run(lambda tx: pausing.pause(tx, "someone-else", run_id))


def test_why_says_since_when_and_by_whom(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    pause(driver, run_id, reason="the bank is away", by="ann")
    for ordinal in (1, 2):
        with driver.database.transaction() as tx:
            found = why.why(tx, driver.tenant, ids.task_run_id(run_id, ordinal), lambda _: {})
        texts = [each["text"] for each in found["reasons"] if each["code"] == "run_paused"]
        assert len(texts) == 1
        assert texts[0].startswith("its run is paused since ")
        ends = f"; `pipeweave resume {ids.show(ids.RUN, run_id)}` ends that"
        assert texts[0].endswith(f" by ann: the bank is away{ends}")


# --- runs that wait for their turn ------------------------------------------------------------------------


def test_a_pending_run_keeps_its_place_and_is_passed_over(driver: RunDriver) -> None:
    driver.store({"a": []})
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    holder, first, second, third = (driver.trigger() for _ in range(4))
    assert pause(driver, first)
    assert not pause(driver, first)
    assert status(driver, first) == "pending"
    driver.finish(holder, "a")
    assert [status(driver, each) for each in (first, second, third)] == ["pending", "running", "pending"]
    assert resume(driver, first)
    assert status(driver, first) == "pending", "there is no free slot"
    driver.finish(second, "a")
    assert [status(driver, each) for each in (first, third)] == ["running", "pending"]


def test_a_resumed_pending_run_takes_a_free_slot_at_once(driver: RunDriver) -> None:
    driver.store({"a": []})
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    holder, waiting = driver.trigger(), driver.trigger()
    pause(driver, waiting)
    driver.finish(holder, "a")
    assert status(driver, waiting) == "pending"
    after = driver.trigger()
    assert status(driver, after) == "running", "a paused run holds no slot"
    cancel(driver, after)
    resume(driver, waiting)
    assert status(driver, waiting) == "running"


def test_an_admission_that_looked_before_the_pause_does_not_start_the_run(driver: RunDriver) -> None:
    driver.store({"a": []})
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    holder, waiting = driver.trigger(), driver.trigger()
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, waiting)
        with BackgroundCall(lambda: driver.finish(holder, "a")):
            pass
    assert status(driver, waiting) == "pending"


# --- time -------------------------------------------------------------------------------------------------


def paused_ago(driver: RunDriver, run_id: UUID, ago: timedelta) -> None:
    """Write the pause, and the begin of its run, as if they were so long ago."""
    shift = """WITH p AS (UPDATE run_pauses SET paused_at = paused_at - :ago WHERE run_id = :id)
        UPDATE runs SET started_at = started_at - :ago, created_at = created_at - :ago,
            deadline_at = deadline_at - :ago WHERE id = :id RETURNING 1"""
    driver.rows(shift, id=run_id, ago=ago)


def test_the_time_of_a_pause_does_not_count(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN, timeout="5m")
    pause(driver, run_id)
    paused_ago(driver, run_id, timedelta(hours=1))
    deadlines.enforce(driver.database, None)
    assert status(driver, run_id) == "paused"
    resume(driver, run_id)
    deadlines.enforce(driver.database, None)
    row = driver.run(run_id)
    assert row.status == "running"
    assert 3_600_000 <= row.paused_ms < 3_660_000
    left = row.deadline_at - row.started_at - timedelta(milliseconds=row.paused_ms)
    assert left == timedelta(minutes=5)


def test_the_limit_of_the_deployment_does_not_count_it_either(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    pause(driver, run_id)
    paused_ago(driver, run_id, timedelta(hours=1))
    assert run_id not in late_by_the_limit(driver, run_id)
    resume(driver, run_id)
    assert run_id not in late_by_the_limit(driver, run_id)
    driver.rows("UPDATE runs SET paused_ms = 0 WHERE id = :id RETURNING 1", id=run_id)
    assert run_id in late_by_the_limit(driver, run_id)


def late_by_the_limit(driver: RunDriver, run_id: UUID) -> list[UUID]:
    """The runs that took longer than 5 minutes; asked without an end to those of other tests."""
    now = driver.run(run_id).created_at + timedelta(hours=2)
    given = deadlines.parameters(now, timedelta(minutes=5))
    return [row.id for row in driver.rows(deadlines._LATE, batch=1_000, **given)]


# --- two at once ------------------------------------------------------------------------------------------


def test_of_a_pause_and_a_claim_one_comes_first(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    with driver.database.transaction() as tx:
        held = claim(tx, run_id, 1)
        assert held is not None
        with BackgroundCall(lambda: pause(driver, run_id)) as pausing_now:
            assert pausing_now.result, "the pause waited for the claim"
    # What was claimed meanwhile runs, and ends.
    end(driver, held)
    assert driver.statuses(run_id) == {"a": "completed", "b": "ready"}


def test_a_step_that_completes_while_its_run_is_being_paused_leaves_nothing_lost(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id)
    with driver.database.transaction() as tx:
        settle(tx, first)
        pause(driver, run_id)
    # The release saw no pause: its message claims nothing, and the tick takes the row back.
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 2) is None
    paused_runs.take_back_waiting(driver.database)
    assert driver.statuses(run_id)["b"] == "ready"
    resume(driver, run_id)
    driver.finish(run_id, "b")
    assert status(driver, run_id) == "completed"


def test_of_the_last_step_and_a_pause_one_comes_first(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    last = started(driver, run_id)
    ending = BackgroundCall(lambda: end(driver, last))
    with driver.database.transaction() as tx:
        assert pausing.pause(tx, driver.tenant, run_id)
        ending.__enter__()
        wait_for_lock(driver.database)
    ending.wait()
    assert (status(driver, run_id), driver.statuses(run_id)["a"]) == ("paused", "completed")
    resume(driver, run_id)
    assert status(driver, run_id) == "completed"


def test_of_two_resumes_one_resumes(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    pause(driver, run_id)
    driver.sent.clear()
    calls = call_concurrently(*[lambda: resume(driver, run_id)] * 4)
    assert sorted(each.result for each in calls) == [False, False, False, True]
    assert driver.released(run_id) == [1]
    assert len(driver.events(run_id, "run.resumed")) == 1


def test_a_cancel_beside_a_resume_always_ends_the_run(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    pause(driver, run_id)
    call_concurrently(lambda: _resume_if_open(driver, run_id), lambda: cancel(driver, run_id))
    assert status(driver, run_id) == "cancelled"
    assert set(driver.statuses(run_id).values()) == {"cancelled"}


def test_a_cancel_that_waited_for_a_pause_ends_that_too(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    cancelling = BackgroundCall(lambda: cancel(driver, run_id))
    with driver.database.transaction() as tx:
        assert pausing.pause(tx, driver.tenant, run_id)
        cancelling.__enter__()
        wait_for_lock(driver.database)
    cancelling.wait()
    assert (status(driver, run_id), cancelling.error) == ("cancelled", None)
    assert driver.rows("SELECT 1 FROM run_pauses WHERE run_id = :id", id=run_id) == []


def _resume_if_open(driver: RunDriver, run_id: UUID) -> None:
    try:
        resume(driver, run_id)
    except Conflict:
        return
