"""Reruns: a run that ended runs again, from the beginning or from a step, with the results of the others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import call_concurrently
from support.failed_runs import (
    CHAIN,
    DIAMOND,
    MAP,
    called,
    differences,
    drop_history,
    failed_run,
    letters,
    retry,
)
from support.inline_worker import InlineWorker, failing
from support.oracle import random_graph, reference
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.errors import Conflict, InvalidInput, NotFound
from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.runs import admission, rerunning, triggering
from pipeweave.orchestrator.runs.rerunning import LATEST, CreatedRerun, Edited, Rerun
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec.rules import CONTINUE, FAILURE_MODES, PARTIAL_MERGE


@pytest.fixture
def worker(database: Database) -> InlineWorker:
    return InlineWorker(RunDriver(database))


def rerun(driver: RunDriver, run_id: UUID, from_step: str | None = None, **options: Any) -> CreatedRerun:
    request = Rerun(run_id, from_step, **options)
    return driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    )


def ran_again(worker: InlineWorker, run_id: UUID, from_step: str | None = None, **options: Any) -> UUID:
    """Rerun a run to its end, with nothing failing; only the calls of the rerun are counted."""
    worker.calls.clear()
    worker.fails = {}
    made = rerun(worker.driver, run_id, from_step, **options)
    worker.consume_all()
    assert differences(worker.driver, made.id) == []
    return made.id


def completed_run(worker: InlineWorker, needs: Mapping[str, Any], **document: Any) -> UUID:
    return failed_run(worker, needs, **document)


# --- what runs again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [(), ("c",)], ids=["completed", "failed"])
def test_a_rerun_from_the_beginning_runs_every_step_and_is_linked_to_its_run(
    worker: InlineWorker, failing: tuple[str, ...]
) -> None:
    driver = worker.driver
    first = failed_run(worker, CHAIN, *failing, input={"n": 1})
    second = ran_again(worker, first, by="ops")
    row = driver.run(second)
    assert called(worker) == {"a": 1, "b": 1, "c": 1}
    assert (row.status, row.rerun_of, row.rerun_from, row.input) == ("completed", first, None, {"n": 1})
    assert triggered_by.of_row(row) == TriggeredBy("rerun", ids.show(ids.RUN, first), "ops")
    (event,) = driver.events(second, "run.created")
    assert event.data["rerunOf"] == ids.show(ids.RUN, first)


@pytest.mark.parametrize("begin", ["a", "b", "c", "d"])
def test_a_rerun_from_a_step_runs_it_and_what_is_behind_it(worker: InlineWorker, begin: str) -> None:
    driver = worker.driver
    first = completed_run(worker, DIAMOND)
    again = ran_again(worker, first, begin)
    behind = {"a": {"a", "b", "c", "d"}, "b": {"b", "d"}, "c": {"c", "d"}, "d": {"d"}}[begin]
    assert called(worker) == dict.fromkeys(behind, 1)
    assert driver.run(again).status == "completed"
    old = {row.step_id: row for row in driver.task_runs(first)}
    for row in driver.task_runs(again):
        was_reused = row.step_id not in behind
        assert row.status == "completed"
        assert (row.started_at is None) == was_reused
        assert row.cached_from == (old[row.step_id].id if was_reused else None)
        assert (row.output, row.output_hash) == (old[row.step_id].output, old[row.step_id].output_hash)


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_a_failed_step_runs_again_and_steps_that_did_not_need_it_are_reused(
    worker: InlineWorker, mode: str
) -> None:
    first = failed_run(worker, DIAMOND, "b", failureMode=mode)
    again = ran_again(worker, first, "b")
    assert worker.driver.run(again).status == "completed"
    assert called(worker)["b"] == called(worker)["d"] == 1
    assert "a" not in called(worker)


def test_what_ran_over_a_failure_runs_again_with_it(worker: InlineWorker) -> None:
    needs = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}
    first = failed_run(worker, needs, "b", failureMode=PARTIAL_MERGE)
    assert worker.driver.statuses(first)["c"] == "completed", "over the failure of b"
    ran_again(worker, first, "d")
    assert called(worker) == {"b": 1, "c": 1, "d": 1}


def test_a_cancelled_run_goes_on_where_it_was(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store(CHAIN)
    first = driver.trigger()
    worker.consume_all(1)
    with driver.database.transaction() as tx:
        if not driver.run(first).finished_at:
            triggering.cancel(tx, driver.tenant, first)
    reached = [step for step, status in driver.statuses(first).items() if status == "completed"]
    begin = next((each for each in CHAIN if each not in reached), "c")
    again = ran_again(worker, first, begin)
    assert driver.run(again).status == "completed"
    assert called(worker).keys().isdisjoint(set(reached) - {begin})


def test_the_choices_of_reused_steps_hold(worker: InlineWorker) -> None:
    worker.chooses = {"a": ["b"]}
    needs = {"a": [], "b": ["a"], "x": ["a"], "end": ["b", "x"]}
    first = completed_run(worker, needs)
    again = ran_again(worker, first, "b")
    assert worker.driver.statuses(again) == worker.driver.statuses(first)
    assert called(worker) == {"b": 1, "end": 1}
    with pytest.raises(Conflict, match="skipped again") as refused:
        rerun(worker.driver, first, "x")
    assert refused.value.errors[0].field == "fromStep"


@pytest.mark.parametrize("count", [0, 3, 20])
def test_a_map_is_reused_as_a_whole(worker: InlineWorker, count: int) -> None:
    driver = worker.driver
    first = completed_run(worker, MAP, maps={"m": "${input}"}, input=list(range(count)))
    again = ran_again(worker, first, "after")
    assert called(worker) == {"after": 1}
    rows = [row for row in driver.task_runs(again) if row.kind == "item"]
    old = [row for row in driver.task_runs(first) if row.kind == "item"]
    assert [(row.map_index, row.item, row.output) for row in rows] == [
        (row.map_index, row.item, row.output) for row in old
    ]
    assert [row.cached_from for row in rows] == [row.id for row in old]
    assert driver.run(again).status == "completed"
    third = ran_again(worker, again, "after")
    items = [row for row in driver.task_runs(third) if row.kind == "item"]
    assert [row.cached_from for row in items] == [row.id for row in old], "the first run made the results"


def test_a_map_with_a_failed_item_runs_again_as_a_whole(worker: InlineWorker) -> None:
    first = failed_run(
        worker, MAP, ("m", 1), maps={"m": "${input}"}, input=[1, 2, 3], failureMode=PARTIAL_MERGE
    )
    assert worker.driver.run(first).status == "partial"
    again = ran_again(worker, first, "after")
    assert called(worker) == {"m": 3, "after": 1}
    assert worker.driver.run(again).status == "completed"


@pytest.mark.parametrize("begin", ["w0", "join"])
@pytest.mark.parametrize("task", ["noop", "limited"])
def test_wide_joins_count_what_runs_again(worker: InlineWorker, begin: str, task: str) -> None:
    wide = [f"w{number}" for number in range(12)]
    needs: dict[str, list[str]] = {"a": [], **{each: ["a"] for each in wide}, "join": wide}
    first = completed_run(worker, needs, tasks=dict.fromkeys(wide, task))
    again = ran_again(worker, first, begin)
    assert called(worker) == dict.fromkeys({begin, "join"}, 1)
    assert worker.driver.run(again).status == "completed"


def test_an_irregular_join_counts_what_runs_again(worker: InlineWorker) -> None:
    wide = [f"w{number}" for number in range(10)]
    needs: dict[str, list[str]] = {each: [] for each in wide}
    needs |= {"x": ["w1"], "join": [*wide, "x"]}
    first = failed_run(worker, needs, "w1", failureMode=CONTINUE)
    again = ran_again(worker, first, "w1")
    assert called(worker) == {"w1": 1, "x": 1, "join": 1}
    assert worker.driver.run(again).status == "completed"


# --- input and version ------------------------------------------------------------------------------------


def test_another_input_is_that_of_the_steps_that_run(worker: InlineWorker) -> None:
    driver = worker.driver
    first = completed_run(worker, CHAIN, input={"n": 1})
    again = ran_again(worker, first, edited=Edited({"n": 2}))
    assert (driver.run(again).input, driver.run(again).edits) == ({"n": 2}, None)
    same = ran_again(worker, first, "c", edited=Edited({"n": 1}))
    assert called(worker) == {"c": 1}
    assert (driver.run(same).status, driver.run(same).edits) == ("completed", None)


def test_a_large_input_is_used_again_where_it_is(worker: InlineWorker) -> None:
    driver = worker.driver
    first = completed_run(worker, MAP, maps={"m": "${input}"}, input=["x" * 9_000] * 9)
    assert driver.run(first).input_path
    again = ran_again(worker, first)
    assert driver.run(again).input_path == driver.run(first).input_path
    assert called(worker) == {"m": 9, "after": 1}


def test_another_version_must_have_the_steps_that_are_reused(worker: InlineWorker) -> None:
    driver = worker.driver
    first = completed_run(worker, CHAIN)
    driver.store({**CHAIN, "d": ["c"]})
    newer = ran_again(worker, first, "c", version=LATEST)
    assert called(worker) == {"c": 1, "d": 1}
    assert (driver.run(newer).pipeline_version, driver.run(newer).status) == (2, "completed")
    older = ran_again(worker, newer, "b", version=1)
    assert (driver.run(older).pipeline_version, called(worker)) == (1, {"b": 1, "c": 1})

    driver.store({"a": [], "b": [], "c": ["b"]})
    with pytest.raises(Conflict, match="version 3 has changed steps whose results would be reused: 'b'"):
        rerun(driver, first, "c", version=LATEST)
    assert ran_again(worker, first, version=LATEST)
    with pytest.raises(InvalidInput, match="has no step 'd'"):
        rerun(driver, first, "d")
    with pytest.raises(NotFound):
        rerun(driver, first, version=9)


# --- refused, repeated, at once ---------------------------------------------------------------------------


def test_only_a_run_that_has_ended_runs_again(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store(CHAIN)
    run_id = driver.trigger()
    for begin in (None, "b"):
        with pytest.raises(Conflict, match="is running"):
            rerun(driver, run_id, begin)
    with pytest.raises(NotFound):
        rerun(driver, ids.new_id())
    other = RunDriver(driver.database)
    with pytest.raises(NotFound):
        rerun(other, run_id)


def test_a_token_names_one_rerun(worker: InlineWorker) -> None:
    driver = worker.driver
    first = completed_run(worker, CHAIN, input={"n": 1})
    calls = call_concurrently(*[lambda: rerun(driver, first, "c", run_token="t")] * 3)
    made = [each.result for each in calls]
    assert len({each.id for each in made}) == 1
    assert sorted(each.created for each in made) == [False, False, True]
    assert {each.reused for each in made} == {("a", "b")}
    other = completed_run(worker, CHAIN, input={"n": 1})
    ids_of_others = {
        rerun(driver, other, "c", run_token="t").id,
        rerun(driver, first, "b", run_token="t").id,
        driver.trigger(input={"n": 1}, run_token="t"),
        made[0].id,
    }
    assert len(ids_of_others) == 4, "another run, step or kind of request has its own"


def test_a_rerun_that_cannot_be_written_leaves_nothing(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = worker.driver
    first = completed_run(worker, MAP, maps={"m": "${input}"}, input=[1, 2, 3])
    before = driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :t", t=driver.tenant)

    def die(*_: Any) -> None:
        raise RuntimeError("the process dies here")

    monkeypatch.setattr(rerunning.creation.reusing, "_take_steps", die)
    with pytest.raises(RuntimeError):
        rerun(driver, first, "after", run_token="t")
    assert driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :t", t=driver.tenant) == before
    monkeypatch.undo()
    made = rerun(driver, first, "after", run_token="t")
    assert made.created


def test_a_run_that_a_dead_letter_continues_meanwhile_is_not_reused(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = worker.driver
    first = failed_run(worker, DIAMOND, "b", failureMode=CONTINUE)
    (letter,) = letters(driver, first)
    write = rerunning.creation.write

    def retried_before(*args: Any) -> Any:
        retry(driver, letter)
        return write(*args)

    monkeypatch.setattr(rerunning.creation, "write", retried_before)
    with pytest.raises(Conflict, match="was continued or deleted"):
        rerun(driver, first, "b")
    assert driver.run(first).status == "running"


def test_a_rerun_waits_for_a_run_slot_like_any_run(worker: InlineWorker) -> None:
    driver = worker.driver
    first = completed_run(worker, DIAMOND)
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    other = driver.trigger()
    waiting = rerun(driver, first, "d")
    assert (waiting.status, waiting.reused) == ("pending", ("a", "b", "c"))
    drop_history(driver, first)
    worker.calls.clear()
    worker.consume_all()
    admission.admit_waiting(driver.database)
    worker.consume_all()
    assert driver.run(other).status == driver.run(waiting.id).status == "completed"
    assert called(worker) == {"a": 1, "b": 1, "c": 1, "d": 2}
    assert differences(driver, waiting.id) == []


# --- any run ----------------------------------------------------------------------------------------------

_TASKS = {"act": "noop", "act_limited": "limited"}


@pytest.mark.parametrize("seed", range(25))
def test_any_rerun_ends_as_a_run_from_the_beginning_would(worker: InlineWorker, seed: int) -> None:
    chance = random.Random(seed)
    document, wishes = random_graph(chance, f"graph-{seed}")
    mode = chance.choice(FAILURE_MODES)
    steps = {step["id"]: step for step in document["steps"]}
    driver = worker.driver
    driver.store(
        {id: step["needs"] for id, step in steps.items()},
        id=document["id"],
        tasks={id: _TASKS[step["task"]] for id, step in steps.items()},
        maps={id: step["map"]["over"] for id, step in steps.items() if "map" in step},
    )
    worker.chance, worker.chooses = chance, wishes["choose"]
    for step, items in wishes["fail"].items():
        worker.fails |= failing(*((step, each) for each in items)) if "map" in steps[step] else failing(step)
    first = driver.trigger(document["id"], wishes, failure_mode=mode)
    worker.consume_all(chance.choice([2, 10, 1_000]))
    if driver.run(first).status == "running":
        with driver.database.transaction() as tx:
            triggering.cancel(tx, driver.tenant, first)
        worker.waiting.clear()
    worker.fails.clear()
    worker.calls.clear()
    try:
        made = rerun(driver, first, chance.choice(list(steps)))
    except Conflict as error:
        assert "skipped again" in str(error)
        return
    worker.consume_all()
    expected = reference(document, {**wishes, "fail": {}}, mode)
    assert driver.statuses(made.id) == expected.statuses
    assert driver.run(made.id).status == "completed"
    assert differences(driver, made.id) == []
    ran = {step: number for step, number in expected.calls.items() if step not in made.reused}
    assert called(worker) == {step: number for step, number in ran.items() if number}
