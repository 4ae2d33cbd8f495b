"""Several at once: one ends the wait, and the others change nothing. Who dies is made up for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.due_waits import is_due
from support.run_driver import Clock, finish_step
from support.stored_values import VALUES
from support.waiting_runs import WaitingRuns

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.waits import approvals, due, repairing
from pipeweave.orchestrator.waits.approvals import Vote
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000
ROUNDS = 12


def together(*verbs: Callable[[], object]) -> list[type[Exception] | None]:
    """Call all at once, each in a thread over a connection of its own; what each raised."""
    barrier = threading.Barrier(len(verbs))
    outcomes: list[type[Exception] | None] = [None] * len(verbs)

    def call(number: int, verb: Callable[[], object]) -> None:
        barrier.wait()
        try:
            verb()
        except PipeWeaveError as error:
            outcomes[number] = type(error)

    threads = [threading.Thread(target=call, args=each) for each in enumerate(verbs)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return outcomes


def ends(runs: WaitingRuns, run_id: UUID, step: str) -> int:
    """How often the task run of a step became final."""
    id = runs.task_run(run_id, step)
    kinds = "('task_run.completed', 'task_run.failed', 'task_run.timed_out')"
    single = f"SELECT count(*) AS n FROM events WHERE run_id = :run AND task_run_id = :id AND type IN {kinds}"
    [one] = runs.driver.rows(single, run=run_id, id=id)
    cancelled = runs.driver.events(run_id, "task_runs.cancelled")
    ordinal = id.int & 0xFFFFFF
    return int(one.n) + sum(
        any(first <= ordinal <= last for first, last in each.data["ordinals"]) for each in cancelled
    )


def test_of_vote_timeout_cancel_and_repair_one_ends_the_wait(
    isolated_runs: WaitingRuns, clock: Clock
) -> None:
    driver = isolated_runs.driver
    for _ in range(ROUNDS):
        clock.ahead = timedelta()
        run_id = isolated_runs.begin({"ok": Approval("Ship?", timeout_ms=DAY_MS)})
        task_run = isolated_runs.task_run(run_id, "ok")

        def vote(task_run: UUID = task_run) -> None:
            yes = Vote("ann", (), True)
            driver.database.run(lambda tx: approvals.vote(tx, driver.tenant, task_run, yes))

        def time_out(run_id: UUID = run_id) -> None:
            clock.ahead = timedelta(days=2)
            isolated_runs.look(run_id, "ok")

        def cancel(run_id: UUID = run_id) -> None:
            driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

        def resolve(task_run: UUID = task_run) -> None:
            result = repairing.Resolution(VALUES.keep("by hand"))
            driver.database.run(lambda tx: repairing.resolve(tx, driver.tenant, task_run, result, by="ann"))

        together(vote, time_out, cancel, resolve)
        assert ends(isolated_runs, run_id, "ok") == 1
        assert isolated_runs.waits(run_id) == []


def test_a_wait_that_begins_while_its_run_is_cancelled_is_not_left(runs: WaitingRuns) -> None:
    driver = runs.driver
    run_id = runs.trigger({"paid": SignalWait(("paid",))})

    def cancel() -> None:
        driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

    with ExitStack() as meanwhile, driver.database.transaction() as tx:
        finish_step(tx, run_id, "start")
        meanwhile.enter_context(BackgroundCall(cancel))
        wait_for_lock(driver.database)
    assert driver.statuses(run_id) == {"start": "completed", "paid": "cancelled", "end": "cancelled"}
    assert runs.waits(run_id) == []


def test_a_doubled_signal_is_one(runs: WaitingRuns) -> None:
    run_id = runs.begin({"one": SignalWait(("paid",)), "two": SignalWait(("paid",))})
    together(*(lambda: runs.send(run_id, "paid", once="order 17") for _ in range(4)))
    runs.look(run_id, "one", "two")
    statuses = runs.driver.statuses(run_id)
    assert sorted([statuses["one"], statuses["two"]]) == ["completed", "waiting"]


def test_each_of_several_signals_at_once_is_taken_once(runs: WaitingRuns) -> None:
    names = [f"w{number}" for number in range(4)]
    run_id = runs.begin({each: SignalWait(("paid",)) for each in names})
    together(*(lambda number=number: runs.send(run_id, "paid", number) for number in range(4)))  # type: ignore[misc]
    for _ in range(4):
        runs.look(run_id, *names)
    assert sorted(runs.output(run_id, each)["payload"] for each in names) == [0, 1, 2, 3]
    taken = runs.driver.rows("SELECT taken_by FROM signals WHERE run_id = :id", id=run_id)
    assert len({each.taken_by for each in taken}) == 4


@pytest.mark.parametrize("dies", ["waiter", "sender", "both"])
def test_whoever_dies_before_the_look_is_made_up_for(isolated_runs: WaitingRuns, dies: str) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))}, look=dies == "sender")
    isolated_runs.send(run_id, "paid", 1, look=dies == "waiter")
    if dies != "waiter":
        assert driver.statuses(run_id)["paid"] == "waiting"
        assert is_due(driver.database)
        assert due.run_once(driver.database) == 1
    assert driver.statuses(run_id)["paid"] == "completed"
    assert not is_due(driver.database)


def test_a_wait_and_a_signal_that_do_not_see_each_other_are_found_as_a_pair(
    isolated_runs: WaitingRuns,
) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
    isolated_runs.send(run_id, "paid", 1, look=False)
    # As if neither had seen the other: the wait is not due.
    with driver.database.transaction() as tx:
        tx.execute("UPDATE waits SET due_at = timeout_at")
    assert not is_due(driver.database)
    assert due.run_once(driver.database) == 1
    assert driver.statuses(run_id)["paid"] == "completed"


def test_nothing_is_looked_at_in_maintenance(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"sleep": Sleep(ms=DAY_MS)})
    with driver.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET mode = 'maintenance'")
        tx.execute("UPDATE waits SET due_at = now() - interval '1 day'")
    assert not is_due(driver.database)
    assert due.run_once(driver.database) == 0
    assert driver.statuses(run_id)["sleep"] == "waiting"


def test_a_large_payload_is_loaded_outside_of_the_transaction(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
    isolated_runs.send(run_id, "paid", "x" * 100_000)
    assert driver.statuses(run_id)["paid"] == "waiting"
    assert due.run_once(driver.database) == 0
    assert due.run_stored(driver.database, driver.values) == 1
    [row] = [each for each in driver.task_runs(run_id) if each.step_id == "paid"]
    assert driver.values.load(None, row.output_path)["payload"] == "x" * 100_000
