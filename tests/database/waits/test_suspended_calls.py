"""A call that suspends itself waits without a worker, and goes on with what is reported."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from support.attempts import kept
from support.run_driver import Clock, header
from support.stored_values import VALUES
from support.suspended_runs import ONE_RETRY, SuspendedRuns

from pipeweave import async_reports, ids
from pipeweave.callback_tokens import Callback
from pipeweave.errors import CallbackExpired, CallbackTaken, NotFound, Unavailable, WaitOver
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.recovery import lost_attempts
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.waits import callbacks, due


def test_a_suspended_call_waits_in_the_same_attempt_and_says_so(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin()
    row = suspended.row(run_id)
    assert (row.status, row.attempt, row.assets) == ("waiting", 1, {"a": {"path": "p", "size": 1}})
    [event] = suspended.driver.events(run_id, "task_run.waiting")
    shown = ids.show(ids.TASK_RUN, row.id)
    assert (event.attempt, event.data["kind"], event.data["names"]) == (
        1,
        "callback",
        [f"callback:{shown}:1"],
    )
    [wait] = suspended.waits(run_id)
    assert (wait.attempt, wait.timeout_at - wait.created_at) == (1, timedelta(days=7))


def test_a_report_completes_the_step_with_its_result(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin()
    assert suspended.report(run_id, {"status": "completed", "result": {"score": 3}})
    row = suspended.row(run_id)
    assert (row.status, row.output, row.assets) == (
        "completed",
        {"score": 3},
        {"a": {"path": "p", "size": 1}},
    )
    assert suspended.driver.statuses(run_id)["end"] == "queued"
    assert suspended.waits(run_id) == []
    [event] = suspended.driver.events(run_id, "task_run.completed")
    assert event.data["cause"] == "callback"


@pytest.mark.parametrize("body", [None, 7, "done", [1], {"score": 3}, {"status": "shipped"}])
def test_any_other_body_is_the_result_itself(suspended: SuspendedRuns, body: object) -> None:
    run_id = suspended.begin()
    suspended.report(run_id, body)
    assert suspended.row(run_id).output == body


def test_a_large_result_goes_to_storage_and_ends_the_wait_at_the_next_look(
    isolated_suspended: SuspendedRuns,
) -> None:
    runs = isolated_suspended
    run_id = runs.begin()
    runs.report(run_id, "x" * 100_000)
    assert runs.row(run_id).status == "waiting"
    assert due.run_stored(runs.driver.database, runs.driver.values) == 1
    row = runs.row(run_id)
    assert (row.status, row.output_size) == ("completed", 100_002)
    assert runs.driver.values.load(None, row.output_path) == "x" * 100_000


def test_a_report_before_its_wait_is_kept(suspended: SuspendedRuns) -> None:
    run_id = suspended.trigger()
    claimed = suspended.claim(run_id)
    assert suspended.report(run_id, 5)
    assert suspended.row(run_id).status == "running"
    suspended.suspend(claimed)
    assert (suspended.row(run_id).status, suspended.row(run_id).output) == ("completed", 5)


def test_the_same_report_again_is_one_and_another_is_refused(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin()
    assert suspended.report(run_id, {"n": 1})
    assert not suspended.report(run_id, {"n": 1})
    with pytest.raises(CallbackTaken):
        suspended.report(run_id, {"n": 2})
    assert suspended.row(run_id).output == {"n": 1}


def test_a_failure_fails_the_attempt_which_is_tried_again_with_a_new_url(
    isolated_suspended: SuspendedRuns, clock: Clock
) -> None:
    runs = isolated_suspended
    run_id = runs.begin(step={"retry": ONE_RETRY})
    runs.report(run_id, {"status": "failed", "error": {"message": "no money", "iban": "DE1"}})
    row = runs.row(run_id)
    assert (row.status, row.attempt, row.assets, runs.waits(run_id)) == ("pending", 2, None, [])
    assert kept(runs.driver, run_id) == [(1, "failed", "ASYNC_FAILED")]
    with pytest.raises(WaitOver):
        runs.report(run_id, 5, attempt=2)
    with pytest.raises(CallbackTaken):
        runs.report(run_id, 5)
    clock.ahead = timedelta(seconds=1)
    runs.suspend(runs.claim_again(run_id))
    runs.report(run_id, 6, attempt=2)
    assert (runs.row(run_id).output, runs.row(run_id).attempt) == (6, 2)


def test_the_last_failure_leaves_a_dead_letter_with_what_was_said(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin(step={"retry": {"attempts": 1}})
    suspended.report(run_id, {"status": "failed", "error": "no money"})
    row = suspended.row(run_id)
    assert (row.status, row.error_code, row.error["message"]) == (
        "failed",
        "ASYNC_FAILED",
        "Async operation failed: no money",
    )
    letters = suspended.driver.rows("SELECT * FROM dead_letters WHERE run_id = :id", id=run_id)
    assert [each.error_code for each in letters] == ["ASYNC_FAILED"]


def test_a_report_on_an_attempt_that_is_over_is_refused_and_nobody_takes_one_that_came_before(
    suspended: SuspendedRuns,
) -> None:
    run_id = suspended.trigger({"retry": {"attempts": 1}})
    claimed = suspended.claim(run_id)
    suspended.report(run_id, 1)
    with suspended.driver.database.transaction() as tx:
        failure = Failure("BAD", "it failed", "Bad")
        Turn(header(tx, run_id), [(claimed, failure)], "q", max_retry_delay_ms=None).store(tx)
    assert suspended.row(run_id).status == "failed"
    # Too late: its worker comes back from the dead.
    suspended.suspend(claimed)
    assert (suspended.row(run_id).status, suspended.waits(run_id)) == ("failed", [])
    assert not suspended.report(run_id, 1)
    [signal] = suspended.driver.rows("SELECT * FROM signals WHERE run_id = :id", id=run_id)
    assert signal.taken_at is None


def test_nobody_reports_for_an_attempt_that_was_never_there(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin()
    with pytest.raises(WaitOver):
        suspended.report(run_id, 1, attempt=2)
    with pytest.raises(NotFound):
        suspended.report(ids.new_id(), 1)


def test_a_url_expires_unless_its_wait_lives_longer(suspended: SuspendedRuns) -> None:
    run_id = suspended.trigger()
    claimed = suspended.claim(run_id)
    with pytest.raises(CallbackExpired):
        suspended.report(run_id, 1, lives=timedelta(seconds=-1))
    suspended.suspend(claimed)
    assert suspended.report(run_id, 1, lives=timedelta(seconds=-1))


def test_a_wait_that_nobody_answers_times_out_and_is_tried_again(
    isolated_suspended: SuspendedRuns, clock: Clock
) -> None:
    runs = isolated_suspended
    run_id = runs.begin(step={"retry": ONE_RETRY, "async": {"timeout": "1h"}})
    clock.ahead = timedelta(minutes=59)
    assert runs.look(run_id) == 0
    clock.ahead = timedelta(minutes=61)
    assert runs.look(run_id) == 1
    assert (runs.row(run_id).status, runs.row(run_id).attempt) == ("pending", 2)
    assert kept(runs.driver, run_id) == [(1, "timeout", "WAIT_TIMEOUT")]


def test_a_waiting_call_keeps_its_slot_and_is_never_lost(
    isolated_suspended: SuspendedRuns, clock: Clock
) -> None:
    runs = isolated_suspended
    run_id = runs.begin()
    clock.ahead = timedelta(hours=1)
    with runs.driver.database.transaction() as tx:
        assert lost_attempts.of_lost_workers(tx) == []
        assert lost_attempts.of_time(tx) == []
        live = "SELECT count(*) FROM task_runs WHERE status IN ('queued', 'running', 'waiting')"
        assert tx.execute(live).scalar_one() == 1
    assert runs.driver.run(run_id).quiet_since is not None


def test_a_cancel_ends_the_wait(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin()
    with suspended.driver.database.transaction() as tx:
        triggering.cancel(tx, suspended.driver.tenant, run_id)
    assert suspended.waits(run_id) == []
    with pytest.raises(WaitOver):
        suspended.report(run_id, 1)


def test_in_maintenance_no_report_is_taken(isolated_suspended: SuspendedRuns) -> None:
    runs = isolated_suspended
    run_id = runs.begin()
    database = runs.driver.database
    database.run(maintenance_mode.request)
    database.run(maintenance_mode.enter)
    with pytest.raises(Unavailable):
        runs.report(run_id, 1)


def test_the_items_of_a_map_may_suspend_themselves(suspended: SuspendedRuns) -> None:
    steps = [
        {"id": "each", "task": "noop", "map": {"over": [1, 2]}},
        {"id": "end", "task": "noop"},
    ]
    run_id = suspended.trigger(steps=steps)
    for ordinal in (3, 4):
        suspended.suspend(suspended.claim(run_id, ordinal))
    suspended.report(run_id, "b", ordinal=4)
    assert suspended.driver.statuses(run_id)["end"] == "pending"
    suspended.report(run_id, "a", ordinal=3)
    assert suspended.driver.statuses(run_id)["end"] == "queued"


def test_history_is_rebuilt_from_events(suspended: SuspendedRuns) -> None:
    run_id = suspended.begin(step={"retry": ONE_RETRY})
    _verified(suspended, run_id)
    suspended.report(run_id, {"status": "failed"})
    _verified(suspended, run_id)


def _verified(suspended: SuspendedRuns, run_id: UUID) -> None:
    with verify.snapshot(suspended.driver.database) as tx:
        assert verify.run(tx, run_id) == []


def test_a_wait_and_its_report_that_did_not_see_each_other_are_found_as_a_pair(
    isolated_suspended: SuspendedRuns,
) -> None:
    runs = isolated_suspended
    run_id = runs.trigger()
    claimed = runs.claim(run_id)
    database = runs.driver.database
    # The report's statement begins before the wait is there, and ends after its look.
    with database.transaction() as tx:
        tx.execute("SELECT 1")
        kept = VALUES.keep(async_reports.of_callback(5))
        callbacks.receive(tx, Callback(claimed.id, 1, tx.now + timedelta(days=1)), kept)
        tx._after.clear()
        runs.suspend(claimed)
        assert runs.row(run_id).status == "waiting"
    with database.statements() as tx:
        assert tx.execute(f"SELECT {due.IS_DUE}").scalar_one() is True
    assert due.run_once(database) == 1
    assert runs.row(run_id).output == 5
