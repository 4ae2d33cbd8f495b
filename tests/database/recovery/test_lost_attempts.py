"""Attempts that are lost with their worker or child, silent, or far beyond their time limit."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from support.attempts import first, kept
from support.concurrency import BackgroundCall, call_concurrently
from support.factories import a_task, register
from support.run_driver import TASKS, RunDriver, settle

from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.failure import Failure, Outcome
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.recovery import lost_attempts
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.state import claiming, heartbeats
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec import MapSpec, StepSpec

pytestmark = pytest.mark.every_postgres


@pytest.fixture
def driver(database: Database) -> RunDriver:
    found = RunDriver(database)
    with database.transaction() as tx:
        # Registered again as it was, and these beside it.
        register(
            tx,
            found.tenant,
            *TASKS,
            a_task("quick", retries=2, retry_delay_ms=1, retry_backoff="fixed"),
            a_task("later", retries=2, retry_delay_ms=3_600_000),
            a_task("once", retries=0),
            a_task("picky", retries=2, retry_delay_ms=1, retry_on=("BUSY",)),
            a_task("quick-limited", retries=2, retry_delay_ms=1, concurrency=1),
        )
    return found


def a_worker(tx: Transaction, tenant: str) -> str:
    return worker_processes.register(tx, tenant, WorkerStart("python", "w@host", "host", 2, 1))


def mine(driver: RunDriver, found: list[losses.Loss], run_id: UUID) -> list[tuple[int, Failure]]:
    return [(each.ordinal, how) for each, how in found if each.run_id == run_id]


def test_an_attempt_on_a_live_worker_is_not_lost(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant)
        claiming.start(tx, run_id, [1], 1, worker=worker_processes.child_of(worker, 4711))
        assert mine(driver, lost_attempts.of_lost_workers(tx), run_id) == []
        worker_processes.stop(tx, worker)
        [(ordinal, how)] = mine(driver, lost_attempts.of_lost_workers(tx), run_id)
        assert (ordinal, how.outcome, how.is_counted) == (1, Outcome.LOST, True)


def test_lost_task_runs_that_were_claimed_together_may_not_have_begun(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": []})
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [1, 2], 1, worker="gone@host:1:ab#1")
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [3], 1, worker="gone@host:1:ab#1")
    with driver.database.transaction() as tx:
        found = mine(driver, lost_attempts.of_lost_workers(tx), run_id)
    assert [(ordinal, how.is_counted) for ordinal, how in found] == [(1, False), (2, False), (3, True)]


@pytest.mark.parametrize(("timeout_ms", "is_over"), [(30_000, True), (7_200_000, False), (None, False)])
def test_the_time_limit_of_a_step_counts_instead_of_its_task_s(
    driver: RunDriver, timeout_ms: int | None, is_over: bool
) -> None:
    """The task's is five minutes."""
    mapped = StepSpec("m", "noop", map=MapSpec([1]), timeout_ms=timeout_ms)
    driver.store_steps(StepSpec("a", "noop", timeout_ms=timeout_ms), mapped)
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant)
        claiming.start(tx, run_id, [1, 3], 1, worker=worker)
        tx.execute(
            "UPDATE task_runs SET claimed_at = now() - interval '1 minute' WHERE run_id = :id", {"id": run_id}
        )
        late = mine(driver, lost_attempts.of_time(tx), run_id)
    over = [(each, "Operation timed out after 30000ms") for each in (1, 3)]
    assert [(each, how.message) for each, how in late] == (over if is_over else [])


def test_a_silent_attempt_is_ended_at_the_second_look(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant)
        claiming.start(tx, run_id, [1], 1, worker=worker)
        assert mine(driver, lost_attempts.of_time(tx), run_id) == []
        tx.execute(
            "UPDATE task_runs SET heartbeat_at = now() - interval '3 minutes' WHERE run_id = :id",
            {"id": run_id},
        )
        assert mine(driver, lost_attempts.of_time(tx), run_id) == []
        tx.execute(
            "UPDATE task_runs SET suspected_at = now() - interval '2 s' WHERE run_id = :id", {"id": run_id}
        )
        [(_, how)] = mine(driver, lost_attempts.of_time(tx), run_id)
        assert (how.code, how.outcome) == ("HEARTBEAT_LOST", Outcome.TIMEOUT)


def test_an_attempt_whose_worker_is_silent_too_is_left_to_the_loss_of_the_worker(driver: RunDriver) -> None:
    """It may never have begun: a worker that vanished right after its claim called nothing."""
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant)
        claiming.start(tx, run_id, [1], 1, worker=worker_processes.child_of(worker, 4711))
        tx.execute(
            """UPDATE task_runs SET heartbeat_at = now() - interval '3 minutes',
            suspected_at = now() - interval '2 s' WHERE run_id = :id""",
            {"id": run_id},
        )
        tx.execute("UPDATE workers SET heartbeat_at = now() - interval '3 s' WHERE id = :id", {"id": worker})
        assert mine(driver, lost_attempts.of_time(tx), run_id) == []
        tx.execute("UPDATE workers SET heartbeat_at = now() WHERE id = :id", {"id": worker})
        assert [how.code for _, how in mine(driver, lost_attempts.of_time(tx), run_id)] == ["HEARTBEAT_LOST"]


def test_silence_counts_from_twice_the_heartbeat_interval(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    silent = "UPDATE task_runs SET heartbeat_at = now() - CAST(:s AS interval) WHERE run_id = :id"
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [1], 1, worker=a_worker(tx, driver.tenant))
        for seconds, is_suspected in ((110, False), (130, True)):
            tx.execute(silent, {"s": timedelta(seconds=seconds), "id": run_id})
            lost_attempts.of_time(tx)
            row = tx.execute("SELECT suspected_at FROM task_runs WHERE run_id = :id", {"id": run_id}).one()
            assert (row.suspected_at is not None) == is_suspected


def test_a_heartbeat_clears_a_suspicion(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker=a_worker(tx, driver.tenant))
        tx.execute(
            """UPDATE task_runs SET heartbeat_at = now() - interval '3 minutes',
            suspected_at = now() - interval '1 minute' WHERE run_id = :id""",
            {"id": run_id},
        )
        assert heartbeats.beat(tx, started)
        assert mine(driver, lost_attempts.of_time(tx), run_id) == []


def test_an_attempt_far_beyond_its_time_limit_is_overdue(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [1], 1, worker=a_worker(tx, driver.tenant))
        tx.execute(
            "UPDATE task_runs SET claimed_at = now() - interval '301 s' WHERE run_id = :id", {"id": run_id}
        )
        assert mine(driver, lost_attempts.of_time(tx), run_id) == [], (
            "its worker ends it, and has some time for it"
        )
        tx.execute(
            "UPDATE task_runs SET claimed_at = now() - interval '320 s' WHERE run_id = :id", {"id": run_id}
        )
        [(_, how)] = mine(driver, lost_attempts.of_time(tx), run_id)
        assert how.code == "TIMEOUT"


def test_begun_task_runs_of_a_dead_child_are_lost_and_the_others_given_back(driver: RunDriver) -> None:
    run_id = driver.begin(
        {"m": []}, {"list": list(range(6))}, tasks={"m": "quick"}, maps={"m": "${input.list}"}
    )
    with driver.database.transaction() as tx:
        started = claiming.start(tx, run_id, [2, 3, 4], 1, worker="w#9")
    driver.sent.clear()
    doing = losses.ChildActivity("w#9", frozenset({started[0].id}), run_id, (2, 3, 4, 5, 6), 1)
    assert losses.of_child(driver.database, doing, failure.lost("killed"), max_retry_delay_ms=None) == 1
    rows = driver.task_runs(run_id)[1:]
    assert [(row.status, row.attempt) for row in rows] == [("queued", 2)] + [("queued", 1)] * 5
    # The second attempt of the first item; its message's others; the last item has a message of its own.
    assert sorted(set(driver.released(run_id))) == [2, 3, 4, 5, 6]
    assert kept(driver, run_id) == [(1, "lost", "WORKER_LOST")]


def test_a_doubled_report_of_a_dead_child_changes_nothing(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []}, tasks={"a": "quick"})
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker="w#9")
    doing = losses.ChildActivity("w#9", frozenset({started.id}), run_id, (1,), 1)
    counts = call_concurrently(
        *[lambda: losses.of_child(driver.database, doing, failure.lost("killed"), max_retry_delay_ms=None)]
        * 3
    )
    assert len([each for each in counts if each.error is None]) == 3
    assert len(kept(driver, run_id)) == 1
    assert first(driver, run_id).attempt == 2


def test_a_late_report_of_a_dead_child_leaves_attempts_of_other_workers_alone(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []}, tasks={"a": "quick", "b": "quick"})
    with driver.database.transaction() as tx:
        a, b = claiming.start(tx, run_id, [1, 2], 1, worker="w#9")
        settle(tx, a, failure=failure.lost("its worker is gone"))
        assert claiming.give_back(tx, [b]) != []
        assert claiming.start(tx, run_id, [1], 2, worker="w#10") != []
        assert claiming.start(tx, run_id, [2], 1, worker="w#10") != []
    doing = losses.ChildActivity("w#9", frozenset({a.id}), run_id, (1, 2), 1)
    assert losses.of_child(driver.database, doing, failure.lost("killed"), max_retry_delay_ms=None) == 0
    with driver.database.transaction() as tx:
        # It was claimed when somebody looked, and is not any more.
        hand_over(tx, run_id, Unstarted([b]), worker="w#9")
    rows = driver.task_runs(run_id)
    assert [(row.status, row.attempt, row.worker) for row in rows] == [
        ("running", 2, "w#10"),
        ("running", 1, "w#10"),
    ]


def test_a_loss_gives_its_slot_to_others_and_asks_about_the_joins_it_was_counted_for(
    driver: RunDriver,
) -> None:
    wide = [f"b{number}" for number in range(8)]
    needs = {"a": [], **{each: ["a"] for each in wide}, "c": wide}
    run_id = driver.begin(needs, tasks={"b0": "once"}, failureMode="continue")
    driver.finish(run_id, "a")
    driver.store({"a": []}, id="limited", tasks={"a": "quick-limited"})
    holder, waiting = driver.trigger("limited"), driver.trigger("limited")
    with driver.database.transaction() as tx:
        [member] = claiming.start(tx, run_id, [2], 1, worker="gone")
        [held] = claiming.start(tx, holder, [1], 1, worker="gone")
    driver.sent.clear()
    lost = failure.lost("its worker is gone")
    assert losses.end(driver.database, [(member, lost), (held, lost)], max_retry_delay_ms=None) == 2
    assert driver.statuses(run_id)["b0"] == "failed"
    assert [each.join for each in driver.sent if isinstance(each, JoinCheck)] == [10]
    statuses = [driver.statuses(each)["a"] for each in (holder, waiting)]
    assert sorted(statuses) == ["queued", "ready"]


def test_only_attempts_that_ended_by_it_are_counted(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []}, tasks={"a": "quick", "b": "quick"})
    with driver.database.transaction() as tx:
        [fenced, held] = claiming.start(tx, run_id, [1, 2], 1, worker="gone")
    lost = failure.lost("its worker is gone")
    assert losses.end(driver.database, [(fenced, lost)], max_retry_delay_ms=None) == 1
    assert losses.end(driver.database, [(fenced, lost), (held, lost)], max_retry_delay_ms=None) == 1
    month_is_dropped = held._replace(run_id=UUID(int=held.run_id.int ^ 1 << 30))
    assert losses.end(driver.database, [(month_is_dropped, lost)], max_retry_delay_ms=None) == 0


def test_a_loss_does_not_wait_for_a_lock_on_another_run(driver: RunDriver) -> None:
    one, two = driver.begin({"a": []}, tasks={"a": "quick"}), driver.trigger()
    with driver.database.transaction() as tx:
        found = [claiming.start(tx, each, [1], 1, worker="w#9")[0] for each in (one, two)]
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM task_runs WHERE run_id = :id FOR UPDATE", {"id": two})
        with BackgroundCall(
            lambda: losses.end(driver.database, [(found[0], failure.lost("gone"))], max_retry_delay_ms=None)
        ) as beside:
            beside.wait()
    assert first(driver, one).attempt == 2
