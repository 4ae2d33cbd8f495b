"""The tick finds what was lost, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall
from support.empty_broker import EmptyBroker
from support.run_driver import Clock, RunDriver, claim, settle

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.outbox import JoinCheck, Released
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.recovery import lost_messages, tick
from pipeweave.orchestrator.recovery.lost_messages import LATE
from pipeweave.orchestrator.recovery.tick import Ticked
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.starts.triggers import TriggerSpec, storing
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Transaction

WIDE = {"a": [], **{f"b{n}": ["a"] for n in range(8)}, "c": [f"b{n}" for n in range(8)]}
NOTHING = Ticked()


def long_queue(deployment: Deployment, length: int) -> None:
    assert isinstance(deployment.publisher, EmptyBroker)
    deployment.publisher.oldest_sent = 0.0 if length else None


def a_worker(tx: Transaction, tenant: str) -> str:
    return worker_processes.register(tx, tenant, WorkerStart("python", "w@host", "host", 1, 1))


def tick_later(deployment: Deployment, clock: Clock, seconds: float = 6) -> Ticked:
    clock.ahead += timedelta(seconds=seconds)
    return tick.run_once(deployment, is_urgent=True)


def test_a_tick_over_nothing_does_nothing(deployment: Deployment) -> None:
    assert tick.run_once(deployment) == NOTHING


def test_a_task_run_queued_a_moment_ago_is_not_sent_again(deployment: Deployment, driver: RunDriver) -> None:
    driver.begin(WIDE)
    assert tick.run_once(deployment) == NOTHING


def test_a_task_run_queued_for_long_with_an_empty_queue_is_sent_again(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"a": [], "b": []}, priority=7)
    driver.sent.clear()
    assert tick_later(deployment, clock).republished == 2
    queue = driver.task_runs(run_id)[0].queue
    assert set(driver.sent) == {Released(run_id, number, 1, "noop", queue, 7) for number in (1, 2)}


def test_a_message_that_was_sent_again_gets_time_to_arrive(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.begin({"a": []})
    assert tick_later(deployment, clock).republished == 1
    assert tick_later(deployment, clock, 1).republished == 0
    assert tick_later(deployment, clock, LATE.total_seconds()).republished == 1


def test_tenants_take_turns_when_more_is_lost_than_one_tick_sends(
    deployment: Deployment, driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = RunDriver(driver.database)
    mine = [driver.begin({"a": [], "b": [], "c": []}) for _ in range(3)]
    theirs = other.begin({"a": [], "b": []})
    other.sent.clear()
    monkeypatch.setattr(lost_messages, "BATCH", 4)
    assert tick_later(deployment, clock).republished == 4
    runs = [each.run_id for each in other.sent if isinstance(each, Released)]
    assert sorted([runs.count(theirs), sum(map(runs.count, mine))]) == [2, 2]
    assert tick_later(deployment, clock, 1).republished == 4


def test_a_queue_that_is_merely_long_is_left_alone(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.begin({"a": []})
    long_queue(deployment, 1)
    assert tick_later(deployment, clock, 3_600) == NOTHING


def test_running_task_runs_and_undecided_steps_are_not_sent(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1, worker=a_worker(tx, driver.tenant))
    driver.sent.clear()
    assert tick_later(deployment, clock) == NOTHING
    assert driver.sent == []


def test_a_join_whose_chord_never_fired_is_checked_when_all_it_waits_for_is_final(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin(WIDE)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(7)))
    assert tick_later(deployment, clock).joins_checked == 0
    driver.finish(run_id, "b7")
    driver.sent.clear()
    assert tick_later(deployment, clock).joins_checked == 1
    assert [each.join for each in driver.sent if isinstance(each, JoinCheck)] == [10]
    driver.check(run_id, 10)
    assert driver.released(run_id) == [10]


def test_a_run_whose_steps_are_all_final_is_ended(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({f"end{number}": [] for number in range(8)})
    driver.finish(run_id, *(f"end{number}" for number in range(8)))
    moved = "UPDATE services SET queue = 'pipeweave.a.reports' WHERE tenant_id = :id RETURNING 1"
    driver.rows(moved, id=driver.tenant)
    driver.sent.clear()
    assert tick_later(deployment, clock).joins_checked == 1
    # The workers of its tasks are asked, not those of some service that may have none.
    assert driver.sent == [JoinCheck(run_id, END, "pipeweave.a.reports")]
    driver.check(run_id, END)
    assert driver.run(run_id).status == "completed"


def test_a_map_in_which_nothing_moves_is_checked(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"m": []}, {"list": list(range(9))}, maps={"m": "${input.list}"})
    for ordinal in range(2, 11):
        with driver.database.transaction() as tx:
            started = claim(tx, run_id, ordinal)
            assert started is not None
            settle(tx, started, output=ordinal)
    assert driver.statuses(run_id) == {"m": "waiting"}
    driver.sent.clear()
    tick_later(deployment, clock)
    assert 1 in [each.join for each in driver.sent if isinstance(each, JoinCheck)]
    driver.check(run_id, 1)
    assert driver.run(run_id).status == "completed"


def test_final_runs_are_not_looked_at(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a")
    cancelled = driver.trigger()
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, cancelled)
    assert tick_later(deployment, clock) == NOTHING


def test_a_lost_chord_is_found_while_another_branch_still_runs(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin(WIDE | {"long": []})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 11)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(8)))
    driver.sent.clear()
    tick_later(deployment, clock)
    assert 10 in [each.join for each in driver.sent if isinstance(each, JoinCheck)]


def test_a_limit_that_was_raised_lets_more_go_with_the_next_tick(
    deployment: Deployment, driver: RunDriver
) -> None:
    driver.store({"a": []}, id="single", tasks={"a": "single"})
    waiting: list[UUID] = [driver.trigger("single") for _ in range(4)]
    with driver.database.transaction() as tx:
        tx.execute("UPDATE tasks SET concurrency = 3 WHERE id = 'single'")
    assert tick.run_once(deployment).limits_filled == 2
    assert [driver.statuses(run_id)["a"] for run_id in waiting] == ["queued", "queued", "queued", "ready"]


def test_of_two_ticks_at_once_one_does_nothing(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.begin({"a": []})
    clock.ahead = timedelta(seconds=6)
    with leases.held(driver.database, leases.TICK, timedelta(minutes=1)):
        assert tick.run_once(deployment) == Ticked(is_elsewhere=True)
    assert tick.run_once(deployment).republished == 1


def test_a_broker_that_cannot_be_reached_leaves_the_rows_as_they_were(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    """Nothing listens at the deployment's broker: the tick that could not look sends nothing."""

    run_id = driver.begin({"a": []})
    before = driver.task_runs(run_id)
    gone = EmptyBroker()
    gone.is_away = True
    broken = Deployment(deployment.settings, driver.database, driver.values, gone)
    driver.sent.clear()
    assert tick_later(broken, clock) == NOTHING
    assert driver.task_runs(run_id) == before
    assert driver.sent == []


def test_the_tick_holds_back_queued_task_runs_of_a_paused_task(
    deployment: Deployment, driver: RunDriver
) -> None:
    """Whoever paused it died just then."""
    run_id = driver.begin({"a": []})
    driver.rows(
        "INSERT INTO pauses (tenant_id, task_id, paused_at) VALUES (:id, 'noop', now()) RETURNING 1",
        id=driver.tenant,
    )
    assert tick.run_once(deployment) == Ticked(held_back=1)
    assert driver.statuses(run_id) == {"a": "ready"}


def test_an_attempt_that_is_lost_and_overdue_ends_once_by_the_first_finding(
    deployment: Deployment, driver: RunDriver
) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1, worker="gone@host:1:ab#1")
        tx.execute(
            "UPDATE task_runs SET claimed_at = now() - interval '1 day' WHERE run_id = :id", {"id": run_id}
        )
    assert tick.run_once(deployment).attempts_ended == 1
    [attempt] = driver.rows("SELECT * FROM attempts WHERE run_id = :id", id=run_id)
    assert (attempt.number, attempt.error_code) == (1, "WORKER_LOST")


def test_a_task_run_under_claim_is_neither_sent_again_nor_waited_for(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"a": [], "b": []})
    driver.sent.clear()
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is not None
        with BackgroundCall(lambda: tick_later(deployment, clock)) as beside:
            assert beside.result.republished == 1
    assert driver.released(run_id) == [2]


def test_a_message_that_left_a_little_later_than_its_row_was_written_is_not_missed() -> None:
    """The oldest one that waits may be this row's: it was sent after the commit, by another clock."""
    now = datetime.now(UTC)
    late, sent = now, now - timedelta(minutes=1)
    assert lost_messages.lost_before(late, sent.timestamp()) == sent - lost_messages.LEEWAY
    assert lost_messages.lost_before(late, (now + timedelta(minutes=1)).timestamp()) == late
    assert lost_messages.lost_before(late, None) == late


def test_a_tick_starts_what_follows_the_end_of_a_run(deployment: Deployment, driver: RunDriver) -> None:
    driver.store({"b": []}, id="after")
    driver.store({"a": []}, id="files", onSuccess="after")
    spec = TriggerSpec("event", "after", event="pipeline-completed", filter={"pipelineId": "files"})
    driver.database.run(lambda tx: storing.put(tx, None, driver.tenant, "next", spec))
    driver.finish(driver.trigger("files"), "a")
    found = tick.run_once(deployment)
    assert (found.triggers_fired, found.hooks_fired, found.failed_chores) == (1, 1, ())
    assert len(driver.rows("SELECT 1 FROM runs WHERE pipeline_id = 'after'")) == 2
    assert tick.run_once(deployment) == NOTHING
