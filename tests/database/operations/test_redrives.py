"""Redrives: retrying many dead letters in the tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.factories import all_pages, remove_task
from support.failed_runs import (
    CHAIN,
    TWO,
    WIDE,
    called,
    drop_history,
    failed_run,
    letters,
    listed,
    still_open,
)
from support.inline_worker import InlineWorker, failing
from support.killed_ticks import kill_at
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound, PartlyFailed
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import DeadLetter
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.operations import loop, redrives
from pipeweave.orchestrator.operations.pace import Pace
from pipeweave.orchestrator.reading import dead_letters as queries
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.spec.rules import CONTINUE


@pytest.fixture(autouse=True)
def one_tick_does_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a tick's time may be over before a redrive is."""
    monkeypatch.setattr(loop, "MAX_SECONDS_PER_TICK", 600)


def redrive(driver: RunDriver, **filters: Any) -> UUID:
    return driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter(**filters)))


def progress(driver: RunDriver, redrive_id: UUID) -> Document:
    with driver.database.reading() as tx:
        return queries.redrive(tx, driver.tenant, redrive_id)


def test_a_redrive_retries_matching_dead_letters_and_shows_its_progress(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BATCH", 2)
    run_id = failed_run(worker, {**{each: [] for each in WIDE}, "join": WIDE}, *WIDE, failureMode=CONTINUE,
                        tasks={"b0": "limited", "b1": "limited"})  # fmt: skip
    worker.fails = {}
    driver = worker.driver
    redrive_id = redrive(driver, task_id="noop")
    assert progress(driver, redrive_id)["total"] == 7
    assert redrives.run_once(driver.database, driver.values) >= 7
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 7, 0)
    assert shown["filter"] == {"taskId": "noop"}
    worker.consume_all()
    assert driver.run(run_id).status == "failed", "two were not meant"
    assert redrives.run_once(driver.database, driver.values) == 0
    redrive(driver)
    redrives.run_once(driver.database, driver.values)
    worker.consume_all()
    assert driver.run(run_id).status == "completed"
    assert called(worker)["join"] == 1


def test_a_redrive_skips_dead_letters_that_cannot_be_retried(worker: InlineWorker) -> None:
    driver = worker.driver
    needs: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    gone = failed_run(worker, needs, "a", "b", failureMode=CONTINUE)
    drop_history(driver, gone)
    fine = failed_run(worker, needs, "b", failureMode=CONTINUE)
    # Two of one run, of which one has a task that is gone.
    half = failed_run(worker, needs, "a", "b", failureMode=CONTINUE, tasks={"a": "limited"}, id="half")
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "limited")
    redrive_id = redrive(driver)
    redrives.run_once(driver.database, driver.values)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["total"], shown["retried"], shown["skipped"]) == ("completed", 5, 2, 3)
    assert still_open(driver, fine) == []
    assert [each.step_id for each in still_open(driver, half)] == ["a"]
    assert len(still_open(driver, gone)) == 2


def test_a_redrive_does_not_retry_a_step_that_fails_again(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    for _ in range(3):
        redrives.run_once(worker.driver.database, worker.driver.values)
        worker.consume_all()
    assert progress(worker.driver, redrive_id)["retried"] == 1
    assert len(letters(worker.driver, run_id)) == 2


def test_a_redrive_leaves_out_later_dead_letters(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BATCH", 1)
    monkeypatch.setattr(loop, "MAX_SECONDS_PER_TICK", 0)
    run_id = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    for _ in range(3):
        redrives.run_once(worker.driver.database, worker.driver.values)
        worker.consume_all()
    shown = progress(worker.driver, redrive_id)
    assert (shown["status"], shown["total"], shown["retried"]) == ("completed", 1, 1)
    assert len(still_open(worker.driver, run_id)) == 1


def test_a_redrive_continues_after_dead_letters_that_cannot_be_retried(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BATCH", 1)
    drop_history(worker.driver, failed_run(worker, CHAIN, "b"))
    fine = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    redrives.run_once(worker.driver.database, worker.driver.values)
    shown = progress(worker.driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 1, 1)
    assert still_open(worker.driver, fine) == []


def test_a_redrive_that_is_cancelled_at_work_retries_nothing_more(worker: InlineWorker) -> None:
    driver = worker.driver
    run_id = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(driver)
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM runs WHERE id = :id FOR UPDATE", {"id": run_id})
        beside = BackgroundCall(lambda: redrives.run_once(driver.database, driver.values))
        beside.__enter__()
        wait_for_lock(driver.database)
        driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, redrive_id))
    beside.wait()
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("cancelled", 0, 0)
    assert len(still_open(driver, run_id)) == 1
    assert driver.run(run_id).status == "failed"


def test_a_redrive_of_another_tenant_is_not_there(worker: InlineWorker) -> None:
    failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    other = RunDriver(worker.driver.database)
    with pytest.raises(NotFound), other.database.transaction() as tx:
        redrives.cancel(tx, other.tenant, redrive_id)
    assert progress(worker.driver, redrive_id)["status"] == "running"


def test_a_cancelled_redrive_stops(worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, CHAIN, "b")
    redrive_id = redrive(driver)
    driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, redrive_id))
    redrives.run_once(driver.database, driver.values)
    assert progress(driver, redrive_id)["status"] == "cancelled"
    assert len(listed(driver)["items"]) == 1
    with pytest.raises(Conflict, match="is already cancelled"):
        driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, redrive_id))
    with pytest.raises(NotFound):
        driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, ids.new_id()))


def test_a_redrive_of_nothing_is_over_at_once(worker: InlineWorker) -> None:
    shown = progress(worker.driver, redrive(worker.driver, since=worker.driver.database.now()))
    assert (shown["status"], shown["total"]) == ("completed", 0)
    assert shown["finishedAt"] == shown["createdAt"]


def test_redrives_are_listed_newest_first(worker: InlineWorker) -> None:
    made = [redrive(worker.driver) for _ in range(3)]

    def page(wanted: PageRequest) -> Document:
        with worker.driver.database.reading() as tx:
            return queries.redrive_list(tx, worker.driver.tenant, wanted)

    found = [each["id"] for each in all_pages(page, 2)]
    assert found == [ids.show(ids.REDRIVE, each) for each in sorted(made, reverse=True)]


def test_a_task_run_that_a_redrive_begins_names_the_redrive_and_who_asked_for_it(
    worker: InlineWorker,
) -> None:
    driver = worker.driver
    worker.fails = failing("noop")
    with driver.database.transaction() as tx:
        standalone_tasks.enqueue(tx, driver.values, driver.tenant, [QueueRequest("noop")])
    worker.consume_all()
    redrive_id = driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter(), by="ops"))
    redrives.run_once(driver.database, driver.values)
    (letter,) = letters(driver)
    cause = TriggeredBy("redrive", ids.show(ids.REDRIVE, redrive_id), "ops")
    assert triggered_by.of_row(driver.run(letter.retry_run_id)) == cause


# --- faults and races -------------------------------------------------------------------------------------


def test_a_fault_in_one_dead_letter_does_not_keep_the_others_from_their_turn(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = worker.driver
    broken, fine = (failed_run(worker, TWO, "a", "b", failureMode=CONTINUE) for _ in range(2))
    one = still_open(driver, broken)[0]
    retry_of_run = dead_letters.retry_of_run

    def break_for_one(tx: Transaction, wanted: Sequence[DeadLetter], *options: Any) -> Any:
        if one.id in {each.id for each in wanted}:
            raise KeyError("oops")
        return retry_of_run(tx, wanted, *options)

    monkeypatch.setattr(dead_letters, "retry_of_run", break_for_one)
    redrive_id = redrive(driver)
    redrives.run_once(driver.database, driver.values)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 3, 1)
    assert [each.id for each in still_open(driver, broken)] == [one.id]
    assert still_open(driver, fine) == []
    [record] = [each for each in caplog.records if each.message == "redrive.letter_failed"]
    assert vars(record)["letter_id"] == str(one.id)


def test_two_ticks_at_once_retry_and_count_each_dead_letter_once(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BATCH", 3)
    driver = worker.driver
    drop_history(driver, failed_run(worker, CHAIN, "b"))
    for _ in range(3):
        failed_run(worker, CHAIN, "b")
    redrive_id = redrive(driver)
    # Both have the same dead letters before them: the first holds a run, uncommitted, when the second comes
    # to it.
    with driver.database.transaction() as tx:
        tx.execute("SELECT id FROM redrives WHERE id = :id FOR UPDATE", {"id": redrive_id})
        ticks = [BackgroundCall(lambda: redrives.run_once(driver.database, driver.values)) for _ in range(2)]
        for each in ticks:
            each.__enter__()
        wait_for_lock(driver.database, 2)
    for each in ticks:
        each.wait()
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["total"], shown["retried"], shown["skipped"]) == ("completed", 4, 3, 1)


def test_a_process_that_is_killed_loses_no_dead_letter_and_counts_none_twice(worker: InlineWorker) -> None:
    driver = worker.driver
    drop_history(driver, failed_run(worker, CHAIN, "b"))
    runs = sorted(failed_run(worker, CHAIN, "b") for _ in range(3))
    redrive_id = redrive(driver)
    # The process skips one and retries that of a run, and waits at this one with nothing recorded.
    kill_at(driver.database, "redrives", runs[1])
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("running", 1, 0)
    redrives.run_once(driver.database, driver.values)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 3, 1)
    assert [len(letters(driver, each)) for each in runs] == [1, 1, 1]


def test_a_redrive_keeps_its_rate_when_a_run_is_held(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.orchestrator.store.lock_timeout.LOCK_TIMEOUT_MS", 20)
    driver = worker.driver
    _, held = sorted(failed_run(worker, CHAIN, "b") for _ in range(2))
    redrive_id = paced(driver, Pace(per_second=2))
    with driver.database.transaction() as tx:
        tx.execute("SELECT id FROM runs WHERE id = :id FOR UPDATE", {"id": held})
        with pytest.raises(PartlyFailed):
            redrives.run_once(driver.database.impatient(), driver.values)
    [row] = driver.rows("SELECT retried, next_at, last_id FROM redrives WHERE id = :id", id=redrive_id)
    assert (row.retried, row.next_at is not None, row.last_id) == (1, True, None)


# --- the pace ---------------------------------------------------------------------------------------------


def paced(driver: RunDriver, pace: Pace) -> UUID:
    return driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter(), pace))


def test_a_canary_that_fails_again_stops_the_redrive_and_leaves_the_rest_open(worker: InlineWorker) -> None:
    driver = worker.driver
    run_id = failed_run(worker, {each: [] for each in WIDE}, *WIDE, failureMode=CONTINUE)
    redrive_id = paced(driver, Pace(canary=2))
    redrives.run_once(driver.database, driver.values)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["outcomes"]["unended"]) == ("running", 2, 2)
    redrives.run_once(driver.database, driver.values)
    assert progress(driver, redrive_id)["retried"] == 2, "it waits for the canary"
    worker.consume_all()
    redrives.run_once(driver.database, driver.values)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"]) == ("stopped", 2)
    assert shown["outcomes"] == {
        "completed": 0,
        "failedAgain": 2,
        "sameAgain": 2,
        "endedOtherwise": 0,
        "unended": 0,
    }
    assert shown["stoppedBecause"].startswith("2 of 2 retries")
    assert len(still_open(driver, run_id)) == len(WIDE), "those that failed again have new dead letters"
    redrives.run_once(driver.database, driver.values)
    assert progress(driver, redrive_id)["retried"] == 2


def test_a_canary_that_completes_lets_the_others_follow(worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, {each: [] for each in WIDE}, *WIDE, failureMode=CONTINUE)
    worker.fails = {}
    redrive_id = paced(driver, Pace(canary=2, most=5))
    redrives.run_once(driver.database, driver.values)
    worker.consume_all()
    redrives.run_once(driver.database, driver.values)
    worker.consume_all()
    redrives.run_once(driver.database, driver.values)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["outcomes"]["completed"]) == ("completed", 5, 5)
    assert shown["canaryEndedAt"] is not None
    assert (shown["canary"], shown["limit"]) == (2, 5)


def test_a_rate_spreads_the_retries_over_time(worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, {each: [] for each in WIDE}, *WIDE, failureMode=CONTINUE)
    redrive_id = paced(driver, Pace(per_second=0.01))
    for _ in range(2):
        redrives.run_once(driver.database, driver.values)
        assert progress(driver, redrive_id)["retried"] == 1
    # Far enough back: a process knows the database's clock to some milliseconds only.
    past = "UPDATE redrives SET next_at = now() - interval '1 minute' WHERE id = :id"
    driver.database.run(lambda tx: tx.execute(past, {"id": redrive_id}))
    redrives.run_once(driver.database, driver.values)
    assert progress(driver, redrive_id)["retried"] == 2
    driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, redrive_id))


def test_groups_say_whether_the_code_changed_since(worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, {"a": []}, "a")
    with driver.database.reading() as tx:
        [group] = queries.dead_letter_groups(tx, driver.tenant, 10, LetterFilter())
    assert (group["codeChanged"], group["codeVersion"], group["currentCodeVersion"]) == (False, 1, 1)
    driver.database.run(
        lambda tx: tx.execute(
            "UPDATE tasks SET code_hash = :hash, code_version = 2 WHERE tenant_id = :tenant",
            {"hash": "ab" * 32, "tenant": driver.tenant},
        )
    )
    with driver.database.reading() as tx:
        [group] = queries.dead_letter_groups(tx, driver.tenant, 10, LetterFilter())
    assert (group["codeChanged"], group["codeVersion"], group["currentCodeVersion"]) == (True, 1, 2)
