"""A run of which nothing works costs its rows alone."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from support.run_driver import Clock
from support.sent_statements import sent_statements
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.queueing import maintenance_mode, run_slots
from pipeweave.orchestrator.queueing.maintenance_mode import mode
from pipeweave.orchestrator.recovery import stuck_joins
from pipeweave.orchestrator.runs import admission, triggering
from pipeweave.orchestrator.waits import quiet
from pipeweave.spec.wait_steps import SignalWait, Sleep

DAY_MS = 86_400_000


def is_quiet(runs: WaitingRuns, run_id: UUID) -> bool:
    return runs.driver.run(run_id).quiet_since is not None


def test_a_run_is_quiet_while_all_of_it_waits_and_lively_again_after_that(runs: WaitingRuns) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",)), "sleep": Sleep(ms=DAY_MS)})
    assert is_quiet(runs, run_id)
    runs.send(run_id, "paid")
    assert not is_quiet(runs, run_id)


def test_a_run_that_is_cancelled_while_it_waits_is_not_quiet_any_more(runs: WaitingRuns) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    assert is_quiet(runs, run_id)
    with runs.driver.database.transaction() as tx:
        triggering.cancel(tx, runs.driver.tenant, run_id)
    assert not is_quiet(runs, run_id)


def test_a_quiet_run_gives_its_run_slot_to_the_next(runs: WaitingRuns) -> None:
    driver = runs.driver
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    run_id = runs.begin({"paid": SignalWait(("paid",))}, look=False)
    later = driver.trigger()
    assert driver.run(later).status == "pending"
    runs.look(run_id, "paid")
    assert driver.run(later).status == "running"
    with driver.database.transaction() as tx:
        assert run_slots.slots_of(tx, driver.tenant).active == 1
    # On waking it goes on at once, as a run does that was opened again.
    runs.send(run_id, "paid")
    assert driver.statuses(run_id)["end"] == "queued"


def test_a_quiet_run_does_not_stop_a_drain(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))}, look=False)
    with driver.database.transaction() as tx:
        maintenance_mode.request(tx)
    with driver.database.transaction() as tx:
        assert not maintenance_mode.enter_if_drained(tx)
    isolated_runs.look(run_id, "paid")
    with driver.database.transaction() as tx:
        assert mode(tx) == "maintenance"


def test_nobody_looks_for_stuck_joins_of_quiet_runs(isolated_runs: WaitingRuns, clock: Clock) -> None:
    driver = isolated_runs.driver
    isolated_runs.begin({"paid": SignalWait(("paid",))})
    clock.ahead = timedelta(hours=1)
    assert stuck_joins._next_runs(driver.database) == []


def test_a_wrong_mark_is_corrected(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    quiet_one = isolated_runs.begin({"paid": SignalWait(("paid",))}, look=False)
    lively = driver.trigger()
    with driver.database.transaction() as tx:
        tx.execute("UPDATE runs SET quiet_since = now() WHERE id = :id", {"id": lively})
    assert quiet.check_marks(driver.database) == 2
    assert is_quiet(isolated_runs, quiet_one)
    assert not is_quiet(isolated_runs, lively)
    assert quiet.check_marks(driver.database) == 0


@pytest.mark.parametrize("count", [1, 30])
def test_right_marks_cost_two_statements_however_many_there_are(
    isolated_runs: WaitingRuns, count: int
) -> None:
    for _ in range(count):
        isolated_runs.begin({"paid": SignalWait(("paid",))})
    quiet.check_marks(isolated_runs.driver.database)
    with sent_statements(of_all_threads=False) as sent:
        assert quiet.check_marks(isolated_runs.driver.database) == 0
    assert sent.cost == (2, 2), sent
