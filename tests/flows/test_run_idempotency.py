"""Idempotency keys with real workers: whatever happens, what answers for a key was done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import Stage

from pipeweave import ids
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import Trigger

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def stage(empty_stage: Stage) -> Stage:
    """Two workers of two children each. There is no beat: nothing waits for a tick."""
    empty_stage.start_worker("keyed.py", concurrency=2)
    empty_stage.start_worker("keyed.py", concurrency=2)
    return empty_stage


def then_noop(task: str, **step: Any) -> Mapping[str, Any]:
    """A step of this task, and one that follows it."""
    steps = [{"id": "only", "task": task, **step}, {"id": "after", "task": "noop", "needs": ["only"]}]
    return {"id": f"then-{task}", "steps": steps}


def trigger_all(stage: Stage, pipeline_id: str, inputs: list[Any]) -> list[UUID]:
    """Trigger runs in one transaction: their messages leave together."""
    wishes = [Trigger(pipeline_id, each) for each in inputs]
    with stage.deployment.database.transaction() as tx:
        return [each.id for each in triggering.trigger_many(tx, stage.settings.tenant, pipeline_id, wishes)]


def test_a_hundred_runs_with_ten_keys_execute_ten_times(stage: Stage) -> None:
    stage.store(then_noop("charge"))
    found = trigger_all(stage, "then-charge", [{"order": n % 10} for n in range(100)])
    finished = [stage.finished(run_id) for run_id in found]
    assert {run.status for run in finished} == {"completed"}
    called = [run_id for run_id in found if stage.called(run_id)["only"]]
    assert sorted(stage.run(run_id).input["order"] for run_id in called) == list(range(10))
    assert all(stage.called(run_id)["after"] == 1 for run_id in found)
    outputs: dict[int, set[str]] = {}
    for run_id in found:
        step = stage.steps(run_id)["only"]
        assert (step.attempt, step.idempotency_key) == (1, f"order-{step.output['order']}")
        assert (step.cached_from is None) == (run_id in called)
        outputs.setdefault(step.output["order"], set()).add(step.output["by"])
    assert [len(each) for each in outputs.values()] == [1] * 10


def test_of_the_items_of_a_map_those_with_equal_keys_execute_once(stage: Stage) -> None:
    stage.store(then_noop("item", map={"over": "${input.list}", "as": "number"}))
    run_id = stage.trigger("then-item", {"list": list(range(400))})
    assert stage.finished(run_id).status == "completed"
    items = stage.items(run_id, "only")
    assert [row.output for row in items] == [n % 10 for n in range(400)]
    assert sorted(call.map_index % 10 for call in stage.calls(run_id) if call.step_id == "only") == list(
        range(10)
    )
    assert Counter(row.cached_from is None for row in items) == {True: 10, False: 390}
    assert stage.attempts(run_id) == []


def test_a_failure_answers_for_nobody_and_the_next_one_executes(stage: Stage, gate: Path) -> None:
    stage.store(then_noop("failing"))
    wish = {"order": "f", "gate": str(gate)}
    first = stage.trigger("then-failing", wish)
    stage.until(Path(f"{gate}.held").exists, "the step is not held")
    others = trigger_all(stage, "then-failing", [wish] * 3)
    stage.until(
        lambda: {stage.steps(each)["only"].status for each in others} == {"pending"}, "they do not wait"
    )
    gate.touch()
    assert stage.finished(first).status == "failed"
    assert {stage.finished(each).status for each in others} == {"completed"}
    [second] = {stage.steps(each)["only"].output for each in others}
    assert [ids.show(ids.RUN, each) for each in others if stage.called(each)["only"]] == [second]


@pytest.mark.parametrize("wish", [{}, {"wrong": "", "length": 0}, {"wrong": "k" * 600, "length": 600}])
def test_a_key_that_is_none_fails_the_attempt_and_nothing_is_called(stage: Stage, wish: Any) -> None:
    run = stage.ran(then_noop("wrong"), wish)
    assert run.status == "failed"
    step = stage.steps(run.id)["only"]
    assert (step.error_code, step.attempt) == ("INVALID_IDEMPOTENCY_KEY", 1)
    assert stage.called(run.id) == {}
    assert len(stage.dead_letters(run.id)) == 1


def test_a_holder_that_is_killed_is_tried_again_while_the_others_wait(fragile: Stage, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    doomed = fragile.start_worker("keyed.py", concurrency=1)
    fragile.store(then_noop("held"))
    wish = {"order": "o", "gate": str(gate)}
    first = fragile.trigger("then-held", wish)
    fragile.until(Path(f"{gate}.held").exists, "the step is not held")
    fragile.start_worker("keyed.py", concurrency=2)
    others = trigger_all(fragile, "then-held", [wish] * 3)
    fragile.until(
        lambda: {fragile.steps(each)["only"].status for each in others} == {"pending"}, "they do not wait"
    )
    fragile.kill(doomed)
    assert {fragile.finished(each).status for each in (first, *others)} == {"completed"}
    assert {fragile.steps(each)["only"].output for each in (first, *others)} == {2}
    assert [fragile.called(each)["only"] for each in (first, *others)] == [2, 0, 0, 0]
    assert {fragile.steps(each)["only"].cached_from for each in others} == {fragile.steps(first)["only"].id}
    [attempt] = fragile.attempts(first)
    assert (attempt.number, attempt.status) == (1, "lost")
    assert [fragile.attempts(each) for each in others] == [[], [], []]


def test_a_waiter_whose_holder_was_cancelled_executes(stage: Stage, gate: Path) -> None:
    stage.store(then_noop("held"))
    wish = {"order": "c", "gate": str(gate)}
    first = stage.trigger("then-held", wish)
    stage.until(Path(f"{gate}.held").exists, "the step is not held")
    second = stage.trigger("then-held", wish)
    stage.until(lambda: stage.steps(second)["only"].status == "pending", "it does not wait")
    stage.cancel(first)
    stage.until(lambda: bool(stage.called(second)), "it was not called")
    gate.touch()
    assert stage.finished(second).status == "completed"
    assert stage.steps(second)["only"].cached_from is None
