"""What a dead letter keeps; listing, discarding and purging dead letters."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.factories import a_task, all_pages, register
from support.failed_runs import (
    CHAIN,
    DIAMOND,
    MAP,
    drop_history,
    failed_run,
    letters,
    listed,
    retry,
)
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, header

from pipeweave import ids
from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.reading import dead_letters as queries
from pipeweave.spec.rules import CONTINUE, FAIL_FAST, FAILURE_MODES

# --- what is kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_a_step_that_fails_for_good_leaves_one_dead_letter(worker: InlineWorker, mode: str) -> None:
    run_id = failed_run(worker, DIAMOND, "b", failureMode=mode, input={"n": 1})
    (letter,) = letters(worker.driver, run_id)
    row = worker.driver.task_runs(run_id)[1]
    assert (letter.task_run_id, letter.step_id, letter.task_id) == (row.id, "b", "noop")
    assert (letter.status, letter.error_code, letter.attempts) == ("failed", "BOOM", 1)
    assert (letter.kind, letter.input, letter.pipeline_id) == ("task", {"n": 1}, "driven")
    assert letter.error["traceback"] == "Traceback …"


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_each_failed_item_leaves_a_dead_letter_and_its_map_none(worker: InlineWorker, mode: str) -> None:
    run_id = failed_run(
        worker, MAP, ("m", 0), ("m", 2), maps={"m": "${input}"}, input=["x", "y", "z"], failureMode=mode
    )
    found = [(each.kind, each.map_index, each.item) for each in letters(worker.driver, run_id)]
    both = [("item", 0, "x"), ("item", 2, "z")]
    assert found == (both[:1] if mode == FAIL_FAST else both)


def test_the_history_of_a_dead_letter_has_every_attempt(worker: InlineWorker) -> None:
    worker.fails = {"a": TRANSIENT}
    run_id = worker.driver.begin({"a": []}, tasks={"a": "limited"})
    for _ in range(4):
        worker.consume_all()
        with worker.driver.database.transaction() as tx:
            advance = Advance(tx, header(tx, run_id))
            advance.release_due([worker.driver.task_runs(run_id)[0].id])
            advance.close()
    (letter,) = letters(worker.driver, run_id)
    assert [each["attempt"] for each in letter.history] == [1, 2, 3, 4]
    assert {each["errorCode"] for each in letter.history} == {"WEAK"}
    assert letter.attempts == 4


# --- looking ----------------------------------------------------------------------------------------------


def test_they_are_listed_newest_first_page_by_page_and_filtered(worker: InlineWorker) -> None:
    first = failed_run(worker, CHAIN, "b")
    failed_run(worker, MAP, ("m", 0), ("m", 2), maps={"m": "${input}"}, input=[1, 2, 3], id="maps",
               failureMode=CONTINUE, tasks={"m": "limited"})  # fmt: skip
    driver = worker.driver
    expected = [ids.show(ids.DEAD_LETTER, each.id) for each in reversed(letters(driver))]
    found = all_pages(lambda page: listed(driver, page), 1)
    assert [each["id"] for each in found] == expected
    assert [each["dlqId"] for each in found] == expected
    assert (listed(driver)["total"], listed(driver)["totalIsCapped"]) == (3, False)
    (of_pipeline,) = listed(driver, pipeline_id="driven")["items"]
    assert of_pipeline["pipelineRunId"] == ids.show(ids.RUN, first)
    assert "traceback" not in of_pipeline["error"]
    assert [each["mapIndex"] for each in listed(driver, task_id="limited")["items"]] == [2, 0]
    assert len(listed(driver, error_code="BOOM")["items"]) == 3
    assert listed(driver, error_code="OTHER")["total"] == 0
    alike = listed(driver, fingerprint=of_pipeline["fingerprint"])
    assert [each["id"] for each in alike["items"]] == [of_pipeline["id"]]
    now = driver.database.now()
    assert listed(driver, since=now - timedelta(minutes=5))["total"] == 3
    assert listed(driver, since=now + timedelta(minutes=5))["total"] == 0
    assert listed(driver, until=now + timedelta(minutes=5))["total"] == 3
    assert listed(driver, until=now - timedelta(minutes=5))["total"] == 0
    with pytest.raises(InvalidInput):
        listed(driver, status="lost")


def test_retried_and_discarded_dead_letters_are_listed_on_request(worker: InlineWorker) -> None:
    failed_run(worker, {"a": [], "b": [], "c": []}, "a", "b", "c", failureMode=CONTINUE)
    first, second, third = letters(worker.driver)
    with worker.driver.database.transaction() as tx:
        dead_letters.discard(tx, worker.driver.tenant, second.id, "known")
    retry(worker.driver, first)
    shown = {
        status: [each["stepId"] for each in listed(worker.driver, status=status)["items"]]
        for status in ("open", "retried", "discarded", "all")
    }
    assert shown == {
        "open": [third.step_id],
        "retried": [first.step_id],
        "discarded": [second.step_id],
        "all": [third.step_id, second.step_id, first.step_id],
    }


def test_a_single_dead_letter_is_shown_in_full(worker: InlineWorker) -> None:
    run_id = failed_run(worker, MAP, ("m", 1), maps={"m": "${input}"}, input=["x", "y"])
    (letter,) = letters(worker.driver)
    with worker.driver.database.transaction() as tx:
        tasks = [a_task(each, code="second") for each in ("noop", "limited", "single")]
        register(tx, worker.driver.tenant, *tasks)
    with worker.driver.database.reading() as tx:
        shown = queries.dead_letter(tx, worker.driver.tenant, letter.id)
    assert (shown["input"], shown["item"], shown["mapIndex"]) == (["x", "y"], "y", 1)
    (attempt,) = shown["previousAttempts"]
    assert attempt["error"]["traceback"] == "Traceback …"
    assert (attempt["attempt"], attempt["status"], attempt["worker"]) == (1, "failed", "w1")
    assert attempt["startedAt"] <= attempt["finishedAt"] == shown["failedAt"]
    assert (shown["codeVersion"], shown["currentCodeVersion"], shown["codeChanged"]) == (1, 2, True)
    assert (shown["runStatus"], shown["taskRunStatus"]) == ("failed", "failed")
    drop_history(worker.driver, run_id)
    with worker.driver.database.reading() as tx:
        shown = queries.dead_letter(tx, worker.driver.tenant, letter.id)
    assert (shown["runStatus"], shown["taskRunStatus"], shown["item"]) == (None, None, "y")


def test_similar_dead_letters_are_counted_in_groups(worker: InlineWorker) -> None:
    wide: dict[str, list[str]] = {"a": [], "b": [], "c": [], "d": []}
    worker.fails = {
        "a": replace(PERMANENT, message="row 17 is broken"),
        "b": replace(PERMANENT, message="row 4 is broken"),
        "c": replace(PERMANENT, message="row 5 is lost"),
        "d": replace(PERMANENT, code="OTHER"),
    }
    worker.driver.begin(wide, failureMode=CONTINUE)
    worker.consume_all()
    with worker.driver.database.reading() as tx:
        found = queries.dead_letter_groups(tx, worker.driver.tenant, 10, LetterFilter())
        first = queries.dead_letter_groups(tx, worker.driver.tenant, 1, LetterFilter())
        others = queries.dead_letter_groups(tx, worker.driver.tenant, 9, LetterFilter(error_code="OTHER"))
    assert [each["count"] for each in found] == [2, 1, 1]
    assert found[0]["message"] == "row 4 is broken"
    assert first == found[:1]
    assert [each["errorCode"] for each in others] == ["OTHER"]


# --- putting aside ----------------------------------------------------------------------------------------


def test_many_are_discarded_by_a_filter(worker: InlineWorker) -> None:
    failed_run(worker, {"a": [], "b": []}, "a", "b", failureMode=CONTINUE, tasks={"b": "limited"})
    with worker.driver.database.transaction() as tx:
        which = LetterFilter(task_id="limited")
        assert dead_letters.discard_matching(tx, worker.driver.tenant, which, "known") == 1
        assert dead_letters.discard_matching(tx, worker.driver.tenant, which, "known") == 0
    assert [each["stepId"] for each in listed(worker.driver)["items"]] == ["a"]


def test_old_ones_are_purged_open_or_not(worker: InlineWorker) -> None:
    run_id = failed_run(worker, {"a": [], "b": []}, "a", "b", failureMode=CONTINUE)
    retry(worker.driver, letters(worker.driver, run_id)[0])
    other = InlineWorker(RunDriver(worker.driver.database))
    failed_run(other, CHAIN, "b")
    with worker.driver.database.transaction() as tx:
        assert dead_letters.purge(tx, worker.driver.tenant, tx.now - timedelta(hours=1)) == 0
        assert dead_letters.purge(tx, worker.driver.tenant, tx.now + timedelta(hours=1)) == 2
    assert letters(worker.driver) == []
    assert len(letters(other.driver)) == 1


def test_a_purge_leaves_out_a_locked_dead_letter(worker: InlineWorker) -> None:
    failed_run(worker, {"a": [], "b": []}, "a", "b", failureMode=CONTINUE)
    held, _ = letters(worker.driver)
    with worker.driver.database.transaction() as holder:
        holder.execute("SELECT 1 FROM dead_letters WHERE id = :id FOR UPDATE", {"id": held.id})
        with worker.driver.database.transaction() as tx:
            tx.execute("SET LOCAL lock_timeout = '5s'")
            assert dead_letters.purge(tx, worker.driver.tenant, tx.now + timedelta(hours=1)) == 1
    assert [each.id for each in letters(worker.driver)] == [held.id]
