"""Runs of one key: exactly so many at once, in order, none lost; skipped or replaced where that is said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.run_driver import PERMANENT, RunDriver, store_spec
from support.stored_values import VALUES

from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.runs import admission, pausing, replacing, rerunning, triggering
from pipeweave.orchestrator.runs.rerunning import Rerun
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec.document import parse_spec

KEY = "${input.customer}"


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    yield made
    for row in made.rows("SELECT id FROM runs WHERE tenant_id = :id", id=made.tenant):
        with verify.snapshot(database) as tx:
            assert verify.run(tx, row.id) == []


def store(driver: RunDriver, on_limit: str = "queue", limit: int = 1, **document: Any) -> None:
    concurrency = {"key": KEY, "limit": limit, "onLimit": on_limit}
    driver.store({"a": []}, id="one", concurrency=concurrency, **document)


def ask(driver: RunDriver, *customers: str, **options: Any) -> list[CreatedRun]:
    requests = [StartRequest("one", {"customer": each}, **options) for each in customers]
    with driver.database.transaction() as tx:
        return triggering.trigger_many(tx, VALUES, driver.tenant, "one", requests)


def begin(driver: RunDriver, customer: str = "acme", **options: Any) -> CreatedRun:
    return ask(driver, customer, **options)[0]


def cancel(driver: RunDriver, run_id: UUID) -> None:
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))


def statuses(driver: RunDriver, *runs: CreatedRun) -> list[str]:
    return [driver.run(each.id).status for each in runs]


# --- queue ------------------------------------------------------------------------------------------------


def test_a_run_waits_while_another_one_of_its_key_is_under_way(driver: RunDriver) -> None:
    store(driver)
    first, second, other = begin(driver), begin(driver), begin(driver, "other")
    assert [each.status for each in (first, second, other)] == ["running", "pending", "running"]
    driver.finish(first.id, "a")
    assert statuses(driver, first, second, other) == ["completed", "running", "running"]


def test_runs_of_a_key_start_in_order_and_never_more_than_its_limit(driver: RunDriver) -> None:
    store(driver, limit=2)
    runs = [begin(driver) for _ in range(5)]
    for ended in range(4):
        assert statuses(driver, *runs)[ended : ended + 2] == ["running"] * 2
        assert set(statuses(driver, *runs)[ended + 2 :]) <= {"pending"}
        driver.finish(runs[ended].id, "a")


def test_a_batch_starts_one_run_of_each_key(driver: RunDriver) -> None:
    store(driver)
    runs = ask(driver, "x", "x", "y", "x", "y")
    assert [each.status for each in runs] == ["running", "pending", "running", "pending", "pending"]


def test_without_a_key_all_runs_of_a_pipeline_share_the_limit(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one", concurrency=1)
    driver.store({"a": []}, id="two", concurrency=1)
    assert [each.status for each in ask(driver, "x", "y")] == ["running", "pending"]
    assert driver.run(driver.trigger("two")).status == "running"


def test_of_two_triggers_at_once_one_starts(driver: RunDriver) -> None:
    store(driver)
    calls = call_concurrently(*[lambda: begin(driver).status] * 6)
    assert sorted(each.result for each in calls) == ["pending"] * 5 + ["running"]


def test_a_trigger_during_the_end_of_a_run_is_not_left_waiting(driver: RunDriver) -> None:
    store(driver)
    first = begin(driver)
    with ExitStack() as until_the_commit, driver.database.transaction() as tx:
        second = triggering.trigger(tx, VALUES, driver.tenant, StartRequest("one", {"customer": "acme"}))
        until_the_commit.enter_context(BackgroundCall(lambda: driver.finish(first.id, "a")))
        wait_for_lock(driver.database)
    assert statuses(driver, first, second) == ["completed", "running"]


@pytest.mark.parametrize("how", ["cancelled", "failed", "never started"])
def test_however_a_run_ends_the_next_one_of_its_key_starts(driver: RunDriver, how: str) -> None:
    store(driver)
    first, second, third = (begin(driver) for _ in range(3))
    if how == "failed":
        driver.finish(first.id, "a", failure=PERMANENT)
    else:
        cancel(driver, (second if how == "never started" else first).id)
    if how == "never started":
        driver.finish(first.id, "a")
        second = third
    assert driver.run(second.id).status == "running"


def test_a_paused_run_keeps_its_key_and_a_paused_waiting_one_lets_others_pass(driver: RunDriver) -> None:
    store(driver)
    first, second, third = (begin(driver) for _ in range(3))
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, second.id))
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, first.id))
    admission.admit_waiting(driver.database)
    assert statuses(driver, first, second, third) == ["paused", "pending", "pending"]
    cancel(driver, first.id)
    assert statuses(driver, second, third) == ["pending", "running"]


def test_the_tick_starts_what_a_process_left_that_died_behind_the_end_of_a_run(driver: RunDriver) -> None:
    store(driver)
    first, second, third = (begin(driver) for _ in range(3))
    driver.database.react = lambda fact: ()
    driver.finish(first.id, "a")
    assert statuses(driver, second, third) == ["pending", "pending"]
    assert admission.admit_waiting(driver.database) >= 1
    assert statuses(driver, second, third) == ["running", "pending"]


def test_a_full_key_holds_up_no_other_run_of_a_tenant_with_run_slots(driver: RunDriver) -> None:
    store(driver)
    driver.store({"a": []}, id="free")
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 3))
    first = begin(driver)
    waiting = [begin(driver) for _ in range(4)]
    assert [driver.run(driver.trigger("free")).status for _ in range(3)] == ["running", "running", "pending"]
    cancel(driver, first.id)
    assert statuses(driver, *waiting) == ["running"] + ["pending"] * 3, "both the slot and the key are free"


def test_a_run_inside_of_another_one_has_no_key(driver: RunDriver) -> None:
    store(driver)
    begin(driver)
    calling = {"id": "call", "pipeline": "one", "params": {"customer": "acme"}}
    with driver.database.transaction() as tx:
        store_spec(tx, driver.tenant, parse_spec({"id": "outer", "steps": [calling]}))
    outer = driver.trigger("outer")
    [inner] = driver.rows("SELECT status, concurrency_key FROM runs WHERE parent_run_id = :id", id=outer)
    assert (inner.status, inner.concurrency_key) == ("running", None)


def test_a_run_keeps_the_limit_of_its_version(driver: RunDriver) -> None:
    store(driver)
    begin(driver)
    old = begin(driver)
    store(driver, limit=3)
    new = [begin(driver), begin(driver)]
    assert statuses(driver, old, *new) == ["pending", "running", "pending"]


@pytest.mark.parametrize(
    "given", [{}, None, {"customer": None}, {"customer": ["x"]}, {"customer": "x" * 201}]
)
def test_an_input_that_gives_no_key_is_refused(driver: RunDriver, given: Any) -> None:
    store(driver)
    with pytest.raises(InvalidInput, match=r"gives no key for concurrency\.key") as raised:
        driver.trigger("one", given)
    assert raised.value.errors[0].field == "input"
    assert not driver.rows("SELECT 1 FROM runs WHERE tenant_id = :id", id=driver.tenant)


# --- rates ------------------------------------------------------------------------------------------------


def let_pass(driver: RunDriver, seconds: float) -> None:
    """Let time pass: to wait for it would make the test slow."""
    statement = """UPDATE runs SET started_at = started_at - :seconds * interval '1 second',
        created_at = created_at - :seconds * interval '1 second' WHERE tenant_id = :id RETURNING 1"""
    driver.rows(statement, id=driver.tenant, seconds=seconds)


def test_runs_of_a_key_start_as_often_as_its_rate_says(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one", rateLimit={"key": KEY, "rate": "2/m"})
    runs, other = [begin(driver) for _ in range(4)], begin(driver, "other")
    driver.finish(runs[0].id, "a")
    admission.admit_waiting(driver.database)
    assert statuses(driver, *runs, other) == ["completed", "running", "pending", "pending", "running"]
    let_pass(driver, 59)
    admission.admit_waiting(driver.database)
    assert statuses(driver, *runs[2:]) == ["pending", "pending"]
    let_pass(driver, 2)
    admission.admit_waiting(driver.database)
    assert statuses(driver, *runs[2:]) == ["running", "running"]


def test_in_no_time_of_that_length_more_runs_start_than_the_rate_says(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one", rateLimit={"key": KEY, "rate": "3/m"})
    dice = random.Random(57)
    for _ in range(12):
        ask(driver, *["acme"] * dice.randint(1, 3))
        let_pass(driver, dice.choice([5, 20, 31, 61]))
        admission.admit_waiting(driver.database)
    statement = "SELECT started_at FROM runs WHERE tenant_id = :id AND started_at IS NOT NULL ORDER BY 1"
    starts = [row.started_at for row in driver.rows(statement, id=driver.tenant)]
    assert len(starts) > 9
    assert all(
        later - first >= timedelta(minutes=1) for first, later in zip(starts, starts[3:], strict=False)
    )


def test_of_two_triggers_at_once_the_rate_lets_one_start(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one", rateLimit="1/h")
    calls = call_concurrently(*[lambda: begin(driver).status] * 4)
    assert sorted(each.result for each in calls) == ["pending"] * 3 + ["running"]


def test_a_run_waits_for_the_rate_and_for_the_runs_of_its_key(driver: RunDriver) -> None:
    store(driver, rateLimit={"key": KEY, "rate": "2/m"})
    runs = [begin(driver) for _ in range(3)]
    driver.finish(runs[0].id, "a")
    driver.finish(runs[1].id, "a")
    assert statuses(driver, *runs) == ["completed", "completed", "pending"], (
        "both have started in this minute"
    )
    let_pass(driver, 61)
    admission.admit_waiting(driver.database)
    assert statuses(driver, runs[2]) == ["running"]


# --- skip -------------------------------------------------------------------------------------------------


def test_a_singleton_answers_with_the_run_that_is_open(driver: RunDriver) -> None:
    store(driver, "skip")
    first, again = begin(driver), begin(driver)
    assert (again.id, again.created, again.skipped) == (first.id, False, True)
    driver.finish(first.id, "a")
    next_one = begin(driver)
    assert (next_one.id != first.id, next_one.created, next_one.skipped) == (True, True, False)


def test_of_a_batch_a_singleton_takes_the_first_of_each_key(driver: RunDriver) -> None:
    store(driver, "skip")
    runs = ask(driver, "x", "y", "x")
    assert [each.id for each in runs] == [runs[0].id, runs[1].id, runs[0].id]
    assert [each.skipped for each in runs] == [False, False, True]


def test_of_singletons_that_are_triggered_at_once_there_is_one(driver: RunDriver) -> None:
    store(driver, "skip")
    calls = call_concurrently(*[lambda: begin(driver)] * 6)
    assert len({each.result.id for each in calls}) == 1
    assert sum(each.result.created for each in calls) == 1


def test_the_token_of_a_skipped_run_names_the_run_that_was_open(driver: RunDriver) -> None:
    store(driver, "skip")
    first = begin(driver)
    assert begin(driver, run_token="t").id == first.id
    driver.finish(first.id, "a")
    again = begin(driver, run_token="t")
    assert (again.id, again.created, again.status) == (first.id, False, "completed")


def test_a_rerun_is_never_another_run(driver: RunDriver) -> None:
    store(driver, "skip")
    first = begin(driver)
    driver.finish(first.id, "a", failure=PERMANENT)
    second = begin(driver)

    def rerun(tx: Transaction) -> Any:
        return rerunning.rerun(tx, VALUES, driver.tenant, Rerun(first.id))

    made = driver.database.run(rerun)
    assert (made.id != second.id, made.status) == (True, "pending")
    driver.finish(second.id, "a")
    assert driver.run(made.id).status == "running"


def test_enqueued_rows_of_a_singleton_are_settled_by_the_run_that_is_open(driver: RunDriver) -> None:
    store(driver, "skip")
    first = begin(driver)
    row = """INSERT INTO enqueued_runs (id, tenant_id, pipeline_id, input, enqueued_by, enqueued_at, due_at)
        VALUES (:id, :tenant, 'one', '{"customer": "acme"}', 'app', now(), now()) RETURNING id"""
    with driver.database.transaction() as tx:
        tx.execute(row, {"id": tx.new_id(), "tenant": driver.tenant})
    enqueued.run_once(driver.database, VALUES)
    [settled] = driver.rows("SELECT first_run_id FROM enqueued_runs WHERE tenant_id = :id", id=driver.tenant)
    assert settled.first_run_id == first.id


def test_the_retry_of_a_dead_letter_goes_on_at_once_and_the_next_run_waits_for_it(driver: RunDriver) -> None:
    store(driver)
    first, second, third = (begin(driver) for _ in range(3))
    driver.finish(first.id, "a", failure=PERMANENT)
    [letter] = driver.rows("SELECT id FROM dead_letters WHERE tenant_id = :id", id=driver.tenant)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)
    assert statuses(driver, first, second, third) == ["running", "running", "pending"]
    driver.finish(second.id, "a")
    assert statuses(driver, first, third) == ["running", "pending"]


# --- cancel-old -------------------------------------------------------------------------------------------


def test_a_newer_run_replaces_the_older_one_of_its_key(driver: RunDriver) -> None:
    store(driver, "cancel-old")
    first, other, second = begin(driver), begin(driver, "other"), begin(driver)
    assert statuses(driver, first, other, second) == ["cancelled", "running", "running"]
    error = driver.run(first.id).error
    assert (error["code"], error["message"]) == ("RUN_REPLACED", "a newer run of key 'acme' replaced it")


def test_as_many_of_the_newest_runs_stay_as_the_limit_says(driver: RunDriver) -> None:
    store(driver, "cancel-old", limit=2)
    runs = [begin(driver) for _ in range(4)]
    assert statuses(driver, *runs) == ["cancelled", "cancelled", "running", "running"]


def test_of_a_batch_the_last_run_of_a_key_stays(driver: RunDriver) -> None:
    store(driver, "cancel-old")
    runs = ask(driver, "x", "x", "y", "x")
    assert statuses(driver, *runs) == ["cancelled", "cancelled", "running", "running"]
    assert [row.started_at for row in map(driver.run, [each.id for each in runs[:2]])] == [None, None]


def test_a_newer_run_waits_for_what_the_older_one_does_at_its_end(driver: RunDriver) -> None:
    driver.store({"a": []}, id="tidy")
    store(driver, "cancel-old", **{"finally": {"pipeline": "tidy"}})
    first, second = begin(driver), begin(driver)
    assert statuses(driver, first, second) == ["error_handling", "pending"]
    [end] = driver.rows("SELECT id FROM runs WHERE parent_run_id = :id", id=first.id)
    driver.finish(end.id, "a")
    assert statuses(driver, first, second) == ["cancelled", "running"]


def test_the_tick_replaces_what_a_process_left_that_died(driver: RunDriver) -> None:
    store(driver, "cancel-old")
    first = begin(driver)
    driver.database.react = lambda fact: ()
    second = begin(driver)
    assert statuses(driver, first, second) == ["running", "pending"]
    driver.database.react = reactions_to
    assert replacing.cancel_all_old(driver.database) >= 1
    assert statuses(driver, first, second) == ["cancelled", "running"]


def test_keys_that_only_wait_take_no_turn_of_those_with_a_run_too_many(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "KEYS_PER_TICK", 1)
    store(driver, "cancel-old")
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    begin(driver)
    waits_alone = begin(driver, customer="aaa")
    driver.database.react = lambda fact: ()
    old = begin(driver, customer="bbb")
    new = begin(driver, customer="bbb")
    replacing.cancel_all_old(driver.database)
    assert statuses(driver, waits_alone, old, new) == ["pending", "cancelled", "pending"]
