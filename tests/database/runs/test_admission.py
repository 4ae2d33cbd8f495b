"""A tenant's limit of active runs: exactly so many, exactly in order, and nothing lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import register, remove_task
from support.run_driver import PERMANENT, RunDriver, claim, finish_step, header
from support.stored_values import VALUES

from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine import fast_path
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.queueing import maintenance_mode, run_slots
from pipeweave.orchestrator.runs import admission, standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    made.store({"a": []}, id="one")
    made.store({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, id="diamond")
    yield made
    for row in made.rows("SELECT id FROM runs WHERE tenant_id = :id", id=made.tenant):
        with verify.snapshot(database) as tx:
            assert verify.run(tx, row.id) == []


def limit(driver: RunDriver, most: int | None) -> None:
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, most))


def statuses(driver: RunDriver, ids: list[UUID]) -> list[str]:
    return [driver.run(each).status for each in ids]


def active(driver: RunDriver) -> int:
    statement = (
        "SELECT count(*) FROM runs WHERE tenant_id = :id AND status = 'running' AND pipeline_id IS NOT NULL"
    )
    return int(driver.rows(statement, id=driver.tenant)[0][0])


def cancel(driver: RunDriver, run_id: UUID) -> None:
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))


# --- waiting ----------------------------------------------------------------------------------------------


def test_a_run_beyond_the_limit_waits_and_says_so(driver: RunDriver) -> None:
    limit(driver, 2)
    driver.sent.clear()
    with driver.database.transaction() as tx:
        answers = [triggering.trigger(tx, VALUES, driver.tenant, StartRequest("diamond")) for _ in range(3)]
    assert [(each.status, each.queued_tasks) for each in answers] == [
        ("running", ["noop"]),
        ("running", ["noop"]),
        ("pending", []),
    ]
    waiting = answers[2].id
    assert set(driver.statuses(waiting).values()) == {"pending"}
    assert driver.run(waiting).started_at is None
    assert waiting not in {each.run_id for each in driver.sent if isinstance(each, Released)}


def test_of_many_at_once_the_first_ones_start(driver: RunDriver) -> None:
    limit(driver, 3)
    driver.trigger("one")
    with driver.database.transaction() as tx:
        answers = triggering.trigger_many(
            tx, VALUES, driver.tenant, "one", [StartRequest("one", n) for n in range(5)]
        )
    assert [each.status for each in answers] == ["running"] * 2 + ["pending"] * 3
    assert statuses(driver, [each.id for each in answers]) == ["running"] * 2 + ["pending"] * 3


def test_standalone_tasks_and_other_tenants_do_not_wait(driver: RunDriver) -> None:
    limit(driver, 1)
    other = RunDriver(driver.database)
    other.store({"a": []}, id="one")
    with driver.database.transaction() as tx:
        tasks = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop")] * 3)
    assert statuses(driver, [driver.trigger("one"), driver.trigger("one")]) == ["running", "pending"]
    assert statuses(other, [other.trigger("one"), other.trigger("one")]) == ["running", "running"]
    rows = driver.rows(
        "SELECT status FROM task_runs WHERE id = ANY(:ids)", ids=[t.task_run_id for t in tasks]
    )
    assert {row.status for row in rows} == {"queued"}


# --- whose turn it is -------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [None, PERMANENT])
def test_with_the_end_of_a_run_the_oldest_one_starts(driver: RunDriver, failure: object) -> None:
    limit(driver, 1)
    first, *waiting = [driver.trigger("diamond") for _ in range(4)]
    driver.sent.clear()
    steps = ["a"] if failure else ["a", "b", "c", "d"]
    driver.finish(first, *steps[:-1])
    driver.finish(first, steps[-1], failure=failure)
    assert statuses(driver, waiting) == ["running", "pending", "pending"]
    assert driver.statuses(waiting[0]) == {"a": "queued", "b": "pending", "c": "pending", "d": "pending"}
    assert driver.released(waiting[0]) == [1]
    assert [each.type for each in driver.events(waiting[0], "run.running")] == ["run.running"]


def test_the_straight_end_of_a_run_lets_the_next_one_start(driver: RunDriver) -> None:
    limit(driver, 1)
    first, waiting = driver.trigger("one"), driver.trigger("one")
    with driver.database.transaction() as tx:
        started = claim(tx, first, 1)
    assert started is not None
    with driver.database.statements() as tx:
        fast_path.complete_and_go_on(
            tx, header(tx, first), [Completion(started, VALUES.keep(1))], Claimant("w1", started.queue)
        )
    assert statuses(driver, [first, waiting]) == ["completed", "running"]


def test_a_new_run_waits_behind_waiting_runs(driver: RunDriver) -> None:
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("one")
    # A place is free, and nobody has given it away yet.
    driver.rows("UPDATE tenants SET max_active_runs = 2 WHERE id = :id RETURNING 1", id=driver.tenant)
    third = driver.trigger("one")
    assert statuses(driver, [first, second, third]) == ["running", "pending", "pending"]
    admission.admit_waiting(driver.database)
    assert statuses(driver, [first, second, third]) == ["running", "running", "pending"]


def test_priority_does_not_change_whose_turn_it_is(driver: RunDriver) -> None:
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("one")
    urgent = driver.trigger("one", priority=1)
    driver.finish(first, "a")
    assert statuses(driver, [second, urgent]) == ["running", "pending"]


def test_a_whole_line_goes_one_after_the_other(driver: RunDriver) -> None:
    limit(driver, 2)
    line = [driver.trigger("one") for _ in range(8)]
    for number, run_id in enumerate(line):
        assert active(driver) <= 2
        started = [each for each in line if driver.run(each).started_at is not None]
        assert started == line[: min(number + 2, 8)]
        driver.finish(run_id, "a")
    assert set(statuses(driver, line)) == {"completed"}


def test_a_trigger_waits_for_one_under_way_and_stands_behind_it(driver: RunDriver) -> None:
    limit(driver, 1)
    with driver.database.transaction() as tx:
        first = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("one")).id
        beside = BackgroundCall(lambda: driver.trigger("one"))
        beside.__enter__()
        wait_for_lock(driver.database)
    assert statuses(driver, [first, beside.result]) == ["running", "pending"]


def test_counting_run_slots_keeps_other_triggers_waiting_until_the_run_is_written(driver: RunDriver) -> None:
    """Also where each statement commits by itself, as the API triggers."""
    limit(driver, 1)
    with driver.database.statements() as tx:
        assert run_slots.places(tx, driver.tenant) == 1
        beside = BackgroundCall(lambda: driver.trigger("one"))
        beside.__enter__()
        wait_for_lock(driver.database)
        first = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("one")).id
    assert statuses(driver, [first, beside.result]) == ["running", "pending"]


@pytest.mark.parametrize("status", ["paused", "error_handling"])
def test_a_run_that_stands_still_keeps_its_place(driver: RunDriver, status: str) -> None:
    limit(driver, 1)
    first = driver.trigger("one")
    put = "UPDATE runs SET status = :status WHERE id = :id RETURNING id"
    driver.rows(put, status=status, id=first)
    assert driver.run(driver.trigger("one")).status == "pending"
    driver.rows(put, status="running", id=first)


def test_ends_and_triggers_at_once_neither_exceed_the_limit_nor_leave_a_place_empty(
    driver: RunDriver,
) -> None:
    limit(driver, 3)
    going = [driver.trigger("one") for _ in range(6)]
    for _ in range(5):
        running = [each for each in going if driver.run(each).status == "running"]
        works: list[Callable[[], None]] = [
            lambda each=each: driver.finish(each, "a")  # type: ignore[misc]
            for each in running
        ]
        works += [lambda: going.append(driver.trigger("one"))] * 2
        assert [each.error for each in call_concurrently(*works)] == [None] * len(works)
        assert active(driver) == min(3, len([each for each in going if not driver.run(each).finished_at]))
    left = [each for each in going if driver.run(each).finished_at is None]
    while left:
        assert active(driver) == min(3, len(left))
        driver.finish(next(each for each in left if driver.run(each).status == "running"), "a")
        left = [each for each in left if driver.run(each).finished_at is None]
    # Those that were triggered one after the other went in that order.
    began = [driver.run(each).started_at for each in going[:6]]
    assert began == sorted(began)


def test_a_process_that_dies_between_an_end_and_the_next_start_leaves_it_to_the_tick(
    driver: RunDriver,
) -> None:
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("one")
    with driver.database.transaction() as tx:
        finish_step(tx, first, "a")
        tx._after.clear()
    assert statuses(driver, [first, second]) == ["completed", "pending"]
    admission.admit_waiting(driver.database)
    assert statuses(driver, [second]) == ["running"]


def test_tenants_take_turns_with_the_tick(fresh_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = [RunDriver(fresh_database), RunDriver(fresh_database)]
    lines = []
    for each in tenants:
        each.store({"a": []}, id="one")
        limit(each, 1)
        lines.append([each.trigger("one") for _ in range(6)])
        each.rows("UPDATE tenants SET max_active_runs = NULL WHERE id = :id RETURNING 1", id=each.tenant)
    monkeypatch.setattr(admission, "PER_TICK", 4)
    assert admission.admit_waiting(fresh_database) == 4
    for each, line in zip(tenants, lines, strict=True):
        assert statuses(each, line) == ["running"] * 3 + ["pending"] * 3


# --- the limit changes ------------------------------------------------------------------------------------


def test_a_limit_that_is_raised_or_lifted_lets_more_start_at_once(driver: RunDriver) -> None:
    limit(driver, 1)
    line = [driver.trigger("one") for _ in range(6)]
    limit(driver, 3)
    assert statuses(driver, line) == ["running"] * 3 + ["pending"] * 3
    limit(driver, None)
    assert statuses(driver, line) == ["running"] * 6


def test_a_limit_that_is_lowered_lets_none_start_until_enough_ended(driver: RunDriver) -> None:
    line = [driver.trigger("one") for _ in range(4)]
    limit(driver, 2)
    line.append(driver.trigger("one"))
    for number, expected in enumerate(["pending", "pending", "running"]):
        driver.finish(line[number], "a")
        assert driver.run(line[4]).status == expected


def test_a_process_that_remembers_no_limit_notices_that_there_is_one(driver: RunDriver) -> None:
    driver.trigger("one")
    limit(driver, 1)
    assert driver.run(driver.trigger("one")).status == "pending"
    limit(driver, None)
    assert driver.run(driver.trigger("one")).status == "running"


@pytest.mark.parametrize("most", [0, -1, 1_000_001])
def test_a_limit_that_is_none_is_refused(driver: RunDriver, most: int) -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        limit(driver, most)


# --- what else happens to a run that waits ------------------------------------------------------------------


def test_a_run_that_waits_can_be_cancelled(driver: RunDriver) -> None:
    limit(driver, 1)
    line = [driver.trigger("diamond") for _ in range(3)]
    cancel(driver, line[1])
    assert statuses(driver, line) == ["running", "cancelled", "pending"]
    assert set(driver.statuses(line[1]).values()) == {"cancelled"}
    cancel(driver, line[0])
    assert statuses(driver, line) == ["cancelled", "cancelled", "running"]


def test_its_time_limit_begins_with_its_turn(driver: RunDriver) -> None:
    driver.store({"a": []}, id="timed", timeout="1h")
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("timed")
    assert driver.run(second).deadline_at is None
    driver.finish(first, "a")
    row = driver.run(second)
    assert row.deadline_at - row.started_at == timedelta(hours=1)


def test_maintenance_waits_for_waiting_runs(fresh_database: Database) -> None:
    driver = RunDriver(fresh_database)
    driver.store({"a": []}, id="one")
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("one")
    fresh_database.run(maintenance_mode.request)
    driver.finish(first, "a")
    assert statuses(driver, [second]) == ["running"]
    with fresh_database.reading() as tx:
        assert deployment_mode.mode(tx) == deployment_mode.WAITING
    driver.finish(second, "a")
    with fresh_database.reading() as tx:
        assert deployment_mode.mode(tx) == deployment_mode.MAINTENANCE


def test_maps_limits_and_wide_joins_begin_with_its_turn(driver: RunDriver) -> None:
    many: dict[str, list[str]] = {f"b{number}": [] for number in range(9)}
    driver.store(
        {"m": [], "l": []} | many | {"z": list(many)},
        id="mixed",
        maps={"m": "${input.list}"},
        tasks={"l": "single"},
    )
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("mixed", {"list": [1, 2]})
    driver.sent.clear()
    driver.finish(first, "a")
    found = driver.statuses(second)
    assert (found["m"], found["l"], found["z"]) == ("waiting", "queued", "pending")
    assert {found[each] for each in many} == {"queued"}
    # The limited one, the nine, and the two items of the map.
    assert len(driver.released(second)) == 12


@pytest.mark.parametrize(("mode", "expected"), [("fail-fast", "failed"), ("continue", "running")])
def test_a_task_that_was_removed_meanwhile_counts_when_its_turn_comes(
    driver: RunDriver, mode: str, expected: str
) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "going", "staying", id="second")
    driver.store({"g": [], "s": []}, id="both", tasks={"g": "going", "s": "staying"}, failureMode=mode)
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("both")
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "going")
    assert statuses(driver, [second]) == ["pending"]
    driver.finish(first, "a")
    assert statuses(driver, [second]) == [expected]
    assert driver.statuses(second)["g"] == "cancelled"
    assert driver.statuses(second)["s"] == ("queued" if expected == "running" else "cancelled")


def test_its_answer_is_the_same_for_a_token_that_is_used_again(driver: RunDriver) -> None:
    limit(driver, 1)
    driver.trigger("one")
    with driver.database.transaction() as tx:
        first = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("one", run_token="t"))
        again = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("one", run_token="t"))
    assert (first.status, first.created) == ("pending", True)
    assert again == first._replace(created=False)
