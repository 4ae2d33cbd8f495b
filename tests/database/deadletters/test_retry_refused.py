"""Retries that are refused, and retries beside other transactions."""

from __future__ import annotations

import functools
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import remove_task
from support.failed_runs import (
    CHAIN,
    MAP,
    TWO,
    differences,
    drop_history,
    failed_run,
    letters,
    retry,
    still_open,
)
from support.inline_worker import InlineWorker, failing
from support.run_driver import PERMANENT, RunDriver, finish_step
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound, Unavailable
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import Retried
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.reading import dead_letters as queries
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import cancelling
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.spec.rules import CONTINUE, PARTIAL_MERGE

# --- standalone tasks, and what is refused ----------------------------------------------------------------


def enqueue(worker: InlineWorker, **request: Any) -> UUID:
    with worker.driver.database.transaction() as tx:
        request = {"task_id": "noop", **request}
        return standalone_tasks.enqueue(tx, VALUES, worker.driver.tenant, [QueueRequest(**request)])[
            0
        ].task_run_id


@pytest.mark.parametrize("input", [{"n": 1}, "x" * 50_000], ids=["small", "in storage"])
def test_a_retried_standalone_task_gets_a_new_task_run_with_its_input_and_options(
    worker: InlineWorker, input: Any
) -> None:
    worker.fails = failing("noop")
    first = enqueue(worker, input=input, priority=7, metadata={"by": "test"})
    worker.consume_all()
    (letter,) = letters(worker.driver)
    assert (letter.task_run_id, letter.pipeline_id) == (first, None)
    retried = retry(worker.driver, letter)
    assert retried.task_run_id != first
    row = worker.driver.rows("SELECT * FROM runs WHERE id = :id", id=retried.run_id)[0]
    assert (row.priority, row.metadata, row.status) == (7, {"by": "test"}, "running")
    assert triggered_by.of_row(row) == TriggeredBy("redrive", ids.show(ids.DEAD_LETTER, letter.id))
    worker.fails = {}
    worker.consume_all()
    assert worker.driver.run(retried.run_id).status == "completed"
    assert worker.driver.run(letter.run_id).status == "failed"
    assert VALUES.load(row.input, row.input_path) == input
    (kept,) = letters(worker.driver)
    assert (kept.retry_run_id, kept.retry_task_run_id) == (retried.run_id, retried.task_run_id)


def test_a_standalone_task_is_retried_after_its_history_was_dropped(worker: InlineWorker) -> None:
    worker.fails = failing("noop")
    enqueue(worker, input=[1])
    worker.consume_all()
    (letter,) = letters(worker.driver)
    drop_history(worker.driver, letter.run_id)
    retried = retry(worker.driver, letter)
    assert worker.driver.run(retried.run_id).input == [1]


@pytest.mark.parametrize("needs", [CHAIN, None], ids=["pipeline", "standalone"])
def test_a_second_retry_is_refused_and_changes_nothing(
    worker: InlineWorker, needs: dict[str, list[str]]
) -> None:
    if needs is None:
        worker.fails = failing("noop")
        enqueue(worker)
        worker.consume_all()
    else:
        failed_run(worker, needs, "b")
    (letter,) = letters(worker.driver)
    retry(worker.driver, letter)
    before = snapshot(worker.driver)
    with pytest.raises(Conflict, match="has already been retried"):
        retry(worker.driver, letter)
    with (
        pytest.raises(Conflict, match="has already been retried"),
        worker.driver.database.transaction() as tx,
    ):
        dead_letters.discard(tx, worker.driver.tenant, letter.id)
    assert snapshot(worker.driver) == before


def snapshot(driver: RunDriver) -> list[Any]:
    """All that a tenant has, but for what a clock changes."""
    tables = ("runs", "task_runs", "dead_letters")
    return [
        driver.rows(f"SELECT * FROM {t} WHERE tenant_id = :t ORDER BY id", t=driver.tenant) for t in tables
    ]


@pytest.mark.parametrize("needs", [CHAIN, None], ids=["pipeline", "standalone"])
def test_of_two_retries_at_once_one_wins(worker: InlineWorker, needs: dict[str, list[str]] | None) -> None:
    worker.fails = failing("b", "noop")
    if needs is None:
        enqueue(worker)
    else:
        worker.driver.begin(needs)
    worker.consume_all()
    (letter,) = letters(worker.driver)
    done = call_concurrently(*[lambda: retry(worker.driver, letter)] * 4)
    assert sorted(type(each.error).__name__ for each in done) == ["Conflict"] * 3 + ["NoneType"]
    worker.fails = {}
    worker.consume_all()
    assert set(worker.calls.values()) <= {1, 2}


@pytest.mark.parametrize("needs", [CHAIN, None], ids=["pipeline", "standalone"])
def test_a_second_retry_waits_for_the_first_and_finds_it_done(
    worker: InlineWorker, needs: dict[str, list[str]] | None
) -> None:
    """Also where each statement commits by itself, as the API has it."""
    worker.fails = failing("b", "noop")
    if needs is None:
        enqueue(worker)
    else:
        worker.driver.begin(needs)
    worker.consume_all()
    (letter,) = letters(worker.driver)

    def retry_by_statements() -> Retried:
        verb = functools.partial(dead_letters.retry, tenant=worker.driver.tenant, letter_id=letter.id)
        return worker.driver.database.run(verb, is_one=False)

    with worker.driver.database.transaction() as holder:
        holder.execute("SELECT 1 FROM dead_letters WHERE id = :id FOR UPDATE", {"id": letter.id})
        both = [BackgroundCall(retry_by_statements) for _ in range(2)]
        for each in both:
            each.__enter__()
        wait_for_lock(worker.driver.database, 2)
    for each in both:
        each.wait()
    assert sorted(type(each.error).__name__ for each in both) == ["Conflict", "NoneType"]
    (kept,) = letters(worker.driver)
    assert kept.retry_task_run_id == next(each.result for each in both if not each.error).task_run_id


def test_items_that_were_cancelled_by_themselves_stay_so_when_another_goes_on(worker: InlineWorker) -> None:
    worker.fails = failing(("m", 0))
    run_id = worker.driver.begin(MAP, [1, 2, 3], maps={"m": "${input}"}, failureMode=CONTINUE)
    worker.consume_all(1)
    with worker.driver.database.transaction() as tx:
        cancelling.cancel_tasks(tx, run_id, ["noop"], code="TASK_REMOVED", message="it is gone")
    worker.driver.check(run_id, 1)
    worker.consume_all()
    worker.fails = {}
    retry(worker.driver, still_open(worker.driver, run_id)[0])
    worker.consume_all()
    items = [row.status for row in worker.driver.task_runs(run_id) if row.kind == "item"]
    assert items == ["completed", "cancelled", "cancelled"]
    assert worker.calls["m", 1] == 0


def test_a_discarded_dead_letter_is_not_retried(worker: InlineWorker) -> None:
    failed_run(worker, CHAIN, "b")
    (letter,) = letters(worker.driver)
    with worker.driver.database.transaction() as tx:
        dead_letters.discard(tx, worker.driver.tenant, letter.id, "known")
    with pytest.raises(Conflict, match="was discarded"):
        retry(worker.driver, letter)
    with pytest.raises(Conflict, match="was discarded"), worker.driver.database.transaction() as tx:
        dead_letters.discard(tx, worker.driver.tenant, letter.id)
    (kept,) = letters(worker.driver)
    assert (kept.discard_reason, kept.retried_at) == ("known", None)


def test_a_run_that_a_person_cancelled_does_not_go_on(worker: InlineWorker) -> None:
    worker.fails = failing("a")
    run_id = worker.driver.begin({"a": [], "b": []}, failureMode=CONTINUE)
    worker.consume_all(1)
    with worker.driver.database.transaction() as tx:
        triggering.cancel(tx, worker.driver.tenant, run_id)
    before = snapshot(worker.driver)
    with pytest.raises(Conflict, match="was cancelled"):
        retry(worker.driver, letters(worker.driver)[0])
    assert snapshot(worker.driver) == before


def test_a_step_that_did_not_fail_is_not_retried(worker: InlineWorker) -> None:
    """No verb leaves an open dead letter of one; a row that somebody mended by hand may."""
    run_id = failed_run(worker, CHAIN, "b")
    (letter,) = letters(worker.driver)
    mended = "UPDATE task_runs SET status = 'cancelled' WHERE run_id = :run_id AND id = :id RETURNING 1"
    worker.driver.rows(mended, run_id=run_id, id=letter.task_run_id)
    before = snapshot(worker.driver)
    with pytest.raises(Conflict, match="cannot be retried"):
        retry(worker.driver, letter)
    assert snapshot(worker.driver) == before


def test_a_run_whose_history_was_dropped_does_not_go_on(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b")
    drop_history(worker.driver, run_id)
    with pytest.raises(Conflict, match="was deleted"):
        retry(worker.driver, letters(worker.driver)[0])
    assert letters(worker.driver)[0].retried_at is None


def test_a_task_that_is_gone_cannot_be_retried(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b", tasks={"c": "limited"})
    with worker.driver.database.transaction() as tx:
        remove_task(tx, worker.driver.tenant, "limited")
    before = snapshot(worker.driver)
    with pytest.raises(Conflict, match="'limited' is not registered"):
        retry(worker.driver, letters(worker.driver, run_id)[0])
    assert snapshot(worker.driver) == before


def test_nothing_is_retried_during_maintenance(fresh_database: Database) -> None:
    worker = InlineWorker(RunDriver(fresh_database))
    failed_run(worker, CHAIN, "b")
    with fresh_database.transaction() as tx:
        maintenance_mode.request(tx, "a new disk")
    for verb in (
        lambda tx: dead_letters.retry(tx, worker.driver.tenant, letters(worker.driver)[0].id),
        lambda tx: redrives.create(tx, worker.driver.tenant, LetterFilter()),
    ):
        with pytest.raises(Unavailable, match="a new disk"):
            fresh_database.run(verb)
    assert letters(worker.driver)[0].retried_at is None


def test_dead_letters_of_another_tenant_are_not_found(worker: InlineWorker) -> None:
    failed_run(worker, CHAIN, "b")
    (letter,) = letters(worker.driver)
    for verb in (dead_letters.retry, dead_letters.discard, queries.dead_letter):
        with pytest.raises(NotFound), worker.driver.database.transaction() as tx:
            verb(tx, "somebody-else", letter.id)
    with worker.driver.database.transaction() as tx:
        assert queries.dead_letter_list(tx, "somebody-else", PageRequest(), LetterFilter())["items"] == []


# --- two at once ------------------------------------------------------------------------------------------


def test_a_join_and_a_retry_of_its_predecessor_wait_for_each_other(worker: InlineWorker) -> None:
    """`a` failed, `b` ends at the moment when `a` is retried: the join sees one or the other."""
    needs = {"a": [], "b": [], "join": ["a", "b"]}
    worker.driver.store(needs, failureMode=CONTINUE)

    def end_b(run_id: UUID) -> Any:
        return worker.driver.database.run(lambda tx: finish_step(tx, run_id, "b"))

    for _ in range(15):
        worker.fails = failing("a")
        run_id = worker.driver.trigger()
        with worker.driver.database.transaction() as tx:
            finish_step(tx, run_id, "a", failure=PERMANENT)
        worker.waiting.clear()
        (letter,) = still_open(worker.driver, run_id)
        done = call_concurrently(
            functools.partial(retry, worker.driver, letter), functools.partial(end_b, run_id)
        )
        assert [each.error for each in done] == [None, None]
        worker.fails = {}
        worker.consume_all()
        assert worker.driver.statuses(run_id) == dict.fromkeys(needs, "completed")
        assert worker.driver.run(run_id).status == "completed"
        assert differences(worker.driver, run_id) == []


@pytest.mark.parametrize("mode", [CONTINUE, PARTIAL_MERGE])
def test_a_run_that_is_ending_ends_or_goes_on(worker: InlineWorker, mode: str) -> None:
    """The last step ends the run at the moment when another one's dead letter is retried."""
    worker.driver.store({"a": [], "b": []}, failureMode=mode)
    for _ in range(15):
        run_id = worker.driver.trigger()
        with worker.driver.database.transaction() as tx:
            finish_step(tx, run_id, "a", failure=PERMANENT)
        worker.waiting.clear()
        (letter,) = still_open(worker.driver, run_id)
        done = call_concurrently(
            functools.partial(worker.driver.finish, run_id, "b"),
            functools.partial(retry, worker.driver, letter),
        )
        assert [each.error for each in done] == [None, None]
        assert worker.driver.run(run_id).status == "running"
        worker.consume_all()
        assert worker.driver.run(run_id).status == "completed"
        assert differences(worker.driver, run_id) == []


def test_a_run_does_not_end_while_one_of_its_failures_is_retried(worker: InlineWorker) -> None:
    """Its only end step ends while the retry holds the run's row: what it counted is not true any more."""
    run_id = worker.driver.begin(TWO, failureMode=PARTIAL_MERGE)
    with worker.driver.database.transaction() as tx:
        finish_step(tx, run_id, "a", failure=PERMANENT)
    worker.driver.finish(run_id, "b")
    worker.waiting.clear()
    (letter,) = still_open(worker.driver, run_id)
    with worker.driver.database.transaction() as tx:
        dead_letters.retry(tx, worker.driver.tenant, letter.id)
        beside = BackgroundCall(functools.partial(worker.driver.finish, run_id, "c"))
        beside.__enter__()
        wait_for_lock(worker.driver.database)
    beside.wait()
    assert beside.error is None
    assert worker.driver.run(run_id).status == "running"
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert differences(worker.driver, run_id) == []
