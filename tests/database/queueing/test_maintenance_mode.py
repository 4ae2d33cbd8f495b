"""The maintenance mode: its verbs, what it refuses, and the end of the last run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.maintenance import do, mode, put, state
from support.run_driver import PERMANENT, RunDriver, claim, settle
from support.stored_values import VALUES

from pipeweave.errors import Conflict, Unavailable
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine import fast_path
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.state.deployment_mode import MAINTENANCE, RUNNING, WAITING
from pipeweave.orchestrator.store.database import Database, Transaction


@pytest.fixture
def driver(fresh_database: Database) -> RunDriver:
    """Alone in its database: the mode is everyone's."""
    return RunDriver(fresh_database)


# --- verbs ------------------------------------------------------------------------------------------------


VERBS: dict[str, Callable[[Transaction], object]] = {
    "request": maintenance_mode.request,
    "enter": maintenance_mode.enter,
    "leave": maintenance_mode.leave,
}


@pytest.mark.parametrize(
    ("before", "verb", "after"),
    [
        (RUNNING, "request", WAITING),
        (WAITING, "request", WAITING),
        (MAINTENANCE, "request", MAINTENANCE),
        (WAITING, "enter", MAINTENANCE),
        (MAINTENANCE, "enter", MAINTENANCE),
        (WAITING, "leave", RUNNING),
        (MAINTENANCE, "leave", RUNNING),
    ],
)
def test_a_verb_leads_from_mode_to_mode(driver: RunDriver, before: str, verb: str, after: str) -> None:
    put(driver, before)
    changed_at = state(driver)["modeChangedAt"]
    do(driver, VERBS[verb])
    assert mode(driver) == after
    assert (state(driver)["modeChangedAt"] != changed_at) == (before != after)


@pytest.mark.parametrize("verb", ["enter", "leave"])
def test_maintenance_that_was_not_requested_can_be_neither_entered_nor_left(
    driver: RunDriver, verb: str
) -> None:
    before = state(driver)
    with pytest.raises(Conflict, match="was not requested"):
        do(driver, VERBS[verb])
    assert state(driver) == before


@pytest.mark.parametrize("has_open_run", [True, False])
def test_maintenance_is_entered_only_when_no_run_is_open(driver: RunDriver, has_open_run: bool) -> None:
    run_id = driver.begin({"a": []})
    do(driver, maintenance_mode.request)
    if not has_open_run:
        driver.finish(run_id, "a")
        put(driver, WAITING)
    assert state(driver)["canEnterMaintenance"] is not has_open_run
    do(driver, maintenance_mode.enter)
    assert mode(driver) == (WAITING if has_open_run else MAINTENANCE)


def test_a_reason_is_told_until_everything_is_accepted_again(driver: RunDriver) -> None:
    do(driver, maintenance_mode.request, reason="new disks")
    assert state(driver)["reason"] == "new disks"
    do(driver, maintenance_mode.request, reason="another one")
    do(driver, maintenance_mode.enter)
    assert state(driver)["reason"] == "new disks"
    with driver.database.transaction() as tx, pytest.raises(Unavailable, match="no new work: new disks"):
        maintenance_mode.admit(tx)
    do(driver, maintenance_mode.leave, reason="disks are in")
    assert state(driver)["reason"] is None


# --- what is refused --------------------------------------------------------------------------------------


def trigger(tx: Transaction, tenant: str) -> None:
    triggering.trigger(tx, VALUES, tenant, StartRequest("driven"))


def trigger_many(tx: Transaction, tenant: str) -> None:
    triggering.trigger_many(
        tx, VALUES, tenant, "driven", [StartRequest("driven", n, run_token="t") for n in range(3)]
    )


def enqueue(tx: Transaction, tenant: str) -> None:
    standalone_tasks.enqueue(tx, VALUES, tenant, [QueueRequest("noop")])


def admit(tx: Transaction, tenant: str) -> None:
    maintenance_mode.admit(tx)


@pytest.mark.parametrize("wanted", [WAITING, MAINTENANCE])
@pytest.mark.parametrize("work", [trigger, trigger_many, enqueue, admit])
def test_nothing_new_is_accepted_while_the_mode_is_not_running(
    driver: RunDriver, work: Callable[[Transaction, str], None], wanted: str
) -> None:
    driver.store({"a": []})
    put(driver, wanted)
    with pytest.raises(Unavailable) as refused, driver.database.transaction() as tx:
        work(tx, driver.tenant)
    assert refused.value.context == {"maintenanceMode": wanted}
    assert driver.rows("SELECT 1 FROM runs") == []
    put(driver, RUNNING)
    with driver.database.transaction() as tx:
        work(tx, driver.tenant)


@pytest.mark.parametrize("ends_well", [True, False])
def test_entering_waits_for_a_trigger_under_way_and_sees_its_run(driver: RunDriver, ends_well: bool) -> None:
    driver.store({"a": []})

    class Undone(Exception):
        pass

    try:
        with driver.database.transaction() as tx:
            run_id = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven")).id
            # Requesting does not wait for it: the answer comes at once, however many are under way.
            do(driver, maintenance_mode.request)
            beside = BackgroundCall(lambda: do(driver, maintenance_mode.enter)).__enter__()
            wait_for_lock(driver.database)
            assert not beside.is_done
            if not ends_well:
                raise Undone
    except Undone:
        pass
    beside.wait()
    assert mode(driver) == (WAITING if ends_well else MAINTENANCE)
    if ends_well:
        driver.finish(run_id, "a")
        assert mode(driver) == MAINTENANCE


def test_a_trigger_that_comes_while_maintenance_begins_is_refused(driver: RunDriver) -> None:
    driver.store({"a": []})
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM orchestrator_state FOR UPDATE")
        with BackgroundCall(driver.trigger) as beside:
            wait_for_lock(driver.database)
            maintenance_mode.request(tx)
            maintenance_mode.enter(tx)
            tx.commit()
    with pytest.raises(Unavailable, match="accepts no new work"):
        _ = beside.result
    assert driver.rows("SELECT 1 FROM runs") == []
    assert mode(driver) == MAINTENANCE


_STALE = f"""
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(7)), accepting AS MATERIALIZED (
    SELECT s.mode FROM held, orchestrator_state AS s WHERE s.mode = '{RUNNING}' FOR KEY SHARE OF s)
SELECT mode FROM accepting
"""


def test_a_statement_as_old_as_the_request_finds_maintenance_entered(driver: RunDriver) -> None:
    """What PostgreSQL is relied upon for: its snapshot is older than the request, its lock younger than the
    entering; a row that changed in between is looked at again.
    """

    def stale() -> list[Any]:
        return driver.rows(_STALE)

    with driver.database.transaction() as tx:
        tx.execute("SELECT pg_advisory_xact_lock(7)")
        with BackgroundCall(stale) as beside:
            wait_for_lock(driver.database)
            do(driver, maintenance_mode.request)
            with driver.database.transaction() as ticking:
                tick_status.record(ticking)
            do(driver, maintenance_mode.enter)
            tx.commit()
    assert beside.result == []


def test_triggers_requests_and_entering_at_once_let_nothing_slip_in(driver: RunDriver) -> None:
    driver.store({"a": []})

    def triggers() -> None:
        for _ in range(40):
            try:
                driver.finish(driver.trigger(), "a")
            except Unavailable:
                return

    def enters() -> None:
        do(driver, maintenance_mode.request)
        while mode(driver) == WAITING:
            do(driver, maintenance_mode.enter)

    for each in call_concurrently(triggers, triggers, enters):
        assert each.error is None
    assert mode(driver) == MAINTENANCE
    assert driver.rows("SELECT 1 FROM runs WHERE finished_at IS NULL") == []


def test_triggers_wait_neither_for_each_other_nor_for_the_tick(driver: RunDriver) -> None:
    driver.store({"a": []})
    with driver.database.transaction() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"))
        with driver.database.transaction() as ticking:
            tick_status.record(ticking)
            driver.trigger()
        driver.trigger()


# --- the last run -----------------------------------------------------------------------------------------


def end_well(driver: RunDriver, run_id: UUID) -> None:
    driver.finish(run_id, "a")


def end_straight(driver: RunDriver, run_id: UUID) -> None:
    """As a worker does that needs one statement."""
    with driver.database.statements() as tx:
        run = run_headers.load(tx, run_id)
        started = claim(tx, run_id, 1)
        assert run is not None
        assert started is not None
        completion = Completion(started, VALUES.keep(1), None)
        assert fast_path.applies(run, completion)
        fast_path.complete_and_go_on(tx, run, [completion], Claimant("w1", started.queue))


def end_badly(driver: RunDriver, run_id: UUID) -> None:
    driver.finish(run_id, "a", failure=PERMANENT)


def end_by_cancelling(driver: RunDriver, run_id: UUID) -> None:
    do(driver, lambda tx: triggering.cancel(tx, driver.tenant, run_id))


ENDS = [end_well, end_straight, end_badly, end_by_cancelling]


@pytest.mark.parametrize("end", ENDS)
def test_maintenance_begins_with_the_end_of_the_last_run(
    driver: RunDriver, end: Callable[[RunDriver, UUID], None]
) -> None:
    driver.store({"a": []})
    first, last = driver.trigger(), driver.trigger()
    do(driver, maintenance_mode.request)
    end(driver, first)
    assert mode(driver) == WAITING
    end(driver, last)
    assert mode(driver) == MAINTENANCE


@pytest.mark.parametrize("end", ENDS)
def test_runs_end_as_ever_while_nobody_waits(
    driver: RunDriver, end: Callable[[RunDriver, UUID], None]
) -> None:
    end(driver, driver.begin({"a": []}))
    assert mode(driver) == RUNNING


def test_of_runs_that_end_at_once_the_last_one_brings_maintenance(driver: RunDriver) -> None:
    driver.store({"a": []})
    for _ in range(10):
        open_runs = [driver.trigger() for _ in range(4)]
        do(driver, maintenance_mode.request)
        call_concurrently(*(lambda run_id=run_id: driver.finish(run_id, "a") for run_id in open_runs))
        assert mode(driver) == MAINTENANCE
        do(driver, maintenance_mode.leave)


def test_open_runs_go_on_while_maintenance_waits_for_them(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["b"]})
    do(driver, maintenance_mode.request)
    driver.finish(run_id, "a", "b")
    assert mode(driver) == WAITING
    driver.finish(run_id, "c")
    assert driver.run(run_id).status == "completed"
    assert mode(driver) == MAINTENANCE


def test_a_step_that_ends_asks_for_nothing_more_than_before(driver: RunDriver) -> None:
    """Only who ends a run looks at the mode, and only while someone waits does a verb follow.

    The other action after the commit logs the end of the run.
    """
    run_id = driver.begin({"a": [], "b": ["a"]})
    for wanted, step, follows in ((RUNNING, 1, 0), (WAITING, 2, 2)):
        put(driver, wanted)
        with driver.database.transaction() as tx:
            started = claim(tx, run_id, step)
            assert started is not None
            settle(tx, started)
            assert len(tx._after) == follows
