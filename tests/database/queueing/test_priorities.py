"""What is better than what a message names: a lower priority number, or the same and older."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.run_driver import RunDriver, claim
from support.sent_statements import sent_statements

from pipeweave.orchestrator.queueing import pauses, priorities
from pipeweave.orchestrator.queueing.priorities import Better
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    made = RunDriver(database)
    made.store({"a": []}, id="one")
    made.store({f"s{number}": [] for number in range(5)}, id="five")
    return made


def queue_of(driver: RunDriver) -> str:
    return f"pipeweave.{driver.tenant}.python"


def better(driver: RunDriver, run_id: UUID, *ordinals: int, most: int = 10) -> Better | None:
    with driver.database.transaction() as tx:
        return priorities.better(tx, queue_of(driver), run_id, ordinals or (1,), 1, most)


def found(
    driver: RunDriver, run_id: UUID, *ordinals: int, most: int = 10
) -> tuple[UUID, tuple[int, ...]] | None:
    seen = better(driver, run_id, *ordinals, most=most)
    return None if seen is None else (seen.run_id, seen.ordinals)


def test_a_lower_number_goes_first_and_then_the_older_one(driver: RunDriver) -> None:
    low, older, younger, best = (driver.trigger("one", priority=each) for each in (70, 60, 60, 7))
    assert found(driver, low) == (best, (1,))
    driver.finish(best, "a")
    assert found(driver, low) == (older, (1,))
    assert found(driver, younger) == (older, (1,))
    assert found(driver, older) is None
    driver.finish(older, "a")
    assert found(driver, low) == (younger, (1,))


def test_the_message_is_put_back_unchanged(driver: RunDriver) -> None:
    low, _ = driver.trigger("one", priority=70), driver.trigger("one", priority=60)
    seen = better(driver, low)
    assert seen is not None
    assert (seen.named_priority, seen.named_since) == (70, driver.task_runs(low)[0].queued_at)


def test_task_runs_of_a_run_that_became_ready_together_are_claimed_together(driver: RunDriver) -> None:
    low, wide = driver.trigger("one", priority=70), driver.trigger("five", priority=60)
    driver.trigger("five", priority=60)
    assert found(driver, low) == (wide, (1, 2, 3, 4, 5))
    assert found(driver, low, most=2) == (wide, (1, 2))
    # Those became ready at the same moment as these.
    assert found(driver, wide, 4, 5) is None


def test_another_attempt_is_taken_alone(driver: RunDriver) -> None:
    low, wide = driver.trigger("one", priority=70), driver.trigger("five", priority=60)
    driver.rows("UPDATE task_runs SET attempt = 2 WHERE run_id = :id RETURNING 1", id=wide)
    seen = better(driver, low)
    assert seen is not None
    assert (seen.run_id, seen.ordinals, seen.attempt) == (wide, (1,), 2)


def test_a_task_run_that_another_worker_is_claiming_is_skipped(driver: RunDriver) -> None:
    low, first, second = (driver.trigger("one", priority=each) for each in (70, 50, 60))
    with driver.database.transaction() as tx:
        claim(tx, first, 1)
        assert found(driver, low) == (second, (1,))


def test_a_message_that_names_nothing_queued_does_not_give_way(driver: RunDriver) -> None:
    low, _ = driver.trigger("one", priority=70), driver.trigger("one", priority=60)
    driver.finish(low, "a")
    assert found(driver, low) is None


def test_a_message_of_an_attempt_that_is_over_does_not_give_way(driver: RunDriver) -> None:
    """It would be put back, and find nothing for ever: the next attempt has a message of its own."""
    low, _ = driver.trigger("one", priority=70), driver.trigger("one", priority=60)
    driver.rows("UPDATE task_runs SET attempt = 2 WHERE run_id = :id RETURNING 1", id=low)
    assert found(driver, low) is None


def test_other_queues_and_paused_tasks_do_not_count(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    other.store({"a": []}, id="one")
    low = driver.trigger("one", priority=70)
    other.trigger("one", priority=1)
    assert found(driver, low) is None
    driver.store({"a": []}, id="limited", tasks={"a": "limited"})
    better_one = driver.trigger("limited", priority=60)
    assert found(driver, low) == (better_one, (1,))
    with driver.database.transaction() as tx:
        pauses.pause(tx, driver.tenant, "limited")
        # Not even before it was taken back.
        assert priorities.better(tx, queue_of(driver), low, (1,), 1, 10) is None
        assert not priorities.is_outranked(tx, queue_of(driver), low, [1])


def test_a_heartbeat_says_whether_two_priorities_wait_in_a_queue_of_the_worker(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        start = WorkerStart("python", "w@host", "host", 1, 1, queues=("pipeweave.other", queue_of(driver)))
        worker = worker_processes.register(tx, driver.tenant, start)

    def is_mixed() -> bool:
        with driver.database.statements() as tx, sent_statements(of_all_threads=False) as sent:
            heard = worker_processes.beat(tx, worker, also=priorities.IS_MIXED)
        assert heard is not None
        assert len(sent) == 1
        return heard.also

    assert not is_mixed()
    first = driver.trigger("one", priority=60)
    driver.trigger("one", priority=60)
    assert not is_mixed()
    driver.trigger("one", priority=70)
    assert is_mixed()
    driver.finish(first, "a")
    assert is_mixed()


@pytest.mark.parametrize(("waiting", "expected"), [(59, True), (60, False), (61, False)])
def test_only_a_lower_priority_number_outranks_the_next_step(
    driver: RunDriver, waiting: int, expected: bool
) -> None:
    driver.store({"a": [], "b": ["a"]}, id="two")
    run_id = driver.trigger("two", priority=60)
    driver.trigger("one", priority=waiting)
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1)
        assert priorities.is_outranked(tx, queue_of(driver), run_id, [2]) is expected
        assert not priorities.is_outranked(tx, queue_of(driver), run_id, [])


def test_a_task_run_that_another_worker_only_looked_at_is_not_skipped(driver: RunDriver) -> None:
    low, lower, first, second = (driver.trigger("one", priority=each) for each in (90, 80, 50, 60))
    with driver.database.transaction() as tx:
        # A quick task's worker would take up to ten at once; of these it can take one alone.
        seen = priorities.better(tx, queue_of(driver), low, (1,), 1, 10)
        assert seen is not None
        assert seen.run_id == first
        # Another worker, while that one is still at it, goes on with the next best one.
        assert found(driver, lower) == (second, (1,))
