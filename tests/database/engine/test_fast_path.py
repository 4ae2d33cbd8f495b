"""The straight way: one statement stores a result and takes the next step, as the long way would."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.run_driver import RunDriver, claim, header, settle
from support.sent_statements import sent_statements
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, TaskRun
from pipeweave.orchestrator.engine import fast_path
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepSpec

CHAIN = {"a": [], "b": ["a"]}


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    yield RunDriver(database)


def started(driver: RunDriver, run_id: UUID, ordinal: int) -> TaskRun:
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, ordinal)
    assert claimed is not None
    return claimed


def go_on(
    driver: RunDriver,
    run_id: UUID,
    task_run: TaskRun,
    *,
    queue: str | None = None,
    completion: Completion | None = None,
) -> list[TaskRun]:
    with driver.database.statements() as tx:
        run = header(tx, run_id)
        completion = completion or Completion(task_run, VALUES.keep({"rows": 3}))
        assert fast_path.applies(run, completion)
        gone_on = fast_path.complete_and_go_on(tx, run, [completion], Claimant("w1", queue or task_run.queue))
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    return gone_on


def test_the_only_successor_goes_on_with_the_worker_that_completed_its_predecessor(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    [second] = go_on(driver, run_id, started(driver, run_id, 1))
    assert (second.step_id, second.status.value) == ("b", "running")
    first, then = driver.task_runs(run_id)
    assert (first.status, first.output, first.output_hash is not None) == ("completed", {"rows": 3}, True)
    assert (then.worker, then.started_at) == ("w1", first.finished_at)
    assert then.claimed_at == then.heartbeat_at is not None
    assert [each.data["worker"] for each in driver.events(run_id, "task_run.started")] == ["w1", "w1"]
    assert len(driver.events(run_id, "task_run.completed")) == 1


@pytest.mark.parametrize("steps", [CHAIN, {"a": []}])
def test_a_step_that_returned_nothing_has_no_output(driver: RunDriver, steps: dict[str, list[str]]) -> None:
    """As on the long way, where it is NULL, and no JSON that says null."""
    run_id = driver.begin(steps)
    first = started(driver, run_id, 1)
    go_on(driver, run_id, first, completion=Completion(first, VALUES.keep(None)))
    [row] = driver.rows("SELECT output IS NULL AS is_none FROM task_runs WHERE id = :id", id=first.id)
    assert row.is_none


def test_where_an_output_a_log_and_files_lie_is_stored_with_the_result(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id, 1)
    large, files = KeptValue(None, "outputs/1", 9, "a" * 64), {"chart": {"path": "assets/1", "size": 3}}
    go_on(driver, run_id, first, completion=Completion(first, large, assets=files, logs_path="logs/1"))
    [row] = driver.rows("SELECT * FROM task_runs WHERE id = :id", id=first.id)
    assert (row.output, row.output_path, row.output_size) == (None, "outputs/1", 9)
    assert (row.output_hash, row.assets, row.logs_path) == ("a" * 64, files, "logs/1")


def test_a_run_ends_with_its_only_end_step(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    assert go_on(driver, run_id, started(driver, run_id, 1)) == []
    assert driver.run(run_id).status == "completed"
    assert driver.run(run_id).finished_at == driver.task_runs(run_id)[0].finished_at
    assert len(driver.events(run_id, "run.completed")) == 1


def test_a_successor_of_another_queue_is_sent_there(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    driver.sent.clear()
    assert go_on(driver, run_id, started(driver, run_id, 1), queue="pipeweave.elsewhere") == []
    assert driver.statuses(run_id) == {"a": "completed", "b": "queued"}
    assert driver.task_runs(run_id)[1].worker is None
    assert driver.released(run_id) == [2]
    assert driver.events(run_id, "task_runs.queued")[-1].data == {"ordinals": [[2, 2]]}


def test_the_end_of_a_child_and_the_news_of_it_for_its_parent_are_one_transaction(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"), id="inner")
    driver.store_steps(child("call", "inner"))
    parent = driver.trigger()
    inner = only_child(driver, parent)
    task_run = started(driver, inner, 1)
    with driver.database.transaction() as tx:
        run = header(tx, inner)
    completion = Completion(task_run, VALUES.keep({"rows": 3}))
    assert fast_path.applies(run, completion)
    with sent_statements() as sent, driver.database.statements() as tx:
        fast_path.complete_and_go_on(tx, run, [completion], Claimant("w1", task_run.queue))
        assert (len(sent), sent.commits) == (2, 0)
    assert driver.run(inner).status == "completed"
    assert driver.task_runs(parent)[0].output == {"rows": 3}
    assert driver.run(parent).status == "completed"
    for run_id in (inner, parent):
        with verify.snapshot(driver.database) as tx:
            assert verify.run(tx, run_id) == []


DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def test_of_two_successors_one_goes_on_here_and_one_is_sent(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    driver.sent.clear()
    [here] = go_on(driver, run_id, started(driver, run_id, 1))
    assert here.step_id == "b"
    assert driver.statuses(run_id) == {"a": "completed", "b": "running", "c": "queued", "d": "pending"}
    assert driver.released(run_id) == [3]
    assert [each.data["ordinals"] for each in driver.events(run_id, "task_runs.queued")][-1] == [[3, 3]]


def test_a_narrow_join_goes_on_with_the_last_of_its_predecessors(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    [b] = go_on(driver, run_id, started(driver, run_id, 1))
    assert go_on(driver, run_id, b) == []
    assert driver.statuses(run_id)["d"] == "pending"
    [d] = go_on(driver, run_id, started(driver, run_id, 3))
    assert (d.step_id, d.status.value) == ("d", "running")
    assert go_on(driver, run_id, d) == []
    assert driver.run(run_id).status == "completed"


def test_a_run_ends_with_the_last_of_its_few_end_steps(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": []})
    for ordinal in (2, 1):
        assert go_on(driver, run_id, started(driver, run_id, ordinal)) == []
        assert driver.run(run_id).status == "running"
    go_on(driver, run_id, started(driver, run_id, 3))
    assert driver.run(run_id).status == "completed"
    assert len(driver.events(run_id, "run.completed")) == 1


@pytest.mark.parametrize("needs", [{"a": [], "b": []}, {"a": [], "b": [], "c": ["a", "b"]}])
def test_a_join_starts_after_the_end_of_each_predecessor(
    driver: RunDriver, needs: dict[str, list[str]]
) -> None:
    """Whoever completes the last one may have begun to, and then waited, before the others ended."""
    run_id = driver.begin(needs)
    first, last = (started(driver, run_id, ordinal) for ordinal in (1, 2))
    with driver.database.statements() as tx:
        completion = Completion(last, VALUES.keep(None))
        run = header(tx, run_id)
        go_on(driver, run_id, first)
        gone_on = fast_path.complete_and_go_on(tx, run, [completion], Claimant("w1", last.queue))
    ends = [each.finished_at for each in driver.task_runs(run_id)[:2]]
    assert ends[0] > ends[1]
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    if gone_on:
        assert driver.task_runs(run_id)[2].started_at == max(ends)
    else:
        [event] = driver.events(run_id, "run.completed")
        assert driver.run(run_id).finished_at == event.at == max(ends)


@pytest.mark.parametrize("needs", [{"a": [], "b": [], "c": ["a", "b"]}, {"a": [], "b": []}])
def test_the_completion_of_the_last_predecessor_waits_for_a_concurrent_completion_of_another(
    driver: RunDriver, needs: dict[str, list[str]]
) -> None:
    """Otherwise each of the two would take the other one for open, and nothing would go on."""
    run_id = driver.begin(needs)
    first, last = (started(driver, run_id, ordinal) for ordinal in (1, 2))
    with driver.database.transaction() as tx:
        completion = Completion(first, VALUES.keep(None))
        assert (
            fast_path.complete_and_go_on(tx, header(tx, run_id), [completion], Claimant("w1", first.queue))
            == []
        )
        beside = BackgroundCall(lambda: go_on(driver, run_id, last))
        beside.__enter__()
        wait_for_lock(driver.database)
    assert [each.step_id for each in beside.result] == list(needs)[2:]
    assert driver.run(run_id).status == ("running" if "c" in needs else "completed")


_LOCK_NOW = "SELECT 1 FROM task_runs WHERE run_id = :run_id AND id = :id FOR UPDATE NOWAIT"


def test_joins_are_locked_in_the_order_of_their_ids(driver: RunDriver) -> None:
    """Two that complete predecessors of the same joins would wait for each other otherwise."""
    run_id = driver.begin({"a": [], "b": [], "c": ["a", "b"], "d": ["b", "a"]})
    first = started(driver, run_id, 1)
    c, d = ({"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)} for ordinal in (3, 4))
    with driver.database.transaction() as tx:
        tx.execute(_LOCK_NOW, c)
        beside = BackgroundCall(lambda: go_on(driver, run_id, first))
        beside.__enter__()
        wait_for_lock(driver.database)
        assert tx.execute(_LOCK_NOW, d).first() is not None, "who waits for the first holds none"
    assert beside.result == []


@pytest.mark.parametrize("count", range(6))
def test_predecessors_that_complete_at_once_release_their_join_once(driver: RunDriver, count: int) -> None:
    run_id = driver.begin(DIAMOND)
    [b] = go_on(driver, run_id, started(driver, run_id, 1))
    c = started(driver, run_id, 3)
    ends = call_concurrently(lambda: go_on(driver, run_id, b), lambda: go_on(driver, run_id, c))
    assert sorted(len(each.result) for each in ends) == [0, 1]
    assert driver.statuses(run_id)["d"] == "running"
    assert len(driver.events(run_id, "task_run.started")) == 4


@pytest.mark.parametrize("count", range(4))
def test_end_steps_that_complete_at_once_end_their_run_once(driver: RunDriver, count: int) -> None:
    run_id = driver.begin({"a": [], "b": []})
    both = [started(driver, run_id, ordinal) for ordinal in (1, 2)]
    call_concurrently(*(lambda each=each: go_on(driver, run_id, each) for each in both))  # type: ignore[misc]
    assert driver.run(run_id).status == "completed"
    assert len(driver.events(run_id, "run.completed")) == 1


def test_a_join_of_which_a_predecessor_chose_others_is_asked_about(driver: RunDriver) -> None:
    """Whether it runs is a matter of rules: a message asks, and the rules decide."""
    run_id = driver.begin({"a": [], "b": [], "c": ["a", "b"], "e": ["b"]})
    driver.finish(run_id, "b", chosen=("e",))
    driver.sent.clear()
    assert go_on(driver, run_id, started(driver, run_id, 1)) == []
    assert [each for each in driver.sent if isinstance(each, JoinCheck)] != []
    driver.check(run_id, 3)
    assert driver.statuses(run_id)["c"] == "queued"


def test_a_limited_successor_waits_for_its_limit(driver: RunDriver) -> None:
    driver.store(CHAIN, tasks={"b": "single"})
    run_ids = [driver.trigger(), driver.trigger()]
    for run_id in run_ids:
        assert go_on(driver, run_id, started(driver, run_id, 1)) == []
    assert [driver.statuses(run_id)["b"] for run_id in run_ids] == ["queued", "ready"]


def test_a_late_result_moves_neither_its_row_nor_its_successor_nor_its_run(driver: RunDriver) -> None:
    for needs in (CHAIN, {"a": []}):
        run_id = driver.begin(needs)
        late = started(driver, run_id, 1)
        with driver.database.transaction() as tx:
            triggering.cancel(tx, driver.tenant, run_id)
        assert go_on(driver, run_id, late) == []
        assert set(driver.statuses(run_id).values()) == {"cancelled"}
        assert driver.run(run_id).status == "cancelled"
        assert driver.events(run_id, "task_run.completed") == []


@pytest.mark.parametrize("needs", [CHAIN, {"a": []}, {"a": [], "b": [], "c": ["a", "b"]}, {"a": [], "b": []}])
def test_a_late_result_releases_nothing_while_the_next_attempt_runs(
    driver: RunDriver, needs: dict[str, list[str]]
) -> None:
    """What waits for the step is open as ever: only that nothing moved tells that it must not go."""
    run_id = driver.begin(needs)
    late = started(driver, run_id, 1)
    driver.finish(run_id, *(step for step in list(needs)[1:] if not needs[step]))
    with driver.database.transaction() as tx:
        settle(tx, late, failure=failure.lost("its worker is gone"))
        assert claiming.start(tx, run_id, [1], 2, worker="w2") != []
    before = driver.statuses(run_id)
    driver.sent.clear()
    assert go_on(driver, run_id, late) == []
    assert (driver.statuses(run_id), driver.run(run_id).status) == (before, "running")
    assert driver.sent == []


def test_a_doubled_result_counts_once(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id, 1)
    assert len(go_on(driver, run_id, first)) == 1
    assert go_on(driver, run_id, first) == []
    assert len(driver.events(run_id, "task_run.completed")) == 1


@pytest.mark.parametrize(
    ("needs", "members"),
    [
        ({"a": [], **{f"b{n}": ["a"] for n in range(9)}}, {}),
        ({**{f"a{n}": [] for n in range(8)}, "b": [f"a{n}" for n in range(8)]}, {}),
        ({"a": [], "b": ["a"]}, {"maps": {"b": "${steps.a}"}}),
        ({"a": []}, {"failureMode": "continue"}),
        ({"a": [], "b": ["a"]}, {"tasks": {"a": "single"}}),
    ],
    ids=["many successors", "a wide join", "a map", "an end that must look at all", "a limited task"],
)
def test_the_fast_path_does_not_apply_where_the_rules_must_decide(
    driver: RunDriver, needs: dict[str, list[str]], members: dict[str, object]
) -> None:
    run_id = driver.begin(needs, **members)
    first = started(driver, run_id, 1)
    with driver.database.transaction() as tx:
        assert not fast_path.applies(header(tx, run_id), Completion(first, VALUES.keep(None)))


def test_a_choice_is_not_straight(driver: RunDriver) -> None:
    run_id = driver.begin(CHAIN)
    first = started(driver, run_id, 1)
    with driver.database.transaction() as tx:
        chosen = Completion(first, VALUES.keep(None), ())
        assert not fast_path.applies(header(tx, run_id), chosen)
