"""Retrying items of maps and standalone tasks; any run goes on to the end it would have had."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from support.failed_runs import (
    MAP,
    called,
    differences,
    failed_run,
    letters,
    retry,
    still_open,
)
from support.inline_worker import InlineWorker, failing
from support.oracle import random_graph, reference
from support.run_driver import RunDriver

from pipeweave.spec.rules import CONTINUE, FAILURE_MODES

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


def test_a_map_beside_the_failure_goes_on_with_its_remaining_items(worker: InlineWorker) -> None:
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


# --- any run ----------------------------------------------------------------------------------------------


_TASKS = {"act": "noop", "act_limited": "limited"}


@pytest.mark.parametrize("seed", range(60))
def test_any_run_ends_after_retries_as_it_would_have_without_failures(driver: RunDriver, seed: int) -> None:
    """In whatever order dead letters are retried, at once or while others still run, fixed or not yet."""
    chance = random.Random(seed)
    document, wishes = random_graph(chance, f"graph-{seed}")
    mode = chance.choice(FAILURE_MODES)
    worker = InlineWorker(driver, chance=chance, chooses=wishes["choose"])
    steps = {step["id"]: step for step in document["steps"]}
    driver.store(
        {id: step["needs"] for id, step in steps.items()},
        id=document["id"],
        tasks={id: _TASKS[step["task"]] for id, step in steps.items()},
        maps={id: step["map"]["over"] for id, step in steps.items() if "map" in step},
    )
    broken = list(_broken(wishes, steps, chance))
    worker.fails = failing(*broken)
    run_id = driver.trigger(document["id"], wishes, failure_mode=mode)
    for _ in range(400):
        worker.consume_all(chance.choice([3, 10, 1_000]))
        found = still_open(driver, run_id)
        if not found and not worker.waiting:
            break
        if broken and chance.random() < 0.5:
            worker.fails.pop(broken.pop(chance.randrange(len(broken))))
        if chance.random() < 0.1:
            worker.forget_chords() if driver.run(run_id).status != "running" else None
        for letter in chance.sample(found, min(len(found), chance.randint(0, 2))):
            retry(driver, letter)
        if not worker.waiting:
            assert driver.run(run_id).status != "running", driver.statuses(run_id)

    expected = reference(document, {**wishes, "fail": {}}, CONTINUE)
    assert driver.statuses(run_id) == expected.statuses
    assert driver.run(run_id).status == "completed"
    assert differences(driver, run_id) == []
    retried = {(each.step_id, each.map_index) for each in letters(driver, run_id)}
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
