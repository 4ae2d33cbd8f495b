"""A look ends a wait that is over, and only once."""

from __future__ import annotations

from datetime import timedelta

from support.run_driver import Clock
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.spec import StepSpec, engine_task
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000


def test_a_sleep_ends_when_its_time_has_come(isolated_runs: WaitingRuns, clock: Clock) -> None:
    run_id = isolated_runs.begin({"sleep": Sleep(ms=DAY_MS)})
    assert isolated_runs.driver.statuses(run_id) == {
        "start": "completed",
        "sleep": "waiting",
        "end": "pending",
    }
    assert isolated_runs.look(run_id, "sleep") == 0
    clock.ahead = timedelta(days=1, seconds=1)
    assert isolated_runs.look(run_id, "sleep") == 1
    assert isolated_runs.driver.statuses(run_id) == {
        "start": "completed",
        "sleep": "completed",
        "end": "queued",
    }
    assert isolated_runs.waits(run_id) == []


def test_a_signal_ends_the_wait_for_it(runs: WaitingRuns) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid", "cancelled"))})
    runs.send(run_id, "paid", {"amount": 3})
    output = runs.output(run_id, "paid")
    assert (output["name"], output["payload"], output["by"]) == ("paid", {"amount": 3}, "ann")
    assert runs.driver.statuses(run_id)["end"] == "queued"
    assert runs.driver.events(run_id, "task_run.completed")[-1].data["cause"] == "signal"


def test_a_signal_that_came_before_its_wait_is_kept(runs: WaitingRuns) -> None:
    run_id = runs.trigger({"paid": SignalWait(("paid",))})
    runs.send(run_id, "paid", 7)
    runs.start(run_id)
    assert runs.output(run_id, "paid")["payload"] == 7


def test_each_signal_is_taken_by_one_wait_the_oldest_first(runs: WaitingRuns) -> None:
    run_id = runs.begin({"one": SignalWait(("paid",)), "two": SignalWait(("paid",))})
    runs.send(run_id, "paid", 1)
    runs.send(run_id, "paid", 2)
    runs.look(run_id, "one", "two")
    assert sorted(runs.output(run_id, each)["payload"] for each in ("one", "two")) == [1, 2]


def test_a_wait_without_a_default_times_out_with_a_dead_letter(
    isolated_runs: WaitingRuns, clock: Clock
) -> None:
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",), timeout_ms=DAY_MS)})
    clock.ahead = timedelta(days=2)
    assert isolated_runs.look(run_id, "paid") == 1
    driver = isolated_runs.driver
    assert driver.statuses(run_id) == {"start": "completed", "paid": "timeout", "end": "cancelled"}
    assert driver.run(run_id).status == "failed"
    [letter] = driver.rows("SELECT error_code FROM dead_letters WHERE run_id = :id", id=run_id)
    assert letter.error_code == "WAIT_TIMEOUT"


def test_a_wait_with_a_default_completes_with_it(isolated_runs: WaitingRuns, clock: Clock) -> None:
    run_id = isolated_runs.begin({"ok": Approval("Ship?", timeout_ms=DAY_MS, default=None)})
    clock.ahead = timedelta(days=2)
    assert isolated_runs.look(run_id, "ok") == 1
    assert isolated_runs.output(run_id, "ok") is None
    assert isolated_runs.driver.events(run_id, "task_run.completed")[-1].data["cause"] == "default"


def test_a_cancel_of_the_run_deletes_its_waits(runs: WaitingRuns) -> None:
    from pipeweave.orchestrator.runs import triggering

    run_id = runs.begin({"paid": SignalWait(("paid",)), "sleep": Sleep(ms=DAY_MS)})
    assert len(runs.waits(run_id)) == 2
    with runs.driver.database.transaction() as tx:
        triggering.cancel(tx, runs.driver.tenant, run_id, reason="enough")
    assert runs.waits(run_id) == []
    assert runs.driver.statuses(run_id)["paid"] == "cancelled"


def test_what_a_step_waits_for_is_made_of_values_of_the_run(runs: WaitingRuns) -> None:
    names = SignalWait(("paid:${input.order}",), default={"late": "${input.order + 1}"})
    runs.driver.store_steps(StepSpec("paid", engine_task(names), decides=names))
    run_id = runs.driver.trigger(input={"order": 7})
    [wait] = runs.waits(run_id)
    assert (wait.names, wait.data["default"]) == (["paid:7"], {"late": 8})
    runs.send(run_id, "paid:7", "now")
    assert runs.driver.run(run_id).status == "completed"
    with verify.snapshot(runs.driver.database) as tx:
        assert verify.run(tx, run_id) == []


def test_a_step_that_cannot_wait_fails(runs: WaitingRuns) -> None:
    sleep = Sleep(seconds="${input.long}")
    runs.driver.store_steps(StepSpec("sleep", engine_task(sleep), decides=sleep))
    run_id = runs.driver.trigger(input={"long": "long"})
    [row] = runs.driver.task_runs(run_id)
    assert (row.status, row.error_code) == ("failed", "INVALID_WAIT")
    assert runs.driver.run(run_id).status == "failed"
