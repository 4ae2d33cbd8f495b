"""Several at once: one ends the wait, and the others change nothing. Who dies is made up for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.due_waits import is_due
from support.lock_watch import LockWatch
from support.run_driver import Clock, RunDriver, finish_step
from support.stored_values import VALUES
from support.suspended_runs import SuspendedRuns
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.lock_order import may_wait
from pipeweave.orchestrator.waits import approvals, due, repairing
from pipeweave.orchestrator.waits.approvals import Vote
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000
# How often all of them race for one wait. A release tries it ten thousand times.
ROUNDS = int(os.environ.get("RANDOM_RACES", "12"))


@dataclass(frozen=True, slots=True)
class Said:
    """What a verb was told: its answer, or why it was refused."""

    answer: Any = None
    refusal: PipeWeaveError | None = None


def together(*verbs: Callable[[], Any]) -> list[Said]:
    """Call all at once, each in a thread over a connection of its own; what each was told."""
    barrier = threading.Barrier(len(verbs))

    def call(verb: Callable[[], Any]) -> Said:
        barrier.wait()
        try:
            return Said(verb())
        except PipeWeaveError as error:
            return Said(refusal=error)

    with ThreadPoolExecutor(len(verbs)) as threads:
        return list(threads.map(call, verbs))


def ends(driver: RunDriver, run_id: UUID, id: UUID) -> int:
    """How often a task run became final."""
    kinds = "('task_run.completed', 'task_run.failed', 'task_run.timed_out')"
    single = f"SELECT count(*) AS n FROM events WHERE run_id = :run AND task_run_id = :id AND type IN {kinds}"
    [one] = driver.rows(single, run=run_id, id=id)
    cancelled = driver.events(run_id, "task_runs.cancelled")
    ordinal = id.int & 0xFFFFFF
    return int(one.n) + sum(
        any(first <= ordinal <= last for first, last in each.data["ordinals"]) for each in cancelled
    )


def check_end(driver: RunDriver, run_id: UUID, id: UUID, said: Sequence[Said]) -> Any:
    """Check that the task run ended once, and that all were told so; its row."""
    assert ends(driver, run_id, id) == 1
    assert driver.rows("SELECT 1 FROM waits WHERE run_id = :id", id=run_id) == []
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    [row] = driver.rows("SELECT * FROM task_runs WHERE id = :id", id=id)
    for each in said:
        told = {} if each.refusal is None else each.refusal.context
        assert told.get("taskRunStatus", row.status) in (row.status, "waiting"), told
    return row


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, nobody waits for locks in another order than all others.

    The signals that a wait takes are locked before its task run: they are never waited for.
    """
    watch = LockWatch(monkeypatch)
    yield
    assert {pair for pair in watch.waits if not may_wait(*pair)} <= {("signals", "task_runs")}


def test_of_votes_timeouts_cancel_and_repair_one_ends_the_wait(
    isolated_runs: WaitingRuns, clock: Clock, locks: None
) -> None:
    runs, driver = isolated_runs, isolated_runs.driver

    def vote(task_run: UUID, by: str, is_approval: bool = True) -> None:
        driver.database.run(lambda tx: approvals.vote(tx, driver.tenant, task_run, Vote(by, (), is_approval)))

    def time_out(run_id: UUID) -> int:
        clock.ahead = timedelta(days=2)
        return runs.look(run_id, "ok")

    runs.store({"ok": Approval("Ship?", timeout_ms=DAY_MS)})
    for _ in range(ROUNDS):
        clock.ahead = timedelta()
        run_id = driver.trigger()
        runs.start(run_id)
        id = runs.task_run(run_id, "ok")
        said = together(
            partial(vote, id, "ann"),
            partial(vote, id, "ann"),
            partial(vote, id, "bob", False),
            partial(time_out, run_id),
            partial(time_out, run_id),
            partial(cancel, driver, run_id),
            partial(resolve, driver, id),
            partial(resolve, driver, id),
        )
        row = check_end(driver, run_id, id, said)
        winners = said[6].refusal is None, said[7].refusal is None
        assert sum(winners) <= 1
        assert (row.output == "by hand") == any(winners)
        if row.status == "completed" and not any(winners):
            # Of the first vote that was stored.
            assert row.output["approved"] is (row.output["by"] == "ann")
        assert (row.status == "cancelled") == (said[5].refusal is None and not _had_ended(driver, run_id))


def test_of_reports_timeouts_cancel_and_repair_one_ends_the_suspended_call(
    isolated_suspended: SuspendedRuns, clock: Clock, locks: None
) -> None:
    runs, driver = isolated_suspended, isolated_suspended.driver

    def time_out(run_id: UUID) -> int:
        clock.ahead = timedelta(days=8)
        return runs.look(run_id)

    for _ in range(ROUNDS):
        clock.ahead = timedelta()
        run_id = runs.begin(step={"retry": {"attempts": 1}})
        id = ids.task_run_id(run_id, 1)
        said = together(
            partial(runs.report, run_id, 5),
            partial(runs.report, run_id, 5),
            partial(runs.report, run_id, 6),
            partial(runs.report, run_id, {"status": "failed", "error": "no"}),
            partial(time_out, run_id),
            partial(time_out, run_id),
            partial(cancel, driver, run_id),
            partial(resolve, driver, id),
        )
        row = check_end(driver, run_id, id, said)
        stored = driver.rows("SELECT payload, taken_at FROM signals WHERE run_id = :id", id=run_id)
        # Each URL takes one report: one was told that it is new, and the others that one had come.
        assert [each.answer for each in said[:4]].count(True) == len(stored) <= 1
        is_repaired = said[7].refusal is None
        assert (row.output == "by hand") == is_repaired
        if row.status == "completed" and not is_repaired:
            assert row.output == stored[0].payload["result"]
        if row.status == "failed":
            assert (row.error_code, stored[0].payload["status"]) == ("ASYNC_FAILED", "failed")
        taken = [each for each in stored if each.taken_at is not None]
        assert bool(taken) == (row.status in ("completed", "failed") and not is_repaired)


def cancel(driver: RunDriver, run_id: UUID) -> None:
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))


def resolve(driver: RunDriver, id: UUID) -> None:
    result = repairing.Resolution(VALUES.keep("by hand"))
    driver.database.run(lambda tx: repairing.resolve(tx, driver.tenant, id, result, by="ann"))


def _had_ended(driver: RunDriver, run_id: UUID) -> bool:
    """Whether the step had ended by itself before its run was cancelled."""
    return not any(1 for each in driver.events(run_id, "task_runs.cancelled") if _is_of(each, 2))


def _is_of(event: Any, ordinal: int) -> bool:
    return any(first <= ordinal <= last for first, last in event.data["ordinals"])


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
