"""Retrying dead letters: a run goes on from its failures."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import pytest
from support.concurrency import call_concurrently
from support.factories import a_task, register
from support.failed_runs import (
    CHAIN,
    DIAMOND,
    TWO,
    WIDE,
    called,
    differences,
    failed_run,
    letters,
    retry,
    still_open,
)
from support.inline_worker import InlineWorker, failing
from support.run_driver import header
from support.stored_values import VALUES

from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.messaging.batching import RunMessage
from pipeweave.orchestrator.runs import deadlines
from pipeweave.orchestrator.state import claiming, completing
from pipeweave.spec.rules import CONTINUE, FAILURE_MODES, PARTIAL_MERGE

GATHERED = {"a": [], **{each: ["a"] for each in WIDE}, "join": WIDE}
IRREGULAR = {"a": [], "x": [], **{each: ["a"] for each in WIDE[:-1]}, WIDE[-1]: ["x"], "join": WIDE}

HISTORY = "SELECT * FROM events WHERE run_id = :id ORDER BY seq"


# --- going on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAILURE_MODES)
@pytest.mark.parametrize("step", ["a", "b", "c"])
def test_a_retried_step_lets_its_run_go_on_and_complete(worker: InlineWorker, mode: str, step: str) -> None:
    run_id = failed_run(worker, CHAIN, step, failureMode=mode)
    (letter,) = letters(worker.driver, run_id)
    assert worker.driver.run(run_id).status == ("partial" if mode == PARTIAL_MERGE else "failed")

    worker.fails = {}
    retried = retry(worker.driver, letter)
    run = worker.driver.run(run_id)
    assert (run.status, run.finished_at, run.error, run.error_code) == ("running", None, None, None)
    assert run.reopened_at is not None
    worker.consume_all()

    assert worker.driver.run(run_id).status == "completed"
    assert worker.driver.statuses(run_id) == dict.fromkeys(CHAIN, "completed")
    assert called(worker) == {each: 1 + (each == step) for each in CHAIN}
    assert differences(worker.driver, run_id) == []
    assert (retried.run_id, retried.task_run_id) == (run_id, letter.task_run_id)
    (kept,) = letters(worker.driver, run_id)
    assert (kept.retry_run_id, kept.retry_task_run_id) == (run_id, letter.task_run_id)


def test_what_a_run_began_with_and_what_its_history_says_never_change(worker: InlineWorker) -> None:
    driver = worker.driver
    run_id = failed_run(worker, CHAIN, "b")
    began, said = driver.run(run_id), driver.rows(HISTORY, id=run_id)
    worker.fails = {}
    retry(driver, letters(driver)[0])
    worker.consume_all()
    ended = driver.run(run_id)
    assert (began.status, ended.status) == ("failed", "completed")
    changed = {name for name in began._fields if getattr(began, name) != getattr(ended, name)}
    assert changed == {"status", "finished_at", "error", "error_code", "reopened_at", "over_ms"}
    assert driver.rows(HISTORY, id=run_id)[: len(said)] == said


def test_a_retry_is_the_next_attempt_with_the_current_code_and_new_attempts(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b")
    with worker.driver.database.transaction() as tx:
        register(
            tx,
            worker.driver.tenant,
            *(a_task(each, code="second") for each in ("noop", "limited", "single")),
        )
    retried = retry(worker.driver, letters(worker.driver)[0])
    row = worker.driver.task_runs(run_id)[1]
    assert (row.attempt, row.max_attempts, row.code_version) == (2, 1 + 4, 2)
    assert retried.code_version == 2
    assert row.code_hash == a_task("x", code="second").code_hash
    worker.fails = {}
    worker.consume_all()
    assert [each[3] for each in worker.attempts] == [1, 1, 2, 2]


def test_a_retry_that_fails_leaves_another_dead_letter_with_all_attempts(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b")
    for number in (1, 2, 3):
        (letter,) = still_open(worker.driver, run_id)
        assert [each["attempt"] for each in letter.history] == list(range(1, number + 1))
        retry(worker.driver, letter)
        worker.consume_all()
        assert worker.driver.run(run_id).status == "failed"
    assert len(letters(worker.driver, run_id)) == 4
    assert worker.driver.statuses(run_id) == {"a": "completed", "b": "failed", "c": "cancelled"}
    assert differences(worker.driver, run_id) == []


def test_a_timed_out_step_is_retried_like_a_failed_step(worker: InlineWorker) -> None:
    worker.fails = {"b": failure.overdue(300)}
    run_id = worker.driver.begin(CHAIN)
    for attempt in (1, 2, 3, 4):
        worker.consume_all()
        row = worker.driver.task_runs(run_id)[1]
        assert row.attempt == min(attempt + 1, 4)
        with worker.driver.database.transaction() as tx:
            advance = Advance(tx, header(tx, run_id))
            advance.release_due([row.id])
            advance.close()
    (letter,) = letters(worker.driver, run_id)
    assert (letter.status, worker.driver.statuses(run_id)["b"]) == ("timeout", "timeout")
    worker.fails = {}
    retry(worker.driver, letter)
    row = worker.driver.task_runs(run_id)[1]
    assert (row.attempt, row.max_attempts) == (5, 8)
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"


def test_task_runs_cancelled_by_the_failure_run_again_and_ignore_late_reports(
    worker: InlineWorker,
) -> None:
    run_id = worker.driver.begin(DIAMOND)
    worker.driver.finish(run_id, "a")
    with worker.driver.database.transaction() as tx:
        (running,) = claiming.start(tx, run_id, [3], 1, worker="elsewhere")
    worker.fails = failing("b")
    worker.consume_all()
    assert worker.driver.statuses(run_id)["c"] == "cancelled"

    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    row = worker.driver.task_runs(run_id)[2]
    assert (row.status, row.attempt, row.max_attempts) == ("queued", 2, 5)
    kept = worker.driver.rows("SELECT * FROM attempts WHERE task_run_id = :id", id=running.id)
    assert [(each.number, each.status, each.worker) for each in kept] == [(1, "cancelled", "elsewhere")]
    with worker.driver.database.transaction() as tx:
        assert completing.complete(tx, [Completion(running, VALUES.keep("late"))]) == []
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert differences(worker.driver, run_id) == []


def test_the_time_limit_of_a_reopened_run_starts_again(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b", timeout="1h")
    before = worker.driver.run(run_id)
    worker.driver.database.now = lambda: before.finished_at + timedelta(hours=5)
    retry(worker.driver, letters(worker.driver, run_id)[0])
    run = worker.driver.run(run_id)
    assert run.deadline_at - run.reopened_at == timedelta(hours=1)
    retry_again = run.reopened_at + timedelta(hours=7)
    worker.consume_all()
    worker.driver.database.now = lambda: retry_again
    retry(worker.driver, still_open(worker.driver, run_id)[0])
    run = worker.driver.run(run_id)
    assert run.deadline_at == retry_again + timedelta(hours=1)


def test_a_timed_out_run_goes_on_from_its_failed_step(worker: InlineWorker) -> None:
    needs = {"a": [], "b": ["a"], "slow": [], "after": ["slow"]}
    worker.fails = failing("a")
    run_id = worker.driver.begin(needs, failureMode=CONTINUE)
    worker.consume_all(1)
    with worker.driver.database.transaction() as tx:
        deadlines.time_out_run(tx, worker.driver.tenant, run_id, deadlines.RUN_TIMEOUT, "too long")
    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    worker.consume_all()
    assert worker.driver.statuses(run_id) == dict.fromkeys(needs, "completed")
    assert called(worker) == {"a": 2, "b": 1, "slow": 1, "after": 1}


# --- joins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAILURE_MODES)
@pytest.mark.parametrize(
    "tasks", [{}, {"b3": "limited", "b5": "limited", "b8": "limited", "join": "limited"}]
)
@pytest.mark.parametrize("needs", [GATHERED, IRREGULAR], ids=["gathered", "irregular"])
@pytest.mark.parametrize("is_forgotten", [False, True], ids=["at once", "days later"])
def test_a_wide_join_is_released_once_when_its_retried_member_completes(
    worker: InlineWorker, mode: str, tasks: dict[str, str], needs: dict[str, list[str]], is_forgotten: bool
) -> None:
    run_id = failed_run(worker, needs, "b3", "b8", failureMode=mode, tasks=tasks)
    worker.fails = {}
    if is_forgotten:
        worker.forget_chords()
    while remaining := still_open(worker.driver, run_id):
        retry(worker.driver, remaining[0])
        worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert worker.driver.statuses(run_id) == dict.fromkeys(needs, "completed")
    assert called(worker)["join"] == 1
    assert differences(worker.driver, run_id) == []


def test_messages_of_reopened_task_runs_are_not_counted(worker: InlineWorker) -> None:
    """Messages of before may be out still, whose parts have the names that it would count by."""
    run_id = failed_run(worker, GATHERED, "b3", "b8", failureMode=CONTINUE)
    for letter in still_open(worker.driver, run_id):
        retry(worker.driver, letter)
    assert [(each.ordinals, each.joins) for each in waiting_messages(worker)] == [((5,), ()), ((10,), ())]


def waiting_messages(worker: InlineWorker) -> list[RunMessage]:
    return [each for each in worker.waiting if isinstance(each, RunMessage)]


@pytest.mark.parametrize(
    ("needs", "failing_one", "members"),
    [
        (GATHERED, "b0", {"tasks": dict.fromkeys(WIDE[:3], "limited")}),
        ({"m": [], "x": []}, ("m", 0), {"tasks": {"m": "limited"}, "maps": {"m": "${input}"}}),
    ],
    ids=["a join", "a map"],
)
def test_a_chord_is_left_alone_while_its_run_goes_on(
    worker: InlineWorker, needs: dict[str, list[str]], failing_one: Any, members: dict[str, Any]
) -> None:
    """Messages may be out that count for it: counted anew, it would wait for parts that never come."""
    worker.fails = failing(failing_one)
    run_id = worker.driver.begin(needs, list(range(9)), failureMode=CONTINUE, **members)
    while not letters(worker.driver, run_id):
        worker.consume_one()
    before = chords(worker)
    assert before != ({}, {}), "a chord is on its way"
    retry(worker.driver, letters(worker.driver, run_id)[0])
    assert chords(worker) == before
    worker.fails = {}
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"


def chords(worker: InlineWorker) -> tuple[Any, Any]:
    """The sizes of chords, and the parts that were counted of each."""
    return dict(worker.sizes), {chord: set(parts) for chord, parts in worker.counted.items()}


def test_a_join_that_went_on_without_a_step_is_not_run_again(worker: InlineWorker) -> None:
    run_id = failed_run(worker, TWO, "a", failureMode=PARTIAL_MERGE)
    assert worker.driver.statuses(run_id)["c"] == "completed"
    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    assert worker.driver.run(run_id).status == "running"
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert called(worker) == {"a": 2, "b": 1, "c": 1}


def test_an_unselected_step_stays_skipped(worker: InlineWorker) -> None:
    needs = {"a": [], "b": ["a"], "c": ["a"], "d": ["b"], "e": ["c"], "f": ["d", "e"]}
    worker.chooses = {"a": ["b"]}
    run_id = failed_run(worker, needs, "b", failureMode=CONTINUE)
    assert worker.driver.statuses(run_id)["f"] == "skipped"
    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    worker.consume_all()
    ran = dict.fromkeys("abdf", "completed")
    assert worker.driver.statuses(run_id) == {**ran, "c": "skipped", "e": "skipped"}
    assert worker.driver.run(run_id).status == "completed"


def test_another_failure_of_the_run_still_decides_its_joins(worker: InlineWorker) -> None:
    needs = {"a": [], "b": [], "after-a": ["a"], "after-b": ["b"], "both": ["a", "b"]}
    run_id = failed_run(worker, needs, "a", "b", failureMode=CONTINUE)
    first, second = letters(worker.driver, run_id)
    worker.fails = {}
    retry(worker.driver, first)
    worker.consume_all()
    assert worker.driver.statuses(run_id) == {
        "a": "completed",
        "b": "failed",
        "after-a": "completed",
        "after-b": "skipped",
        "both": "skipped",
    }
    assert worker.driver.run(run_id).status == "failed"
    retry(worker.driver, second)
    worker.consume_all()
    assert worker.driver.statuses(run_id) == dict.fromkeys(needs, "completed")
    assert worker.driver.run(run_id).status == "completed"
    assert called(worker) == {"a": 2, "b": 2, "after-a": 1, "after-b": 1, "both": 1}
    assert differences(worker.driver, run_id) == []


def test_a_step_is_retried_while_its_run_goes_on(worker: InlineWorker) -> None:
    needs = {"a": [], "b": [], "slow": ["b"], "join": ["a", "slow"], "after-a": ["a"]}
    worker.fails = failing("a")
    run_id = worker.driver.begin(needs, failureMode=CONTINUE)
    worker.consume_all(1)
    assert worker.driver.run(run_id).status == "running"
    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    worker.consume_all()
    assert worker.driver.statuses(run_id) == dict.fromkeys(needs, "completed")
    assert worker.driver.run(run_id).status == "completed"
    assert worker.driver.events(run_id, "run.reopened") == [], "it never was over"
    assert differences(worker.driver, run_id) == []


def test_several_retried_at_once_all_end_right(worker: InlineWorker) -> None:
    needs = {**{each: [] for each in WIDE[:5]}, "join": WIDE[:5], **{f"after-{e}": [e] for e in WIDE[:5]}}
    run_id = failed_run(worker, needs, *WIDE[:5], failureMode=CONTINUE)
    worker.fails = {}
    found = letters(worker.driver, run_id)
    done = call_concurrently(*[functools.partial(retry, worker.driver, each) for each in found])
    assert [each.error for each in done] == [None] * 5
    worker.consume_all()
    assert worker.driver.statuses(run_id) == dict.fromkeys(needs, "completed")
    assert set(called(worker).values()) == {1, 2}
    assert called(worker)["join"] == 1
