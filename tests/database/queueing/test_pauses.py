"""Pauses: nothing of a task or a tenant starts, wherever it comes from; resumed, it goes in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.factories import register
from support.run_driver import TRANSIENT, RunDriver, claim, finish_task_run, header
from support.stored_values import VALUES

from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine import fast_path
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.queueing import limits, pauses
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import claiming, completing, releasing
from pipeweave.orchestrator.store.database import Database, Transaction


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, "other", id="others")
    made.store({"a": []}, id="one")
    made.store({"a": []}, id="else", tasks={"a": "other"})
    made.store({"a": []}, id="limited", tasks={"a": "limited"})
    yield made
    made.rows("DELETE FROM pauses WHERE tenant_id = :id RETURNING 1", id=made.tenant)
    for row in made.rows("SELECT id FROM runs WHERE tenant_id = :id", id=made.tenant):
        with verify.snapshot(database) as tx:
            assert verify.run(tx, row.id) == []


def pause(driver: RunDriver, task: str | None = "noop", **options: str) -> pauses.Pause:
    return driver.database.run(lambda tx: pauses.pause(tx, driver.tenant, task, **options))


def resume(driver: RunDriver, task: str | None = "noop") -> None:
    driver.database.run(lambda tx: pauses.resume(tx, driver.tenant, task))


def status(driver: RunDriver, run_id: UUID, step: str = "a") -> str:
    return driver.statuses(run_id)[step]


def started(driver: RunDriver, run_id: UUID, ordinal: int = 1) -> TaskRun:
    with driver.database.transaction() as tx:
        found = claim(tx, run_id, ordinal)
    assert found is not None
    return found


# --- what is held back ------------------------------------------------------------------------------------


def test_a_run_that_is_triggered_meanwhile_is_ready_and_sends_nothing(driver: RunDriver) -> None:
    pause(driver)
    driver.sent.clear()
    held, gone = driver.trigger("one"), driver.trigger("else")
    assert (status(driver, held), status(driver, gone)) == ("ready", "queued")
    assert [each.run_id for each in driver.sent if isinstance(each, Released)] == [gone]


def test_standalone_tasks_wait_too(driver: RunDriver) -> None:
    pause(driver, None)
    with driver.database.transaction() as tx:
        [queued] = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop")])
    [row] = driver.rows("SELECT status FROM task_runs WHERE id = :id", id=queued.task_run_id)
    assert row.status == "ready"


def test_a_pause_moves_queued_task_runs_back_to_ready_and_their_messages_claim_nothing(
    driver: RunDriver,
) -> None:
    run_id, other = driver.trigger("one"), driver.trigger("else")
    pause(driver)
    assert (status(driver, run_id), status(driver, other)) == ("ready", "queued")
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is None
        assert claim(tx, other, 1) is not None


def test_a_running_step_ends_during_a_pause_and_its_successors_wait(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"]})
    first = started(driver, run_id)
    pause(driver)
    with driver.database.transaction() as tx:
        advance = Advance(tx, header(tx, run_id), Claimant("w1", first.queue, room=2))
        advance.settle(completing.complete(tx, [Completion(first, VALUES.keep(None))]))
        assert advance.close() == []
    assert driver.statuses(run_id) == {"a": "completed", "b": "ready", "c": "ready"}


def test_the_straight_way_stops_too(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    first = started(driver, run_id)
    pause(driver, None)
    driver.sent.clear()
    with driver.database.statements() as tx:
        completion = Completion(first, VALUES.keep(None))
        assert (
            fast_path.complete_and_go_on(tx, header(tx, run_id), [completion], Claimant("w1", first.queue))
            == []
        )
    assert driver.statuses(run_id) == {"a": "completed", "b": "ready"}
    assert driver.sent == []
    resume(driver, None)
    assert status(driver, run_id, "b") == "queued"


def test_the_items_of_a_map_wait(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "m": ["a"], "z": ["m"]}, maps={"m": "${steps.a}"})
    first = started(driver, run_id)
    pause(driver)
    with driver.database.transaction() as tx:
        advance = Advance(tx, header(tx, run_id))
        advance.settle(completing.complete(tx, [Completion(first, VALUES.keep(list(range(10))))]))
        advance.close()
    assert [row.status for row in driver.task_runs(run_id)[3:]] == ["ready"] * 10
    resume(driver)
    assert [row.status for row in driver.task_runs(run_id)[3:]] == ["queued"] * 10
    for ordinal in range(4, 14):
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal)
    driver.check(run_id, 2)
    assert driver.statuses(run_id) == {"a": "completed", "m": "completed", "z": "queued"}


def test_an_attempt_that_is_due_waits(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    driver.finish(run_id, "a", failure=TRANSIENT)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE task_runs SET due_at = now() WHERE run_id = :id", {"id": run_id})
    pause(driver)
    due_attempts.release_due(driver.database)
    assert status(driver, run_id) == "ready"
    resume(driver)
    [row] = driver.task_runs(run_id)
    assert (row.status, row.attempt) == ("queued", 2)


def test_a_paused_task_run_that_a_worker_gives_back_is_ready(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    claimed = started(driver, run_id)
    pause(driver)
    with driver.database.transaction() as tx:
        assert claiming.give_back(tx, [claimed]) == []
    assert status(driver, run_id) == "ready"


def test_a_limited_task_that_is_paused_is_not_filled(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(4)]
    first = started(driver, runs[0])
    pause(driver, "limited")
    with driver.database.transaction() as tx:
        advance = Advance(tx, header(tx, runs[0]))
        advance.settle(completing.complete(tx, [Completion(first, VALUES.keep(None))]))
        advance.close()
    limits.fill_waiting(driver.database)
    assert [status(driver, each) for each in runs] == ["completed", "ready", "ready", "ready"]
    resume(driver, "limited")
    assert [status(driver, each) for each in runs] == ["completed", "queued", "queued", "ready"]


def test_other_tenants_and_tasks_go_on(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    other.store({"a": []}, id="one")
    before = other.trigger("one")
    pause(driver, None)
    assert [other.statuses(each)["a"] for each in (before, other.trigger("one"))] == ["queued", "queued"]


def test_a_task_of_the_same_name_of_another_tenant_goes_through_to_its_end(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    run_id = other.begin({"a": [], "b": ["a"]})
    pause(driver)
    pause(driver, None)
    first = started(other, run_id)
    with other.database.statements() as tx:
        completion = Completion(first, VALUES.keep(None))
        [second] = fast_path.complete_and_go_on(
            tx, header(tx, run_id), [completion], Claimant("w1", first.queue)
        )
    with other.database.transaction() as tx:
        assert [each.ordinal for each in claiming.give_back(tx, [second])] == [2]
    other.finish(run_id, "b")
    assert other.run(run_id).status == "completed"


def test_a_tenant_resumes_and_sees_its_own_pauses_alone(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    with driver.database.transaction() as tx:
        register(tx, other.tenant, "theirs", id="theirs")
    other.store({"a": []}, id="one")
    other.store({"a": []}, id="theirs", tasks={"a": "theirs"})
    for each in (driver, other):
        pause(each)
        pause(each, None)
    waiting = [other.trigger("one"), other.trigger("theirs")]
    resume(driver)
    resume(driver, None)
    with driver.database.transaction() as tx:
        assert pauses.find(tx, driver.tenant) == []
        assert [each.task_id for each in pauses.find(tx, other.tenant)] == [None, "noop"]
    assert [other.statuses(each)["a"] for each in waiting] == ["ready", "ready"]
    resume(other)
    resume(other, None)
    assert [other.statuses(each)["a"] for each in waiting] == ["queued", "queued"]


# --- at the same moment -----------------------------------------------------------------------------------


def test_a_task_run_chosen_by_a_limit_before_its_pause_stays_ready(driver: RunDriver) -> None:
    """A limit is looked at by one statement, and what it lets go moves with the next one."""
    pause(driver)
    run_id = driver.trigger("one")
    [row] = driver.task_runs(run_id)
    with driver.database.transaction() as tx:
        assert releasing.dispatch_ready(tx, [(run_id, row.id)]) == []
    assert status(driver, run_id) == "ready"


def test_a_task_run_chosen_to_be_held_back_before_its_resume_stays_queued(driver: RunDriver) -> None:
    """Whoever resumed it found nothing that waits; held back now, it would wait for the tick."""
    run_id = driver.trigger("one")
    [row] = driver.task_runs(run_id)
    with driver.database.transaction() as tx:
        assert releasing.hold_back(tx, [(run_id, row.id)]) == []
    assert status(driver, run_id) == "queued"


def test_a_row_locked_during_the_pause_does_not_start_and_the_tick_holds_it_back(
    driver: RunDriver,
) -> None:
    run_id = driver.trigger("one")
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM task_runs WHERE run_id = :id FOR UPDATE", {"id": run_id})
        # Locked rows are passed over: the claim that holds one may be about to start it.
        pause(driver)
    assert status(driver, run_id) == "queued"
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is None
    driver.database.run(pauses.take_back)
    assert status(driver, run_id) == "ready"


def test_a_run_that_is_written_while_a_pause_commits_waits(driver: RunDriver) -> None:
    """The writer knows nothing of the pause; its statement does."""
    driver.trigger("one")
    with driver.database.transaction() as tx:
        tx.execute("LOCK TABLE pauses IN ACCESS EXCLUSIVE MODE")
        beside = BackgroundCall(lambda: driver.trigger("one"))
        beside.__enter__()
        wait_for_lock(driver.database)
        tx.execute(
            "INSERT INTO pauses (tenant_id, task_id, paused_at) VALUES (:tenant, 'noop', now())",
            {"tenant": driver.tenant},
        )
    # Its snapshot may be older than the pause: then the row is queued, and still does not start.
    with driver.database.transaction() as tx:
        assert claim(tx, beside.result, 1) is None
    driver.database.run(pauses.take_back)
    assert status(driver, beside.result) == "ready"


def test_a_process_that_remembers_a_pause_notices_that_it_ended(driver: RunDriver) -> None:
    pause(driver)
    assert status(driver, driver.trigger("one")) == "ready"
    resume(driver)
    assert status(driver, driver.trigger("one")) == "queued"
    pause(driver, None)
    assert status(driver, driver.trigger("one")) == "ready"


# --- resuming ---------------------------------------------------------------------------------------------


def test_resumed_they_go_by_priority_then_age(driver: RunDriver) -> None:
    pause(driver)
    waiting = [driver.trigger("one", priority=priority) for priority in (50, 7, 50, 7, 60)]
    driver.sent.clear()
    resume(driver)
    order = [waiting.index(each.run_id) for each in driver.sent if isinstance(each, Released)]
    assert order == [1, 3, 0, 2, 4]
    assert {status(driver, each) for each in waiting} == {"queued"}


def test_more_than_a_batch_goes_and_is_taken_back(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH", 3)
    monkeypatch.setattr(pauses, "BATCH", 3)
    runs = [driver.trigger("one") for _ in range(10)]
    pause(driver)
    assert {status(driver, each) for each in runs} == {"ready"}
    resume(driver)
    assert {status(driver, each) for each in runs} == {"queued"}


def test_a_task_stays_paused_while_its_tenant_is(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    pause(driver)
    pause(driver, None)
    resume(driver)
    assert status(driver, run_id) == "ready"
    resume(driver, None)
    assert status(driver, run_id) == "queued"


def test_a_run_ends_as_if_there_had_been_no_pause(driver: RunDriver) -> None:
    wide: dict[str, list[str]] = {"a": []} | {f"b{number}": ["a"] for number in range(9)}
    run_id = driver.begin(wide | {"z": [f"b{number}" for number in range(9)]})
    first = started(driver, run_id)
    pause(driver)
    with driver.database.transaction() as tx:
        advance = Advance(tx, header(tx, run_id))
        advance.settle(completing.complete(tx, [Completion(first, VALUES.keep(None))]))
        advance.close()
    resume(driver)
    driver.finish(run_id, *(f"b{number}" for number in range(9)))
    driver.check(run_id, 11)
    driver.finish(run_id, "z")
    assert driver.run(run_id).status == "completed"


# --- the verbs --------------------------------------------------------------------------------------------


def test_pausing_again_changes_at_most_the_reason(driver: RunDriver) -> None:
    first = pause(driver, reason="the printer is out of paper")
    assert pause(driver) == first
    again = pause(driver, reason="still")
    assert (again.paused_at, again.reason) == (first.paused_at, "still")
    pause(driver, None)
    with driver.database.transaction() as tx:
        assert [each.task_id for each in pauses.find(tx, driver.tenant)] == [None, "noop"]


@pytest.mark.parametrize("verb", [pauses.pause, pauses.resume])
def test_an_unknown_task_is_not_found(
    driver: RunDriver, verb: Callable[[Transaction, str, str], object]
) -> None:
    with pytest.raises(NotFound, match="task 'nothing' not found"):
        driver.database.run(lambda tx: verb(tx, driver.tenant, "nothing"))


def test_a_task_that_is_not_paused_cannot_be_resumed(driver: RunDriver) -> None:
    pause(driver)
    with pytest.raises(Conflict, match="the tenant is not paused"):
        resume(driver, None)
    with pytest.raises(Conflict, match="task 'limited' is not paused"):
        resume(driver, "limited")
