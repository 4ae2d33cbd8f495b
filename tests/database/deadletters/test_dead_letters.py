"""What failed for good, and going on from there."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import a_task, all_pages, register
from support.inline_worker import InlineWorker, failing
from support.oracle import random_graph, reference
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, finish_step, header

from pipeweave import ids
from pipeweave.errors import Conflict, InvalidInput, NotFound, Unavailable
from pipeweave.orchestrator.deadletters import dead_letters, redrives
from pipeweave.orchestrator.deadletters.dead_letters import Retried
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.messaging.batching import RunMessage
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.reading import dead_letters as queries
from pipeweave.orchestrator.runs import deadlines, standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import cancelling, claiming, completing
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import Document, Page
from pipeweave.spec.rules import CONTINUE, FAIL_FAST, FAILURE_MODES, PARTIAL_MERGE

CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
DIAMOND: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
TWO: dict[str, list[str]] = {"a": [], "b": [], "c": ["a", "b"]}
MAP: dict[str, list[str]] = {"m": [], "after": ["m"]}
WIDE = [f"b{number}" for number in range(9)]
GATHERED = {"a": [], **{each: ["a"] for each in WIDE}, "join": WIDE}
IRREGULAR = {"a": [], "x": [], **{each: ["a"] for each in WIDE[:-1]}, WIDE[-1]: ["x"], "join": WIDE}


@pytest.fixture
def worker(isolated_driver: RunDriver) -> InlineWorker:
    return InlineWorker(isolated_driver)


@pytest.fixture
def isolated_driver(database: Database) -> RunDriver:
    return RunDriver(database)


def letters(driver: RunDriver, run_id: UUID | None = None) -> list[Any]:
    """The dead letters of the tenant, or of one of its runs, oldest first."""
    which = "" if run_id is None else " AND run_id = :run_id"
    return driver.rows(
        f"SELECT * FROM dead_letters WHERE tenant_id = :tenant{which} ORDER BY id",
        tenant=driver.tenant,
        run_id=run_id,
    )


def still_open(driver: RunDriver, run_id: UUID) -> list[Any]:
    rows = letters(driver, run_id)
    return [each for each in rows if each.retried_at is None and each.discarded_at is None]


def retry(driver: RunDriver, letter: Any) -> Retried:
    return driver.database.run(lambda tx: dead_letters.retry(tx, driver.tenant, letter.id))


def failed_run(worker: InlineWorker, needs: Mapping[str, Sequence[str]], *which: Any, **members: Any) -> UUID:
    """A run that was played until nothing went on, with these steps or items failing."""
    worker.fails = failing(*which)
    input = members.pop("input", None)
    worker.driver.store(needs, **members)
    run_id = worker.driver.trigger(members.get("id", "driven"), input)
    worker.consume_all()
    return run_id


def differences(driver: RunDriver, run_id: UUID) -> list[Any]:
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


def called(worker: InlineWorker) -> dict[str, int]:
    """How often each step, or all items of it together, was called."""
    sums: dict[str, int] = {}
    for (step, _), number in worker.calls.items():
        sums[step] = sums.get(step, 0) + number
    return sums


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
def test_each_item_that_fails_leaves_its_own_and_their_map_none(worker: InlineWorker, mode: str) -> None:
    run_id = failed_run(
        worker, MAP, ("m", 0), ("m", 2), maps={"m": "${input}"}, input=["x", "y", "z"], failureMode=mode
    )
    found = [(each.kind, each.map_index, each.item) for each in letters(worker.driver, run_id)]
    both = [("item", 0, "x"), ("item", 2, "z")]
    assert found == (both[:1] if mode == FAIL_FAST else both)


def test_its_history_has_every_attempt(worker: InlineWorker) -> None:
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


def test_it_is_the_next_attempt_with_the_current_code_and_a_fresh_allowance(worker: InlineWorker) -> None:
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


def test_it_fails_again_and_leaves_a_second_dead_letter_with_all_attempts(worker: InlineWorker) -> None:
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


def test_a_step_that_took_too_long_is_retried_like_one_that_failed(worker: InlineWorker) -> None:
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


def test_what_the_failure_cancelled_runs_again_and_its_late_report_finds_nothing(
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
        assert completing.complete(tx, [Completion(running, tx.values.keep("late"))]) == []
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert differences(worker.driver, run_id) == []


def test_its_time_limit_starts_anew(worker: InlineWorker) -> None:
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


def test_a_run_that_took_too_long_goes_on_from_what_had_failed_in_it(worker: InlineWorker) -> None:
    needs = {"a": [], "b": ["a"], "slow": [], "after": ["slow"]}
    worker.fails = failing("a")
    run_id = worker.driver.begin(needs, failureMode=CONTINUE)
    worker.consume_all(1)
    with worker.driver.database.transaction() as tx:
        deadlines.end(tx, worker.driver.tenant, run_id, deadlines.RUN_TIMEOUT, "too long")
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
def test_a_wide_join_is_released_once_when_its_failed_member_ended_well(
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


def test_what_goes_on_is_a_part_of_no_chord(worker: InlineWorker) -> None:
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


def test_a_step_that_nobody_chose_stays_skipped(worker: InlineWorker) -> None:
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


# --- maps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAILURE_MODES)
@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.parametrize("task", ["noop", "limited"])
def test_an_item_is_retried_and_its_map_goes_on(
    worker: InlineWorker, mode: str, count: int, task: str
) -> None:
    run_id = failed_run(
        worker,
        MAP,
        ("m", 1),
        ("m", 2),
        maps={"m": "${input}"},
        tasks={"m": task},
        input=list(range(count)),
        failureMode=mode,
    )
    worker.fails = {}
    worker.forget_chords()
    while remaining := still_open(worker.driver, run_id):
        retry(worker.driver, remaining[0])
        worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    rows = worker.driver.task_runs(run_id)
    assert {row.status for row in rows} == {"completed"}
    assert [worker.calls["m", index] for index in range(count)].count(1) >= count - 2
    assert called(worker)["after"] == 1
    assert differences(worker.driver, run_id) == []


def test_a_map_that_could_not_be_laid_out_is_laid_out_when_it_is_retried(worker: InlineWorker) -> None:
    needs = {"first": [], "m": ["first"], "after": ["m"]}
    run_id = failed_run(worker, needs, maps={"m": "${steps.first.of}"})
    (letter,) = letters(worker.driver, run_id)
    assert (letter.kind, letter.error_code, len(letter.history)) == ("map", "MAP_SOURCE_INVALID", 1)
    retry(worker.driver, letter)
    # Its source did not change, so it fails again at once.
    assert worker.driver.run(run_id).status == "failed"
    (again,) = still_open(worker.driver, run_id)
    worker.driver.rows(
        """UPDATE task_runs SET output = '{"of": [1, 2]}' WHERE run_id = :id AND step_id = 'first'
        RETURNING 1""",
        id=run_id,
    )
    retry(worker.driver, again)
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert called(worker) == {"first": 1, "m": 2, "after": 1}


def test_a_map_beside_the_failure_goes_on_with_what_it_had_left(worker: InlineWorker) -> None:
    needs = {"m": [], "x": [], "after": ["m", "x"]}
    worker.fails = failing("x")
    run_id = worker.driver.begin(needs, maps={"m": "${input}"}, tasks={"m": "single"}, input=[1, 2, 3])
    while worker.driver.run(run_id).status == "running":
        worker.waiting.sort(key=lambda each: getattr(each, "ordinals", (0,)) == (2,))
        if worker.calls["m", 0]:
            worker.waiting.reverse()
        worker.consume_one()
    worker.consume_all()
    statuses = worker.driver.statuses(run_id)
    assert (statuses["m"], statuses["x"], statuses["after"]) == ("cancelled", "failed", "cancelled")
    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    worker.consume_all()
    assert worker.driver.run(run_id).status == "completed"
    assert called(worker) == {"m": 3, "x": 2, "after": 1}
    assert differences(worker.driver, run_id) == []


# --- standalone tasks, and what is refused ----------------------------------------------------------------


def enqueue(worker: InlineWorker, **request: Any) -> UUID:
    with worker.driver.database.transaction() as tx:
        request = {"task_id": "noop", **request}
        return standalone_tasks.enqueue(tx, worker.driver.tenant, [QueueRequest(**request)])[0].task_run_id


@pytest.mark.parametrize("input", [{"n": 1}, "x" * 50_000], ids=["small", "in storage"])
def test_a_standalone_task_gets_a_new_task_run_with_its_input_and_wishes(
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
    worker.fails = {}
    worker.consume_all()
    assert worker.driver.run(retried.run_id).status == "completed"
    assert worker.driver.run(letter.run_id).status == "failed"
    with worker.driver.database.transaction() as tx:
        assert tx.values.load(row.input, row.input_path) == input
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


def drop_history(driver: RunDriver, run_id: UUID) -> None:
    """As retention does with a month."""
    for table, column in (("runs", "id"), ("task_runs", "run_id"), ("events", "run_id")):
        driver.rows(f"DELETE FROM {table} WHERE {column} = :id RETURNING 1", id=run_id)


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
    with pytest.raises(Conflict, match="was retried already"):
        retry(worker.driver, letter)
    with pytest.raises(Conflict, match="was retried already"), worker.driver.database.transaction() as tx:
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


def test_a_discarded_one_is_not_retried(worker: InlineWorker) -> None:
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
    with pytest.raises(Conflict, match="did not fail"):
        retry(worker.driver, letter)
    assert snapshot(worker.driver) == before


def test_a_run_whose_history_was_dropped_does_not_go_on(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b")
    drop_history(worker.driver, run_id)
    with pytest.raises(Conflict, match="was dropped"):
        retry(worker.driver, letters(worker.driver)[0])
    assert letters(worker.driver)[0].retried_at is None


def test_a_task_that_is_gone_cannot_be_retried(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b", tasks={"c": "limited"})
    with worker.driver.database.transaction() as tx:
        register(tx, worker.driver.tenant, "noop", "single", version="2.0.0")
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


def test_those_of_another_tenant_are_not_there(worker: InlineWorker) -> None:
    failed_run(worker, CHAIN, "b")
    (letter,) = letters(worker.driver)
    for verb in (dead_letters.retry, dead_letters.discard, queries.dead_letter):
        with pytest.raises(NotFound), worker.driver.database.transaction() as tx:
            verb(tx, "somebody-else", letter.id)
    with worker.driver.database.transaction() as tx:
        assert queries.dead_letter_list(tx, "somebody-else", Page(), LetterFilter())["items"] == []


# --- two at once ------------------------------------------------------------------------------------------


def test_a_join_that_is_being_decided_waits_for_the_retry_or_the_retry_for_it(worker: InlineWorker) -> None:
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


def test_a_run_that_counts_its_failures_while_one_is_retried_does_not_end(worker: InlineWorker) -> None:
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


# --- looking ----------------------------------------------------------------------------------------------


FIRST = Page()


def listed(driver: RunDriver, page: Page = FIRST, status: str = "open", **which: Any) -> Document:
    with driver.database.reading() as tx:
        return queries.dead_letter_list(tx, driver.tenant, page, LetterFilter(**which), status=status)


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


def test_what_was_retried_or_discarded_is_listed_when_asked_for(worker: InlineWorker) -> None:
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


def test_one_is_shown_in_full(worker: InlineWorker) -> None:
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


def test_those_that_are_alike_are_counted(worker: InlineWorker) -> None:
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


def test_an_old_one_that_somebody_holds_is_left_for_later(worker: InlineWorker) -> None:
    failed_run(worker, {"a": [], "b": []}, "a", "b", failureMode=CONTINUE)
    held, _ = letters(worker.driver)
    with worker.driver.database.transaction() as holder:
        holder.execute("SELECT 1 FROM dead_letters WHERE id = :id FOR UPDATE", {"id": held.id})
        with worker.driver.database.transaction() as tx:
            tx.execute("SET LOCAL lock_timeout = '5s'")
            assert dead_letters.purge(tx, worker.driver.tenant, tx.now + timedelta(hours=1)) == 1
    assert [each.id for each in letters(worker.driver)] == [held.id]


# --- many at once -----------------------------------------------------------------------------------------


def redrive(driver: RunDriver, **which: Any) -> UUID:
    return driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter(**which)))


def progress(driver: RunDriver, redrive_id: UUID) -> Document:
    with driver.database.reading() as tx:
        return queries.redrive(tx, driver.tenant, redrive_id)


def test_a_redrive_retries_what_fits_and_says_how_far_it_is(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrives, "BATCH", 2)
    run_id = failed_run(worker, {**{each: [] for each in WIDE}, "join": WIDE}, *WIDE, failureMode=CONTINUE,
                        tasks={"b0": "limited", "b1": "limited"})  # fmt: skip
    worker.fails = {}
    driver = worker.driver
    redrive_id = redrive(driver, task_id="noop")
    assert progress(driver, redrive_id)["total"] == 7
    assert redrives.run_once(driver.database) >= 7
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 7, 0)
    assert shown["filter"] == {"taskId": "noop"}
    worker.consume_all()
    assert driver.run(run_id).status == "failed", "two were not meant"
    assert redrives.run_once(driver.database) == 0
    redrive(driver)
    redrives.run_once(driver.database)
    worker.consume_all()
    assert driver.run(run_id).status == "completed"
    assert called(worker)["join"] == 1


def test_a_redrive_skips_what_cannot_be_retried(worker: InlineWorker) -> None:
    driver = worker.driver
    needs: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    gone = failed_run(worker, needs, "a", "b", failureMode=CONTINUE)
    drop_history(driver, gone)
    fine = failed_run(worker, needs, "b", failureMode=CONTINUE)
    # Two of one run, of which one has a task that is gone.
    half = failed_run(worker, needs, "a", "b", failureMode=CONTINUE, tasks={"a": "limited"}, id="half")
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", "single", version="2.0.0")
    redrive_id = redrive(driver)
    redrives.run_once(driver.database)
    shown = progress(driver, redrive_id)
    assert (shown["status"], shown["total"], shown["retried"], shown["skipped"]) == ("completed", 5, 2, 3)
    assert still_open(driver, fine) == []
    assert [each.step_id for each in still_open(driver, half)] == ["a"]
    assert len(still_open(driver, gone)) == 2


def test_a_redrive_does_not_retry_for_ever_what_fails_again(worker: InlineWorker) -> None:
    run_id = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    for _ in range(3):
        redrives.run_once(worker.driver.database)
        worker.consume_all()
    assert progress(worker.driver, redrive_id)["retried"] == 1
    assert len(letters(worker.driver, run_id)) == 2


def test_a_redrive_leaves_out_what_failed_since_it_was_asked_for(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrives, "BATCH", 1)
    monkeypatch.setattr(redrives, "LONG_ENOUGH_S", 0)
    run_id = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    for _ in range(3):
        redrives.run_once(worker.driver.database)
        worker.consume_all()
    shown = progress(worker.driver, redrive_id)
    assert (shown["status"], shown["total"], shown["retried"]) == ("completed", 1, 1)
    assert len(still_open(worker.driver, run_id)) == 1


def test_a_redrive_goes_on_behind_what_cannot_be_retried(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrives, "BATCH", 1)
    drop_history(worker.driver, failed_run(worker, CHAIN, "b"))
    fine = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(worker.driver)
    redrives.run_once(worker.driver.database)
    shown = progress(worker.driver, redrive_id)
    assert (shown["status"], shown["retried"], shown["skipped"]) == ("completed", 1, 1)
    assert still_open(worker.driver, fine) == []


def test_a_redrive_that_is_cancelled_at_work_retries_nothing_more(worker: InlineWorker) -> None:
    driver = worker.driver
    run_id = failed_run(worker, CHAIN, "b")
    redrive_id = redrive(driver)
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM runs WHERE id = :id FOR UPDATE", {"id": run_id})
        beside = BackgroundCall(lambda: redrives.run_once(driver.database))
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
    redrives.run_once(driver.database)
    assert progress(driver, redrive_id)["status"] == "cancelled"
    assert len(listed(driver)["items"]) == 1
    with pytest.raises(Conflict, match="is cancelled already"):
        driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, redrive_id))
    with pytest.raises(NotFound):
        driver.database.run(lambda tx: redrives.cancel(tx, driver.tenant, ids.new_id()))


def test_a_redrive_of_nothing_is_over_at_once(worker: InlineWorker) -> None:
    shown = progress(worker.driver, redrive(worker.driver, since=worker.driver.database.now()))
    assert (shown["status"], shown["total"]) == ("completed", 0)
    assert shown["finishedAt"] == shown["createdAt"]


def test_redrives_are_listed_newest_first(worker: InlineWorker) -> None:
    made = [redrive(worker.driver) for _ in range(3)]

    def page(wanted: Page) -> Document:
        with worker.driver.database.reading() as tx:
            return queries.redrive_list(tx, worker.driver.tenant, wanted)

    found = [each["id"] for each in all_pages(page, 2)]
    assert found == [ids.show(ids.REDRIVE, each) for each in sorted(made, reverse=True)]


# --- any run ----------------------------------------------------------------------------------------------

_TASKS = {"act": "noop", "act_limited": "limited"}


@pytest.mark.parametrize("seed", range(120))
def test_any_run_comes_to_what_it_would_have_come_to_without_the_failures(
    isolated_driver: RunDriver, seed: int
) -> None:
    """In whatever order dead letters are retried, at once or while others still run, fixed or not yet."""
    chance = random.Random(seed)
    document, wishes = random_graph(chance, f"graph-{seed}")
    mode = chance.choice(FAILURE_MODES)
    worker = InlineWorker(isolated_driver, chance=chance, chooses=wishes["choose"])
    steps = {step["id"]: step for step in document["steps"]}
    isolated_driver.store(
        {id: step["needs"] for id, step in steps.items()},
        id=document["id"],
        tasks={id: _TASKS[step["task"]] for id, step in steps.items()},
        maps={id: step["map"]["over"] for id, step in steps.items() if "map" in step},
    )
    broken = list(_broken(wishes, steps, chance))
    worker.fails = failing(*broken)
    run_id = isolated_driver.trigger(document["id"], wishes, failure_mode=mode)
    for _ in range(400):
        worker.consume_all(chance.choice([3, 10, 1_000]))
        found = still_open(isolated_driver, run_id)
        if not found and not worker.waiting:
            break
        if broken and chance.random() < 0.5:
            worker.fails.pop(broken.pop(chance.randrange(len(broken))))
        if chance.random() < 0.1:
            worker.forget_chords() if isolated_driver.run(run_id).status != "running" else None
        for letter in chance.sample(found, min(len(found), chance.randint(0, 2))):
            retry(isolated_driver, letter)
        if not worker.waiting:
            assert isolated_driver.run(run_id).status != "running", isolated_driver.statuses(run_id)

    expected = reference(document, {**wishes, "fail": {}}, CONTINUE)
    assert isolated_driver.statuses(run_id) == expected.statuses
    assert isolated_driver.run(run_id).status == "completed"
    assert differences(isolated_driver, run_id) == []
    retried = {(each.step_id, each.map_index) for each in letters(isolated_driver, run_id)}
    once = {call: number for call, number in worker.calls.items() if call not in retried}
    assert set(once.values()) <= {1}


def _broken(wishes: Mapping[str, Any], steps: Mapping[str, Any], chance: random.Random) -> Any:
    for name, items in wishes["fail"].items():
        if "map" in steps[name]:
            yield from ((name, index) for index in items)
        else:
            yield name
    if not wishes["fail"]:
        yield chance.choice([name for name, step in steps.items() if "map" not in step] or ["nobody"])
