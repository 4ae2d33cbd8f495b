"""Runs that take too long, or in which nothing happens for too long, are ended by the tick."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import call_concurrently
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, claim, settle
from support.stored_values import VALUES
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.runs import admission, deadlines, standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.spec.wait_steps import SignalWait, Sleep

STEPS = {"a": [], "b": ["a"]}
NEVER = None


@pytest.fixture
def driver(fresh_database: Database) -> RunDriver:
    """Alone in its database: this looks at all runs."""
    return RunDriver(fresh_database)


def begun_ago(driver: RunDriver, run_id: UUID, minutes: int) -> None:
    """Write the run as if it had begun so long ago."""
    driver.rows(
        """UPDATE runs SET started_at = started_at - :ago, created_at = created_at - :ago,
            deadline_at = deadline_at - :ago WHERE id = :id RETURNING id""",
        id=run_id,
        ago=timedelta(minutes=minutes),
    )
    driver.rows(
        "UPDATE events SET at = at - CAST(:ago AS interval) WHERE run_id = :id RETURNING seq",
        id=run_id,
        ago=timedelta(minutes=minutes),
    )


def run(driver: RunDriver, run_id: UUID) -> Any:
    return driver.run(run_id)


def test_a_run_beyond_its_own_time_limit_ends_with_its_open_task_runs(driver: RunDriver) -> None:
    run_id = driver.begin(STEPS, timeout="5m")
    assert deadlines.enforce(driver.database, NEVER) == 0
    begun_ago(driver, run_id, 6)
    assert deadlines.enforce(driver.database, NEVER) == 1
    assert (run(driver, run_id).status, run(driver, run_id).error_code) == ("failed", "RUN_TIMEOUT")
    assert (
        run(driver, run_id).error["message"] == "the run took longer than 5 minutes (the pipeline's timeout)"
    )
    assert run(driver, run_id).error["details"] == {"timeoutMs": 300_000}
    assert set(driver.statuses(run_id).values()) == {"cancelled"}
    assert len(driver.events(run_id, "run.failed")) == 1
    assert deadlines.enforce(driver.database, NEVER) == 0


@pytest.mark.parametrize(
    ("member", "code"), [("timeout", "RUN_TIMEOUT"), ("idleTimeout", "RUN_IDLE_TIMEOUT")]
)
def test_a_run_beyond_a_limit_has_a_line_with_the_limit(
    driver: RunDriver, caplog: pytest.LogCaptureFixture, member: str, code: str
) -> None:
    run_id = driver.begin(STEPS, **{member: "5m"})
    park(driver, run_id)
    begun_ago(driver, run_id, 6)
    assert deadlines.enforce(driver.database, NEVER) == 1
    [line] = [vars(each) for each in caplog.records if each.message == "run.timeout_exceeded"]
    assert (line["levelname"], line["run_id"], line["pipeline_id"]) == (
        "WARNING",
        ids.show(ids.RUN, run_id),
        "driven",
    )
    assert (line["error_code"], line["timeout_ms"]) == (code, 300_000)
    assert run(driver, run_id).error["details"] == {"timeoutMs": 300_000}


def test_a_report_for_a_timed_out_run_changes_nothing(driver: RunDriver) -> None:
    run_id = driver.begin(STEPS, timeout="5m")
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
    begun_ago(driver, run_id, 6)
    deadlines.enforce(driver.database, NEVER)
    with driver.database.transaction() as tx:
        settle(tx, started)
    assert driver.statuses(run_id) == {"a": "cancelled", "b": "cancelled"}


def test_the_deployment_s_limit_holds_where_a_pipeline_names_none(driver: RunDriver) -> None:
    plain = driver.begin(STEPS)
    driver.store(STEPS, id="own", timeout="2h")
    own = driver.trigger("own")
    for each in (plain, own):
        begun_ago(driver, each, 30)
    # Ids tell when a run was made, too, and so the process's clock goes on with the rows.
    driver.database.now = lambda now=driver.database.now: now() + timedelta(minutes=30)  # type: ignore[misc]
    assert deadlines.enforce(driver.database, timedelta(minutes=10)) == 1
    assert (run(driver, plain).error_code, run(driver, own).status) == ("RUN_TIMEOUT", "running")
    said = run(driver, plain).error["message"]
    assert said == "the run took longer than 10 minutes (MAX_EXECUTION_TIMEOUT)"


def test_a_run_of_a_year_goes_on_where_nobody_set_a_limit(driver: RunDriver) -> None:
    run_id = driver.begin(STEPS)
    begun_ago(driver, run_id, 366 * 24 * 60)
    driver.database.now = lambda now=driver.database.now: now() + timedelta(days=366)  # type: ignore[misc]
    assert deadlines.enforce(driver.database, Settings().max_execution_timeout) == 0
    assert run(driver, run_id).status == "running"


def test_the_deployment_s_limit_is_not_one_of_standalone_tasks(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        (queued,) = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop")])
    run_id = ids.run_id_of(queued.task_run_id)
    begun_ago(driver, run_id, 30)
    driver.database.now = lambda now=driver.database.now: now() + timedelta(minutes=30)  # type: ignore[misc]
    assert deadlines.enforce(driver.database, timedelta(minutes=10)) == 0
    assert run(driver, run_id).status == "running"


def test_a_run_that_goes_on_from_a_dead_letter_has_the_deployment_s_limit_anew(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    begun_ago(driver, run_id, 30)
    driver.database.now = lambda now=driver.database.now: now() + timedelta(minutes=30)  # type: ignore[misc]
    driver.finish(run_id, "a", failure=PERMANENT)
    [letter] = driver.rows("SELECT id FROM dead_letters")
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)
    assert deadlines.enforce(driver.database, timedelta(minutes=10)) == 0
    assert run(driver, run_id).status == "running"


def test_the_slots_of_a_run_that_timed_out_are_given_to_others(driver: RunDriver) -> None:
    driver.store({"a": []}, id="late", tasks={"a": "single"}, timeout="5m")
    driver.store({"a": []}, id="other", tasks={"a": "single"})
    late, other = driver.trigger("late"), driver.trigger("other")
    begun_ago(driver, late, 6)
    assert driver.statuses(other) == {"a": "ready"}
    assert deadlines.enforce(driver.database, NEVER) == 1
    assert driver.statuses(other) == {"a": "queued"}


def test_a_run_that_ended_in_time_is_left_as_it_is(driver: RunDriver) -> None:
    """It may end between the look that finds it late and the move."""
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        assert not deadlines.time_out_run(
            tx, driver.tenant, run_id, deadlines.RUN_TIMEOUT, "it took too long"
        )
    assert (run(driver, run_id).status, run(driver, run_id).error_code) == ("completed", None)


def test_a_run_that_waits_for_its_turn_is_not_idle(driver: RunDriver) -> None:
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    first, waiting = (driver.begin(STEPS, idleTimeout="5m") for _ in range(2))
    with driver.database.transaction() as tx:
        assert claim(tx, first, 1) is not None
    driver.rows(
        "UPDATE events SET at = at - interval '1 hour' WHERE run_id = :id RETURNING seq",
        id=waiting,
    )
    assert deadlines.enforce(driver.database, NEVER) == 0
    assert run(driver, waiting).status == "pending"


def test_a_run_in_which_nothing_happens_is_ended(driver: RunDriver) -> None:
    run_id = driver.begin(STEPS, idleTimeout="5m")
    park(driver, run_id)
    assert deadlines.enforce(driver.database, NEVER) == 0
    begun_ago(driver, run_id, 6)
    assert deadlines.enforce(driver.database, NEVER) == 1
    assert run(driver, run_id).error_code == "RUN_IDLE_TIMEOUT"


def test_a_run_that_is_queued_behind_busy_workers_is_not_idle(driver: RunDriver) -> None:
    run_id = driver.begin(STEPS, idleTimeout="5m")
    begun_ago(driver, run_id, 60)
    assert deadlines.enforce(driver.database, NEVER) == 0
    park(driver, run_id)
    assert deadlines.enforce(driver.database, NEVER) == 1


def park(driver: RunDriver, run_id: Any) -> None:
    """Let the queued task runs of a run wait for a worker that has their task."""
    parking = queue_names.parking_sql("queue", "task_id")
    driver.rows(
        f"UPDATE task_runs SET queue = {parking} WHERE run_id = :id AND status = 'queued' RETURNING id",
        id=run_id,
    )


def test_a_run_that_works_or_waits_for_another_attempt_is_not_idle(driver: RunDriver) -> None:
    working = driver.begin(STEPS, idleTimeout="5m")
    waiting = driver.trigger()
    with driver.database.transaction() as tx:
        assert claim(tx, working, 1) is not None
    with driver.database.transaction() as tx:
        started = claim(tx, waiting, 1)
        assert started is not None
        settle(tx, started, failure=TRANSIENT)
    for each in (working, waiting):
        begun_ago(driver, each, 60)
    assert deadlines.enforce(driver.database, NEVER) == 0


def test_a_run_that_waits_is_not_idle_whether_all_of_it_waits_or_not(driver: RunDriver) -> None:
    runs = WaitingRuns(driver)
    quiet = runs.begin({"paid": SignalWait(("paid",))}, idle_timeout_ms=300_000)
    lively = runs.begin(
        {"paid": SignalWait(("paid",)), "nap": Sleep(ms=1)}, idle_timeout_ms=300_000, look=False
    )
    for each in (quiet, lively):
        begun_ago(driver, each, 60)
    assert deadlines.enforce(driver.database, NEVER) == 0


def test_a_run_that_a_limit_or_a_person_holds_back_is_not_idle(driver: RunDriver) -> None:
    driver.store({"a": []}, id="limited", tasks={"a": "single"}, idleTimeout="5m")
    runs = [driver.trigger("limited") for _ in range(2)]
    with driver.database.transaction() as tx:
        assert claim(tx, runs[0], 1) is not None
    with driver.database.transaction() as tx:
        pauses.pause(tx, driver.tenant, "noop")
    runs.append(driver.begin(STEPS, idleTimeout="5m"))
    for each in runs:
        begun_ago(driver, each, 60)
    assert deadlines.enforce(driver.database, NEVER) == 0
    with driver.database.transaction() as tx:
        pauses.resume(tx, driver.tenant, "noop")
    assert deadlines.enforce(driver.database, NEVER) == 0


def test_two_ticks_at_once_end_a_late_run_once(driver: RunDriver) -> None:
    run_id = driver.begin(STEPS, timeout="5m")
    begun_ago(driver, run_id, 6)
    call_concurrently(*[lambda: deadlines.enforce(driver.database, NEVER)] * 3)
    assert len(driver.events(run_id, "run.failed")) == 1
