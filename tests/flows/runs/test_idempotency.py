"""Idempotency keys with real workers: whatever happens, what answers for a key was done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import LiveStack
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    """Two workers of two children each. There is no beat: nothing waits for a tick."""
    empty_stack.start_worker("keyed.py", concurrency=2)
    empty_stack.start_worker("keyed.py", concurrency=2)
    return empty_stack


def then_noop(task: str, **step: Any) -> Mapping[str, Any]:
    """A step of this task, and one that follows it."""
    steps = [{"id": "only", "task": task, **step}, {"id": "after", "task": "noop", "needs": ["only"]}]
    return {"id": f"then-{task}", "steps": steps}


def trigger_all(stack: LiveStack, pipeline_id: str, inputs: list[Any]) -> list[UUID]:
    """Trigger runs in one transaction: their messages leave together."""
    wishes = [StartRequest(pipeline_id, each) for each in inputs]
    with stack.deployment.database.transaction() as tx:
        return [
            each.id
            for each in triggering.trigger_many(tx, VALUES, stack.settings.tenant, pipeline_id, wishes)
        ]


def test_a_hundred_runs_with_ten_keys_execute_ten_times(stack: LiveStack) -> None:
    stack.store(then_noop("charge"))
    found = trigger_all(stack, "then-charge", [{"order": n % 10} for n in range(100)])
    finished = [stack.finished(run_id) for run_id in found]
    assert {run.status for run in finished} == {"completed"}
    called = [run_id for run_id in found if stack.called(run_id)["only"]]
    assert sorted(stack.run(run_id).input["order"] for run_id in called) == list(range(10))
    assert all(stack.called(run_id)["after"] == 1 for run_id in found)
    outputs: dict[int, set[str]] = {}
    for run_id in found:
        step = stack.steps(run_id)["only"]
        assert (step.attempt, step.idempotency_key) == (1, f"order-{step.output['order']}")
        assert (step.cached_from is None) == (run_id in called)
        outputs.setdefault(step.output["order"], set()).add(step.output["by"])
    assert [len(each) for each in outputs.values()] == [1] * 10


def test_where_inputs_are_the_key_another_run_with_the_same_parameters_takes_the_result(
    stack: LiveStack,
) -> None:
    """Members of the run's input that the function does not take are no part of the key."""
    stack.store(then_noop("priced"))
    inputs = [{"sku": "a", "order": 1}, {"sku": "a", "order": 2}, {"sku": "b", "order": 3}]
    steps = []
    for each in inputs:
        run_id = stack.trigger("then-priced", each)
        assert stack.finished(run_id).status == "completed"
        steps.append(stack.steps(run_id)["only"])
    first, second, other = steps
    assert (second.output, second.cached_from) == (first.output, first.id)
    assert (first.cached_from, other.cached_from) == (None, None)
    assert other.output.startswith("b at ")


def test_items_of_a_map_with_equal_keys_execute_once(stack: LiveStack) -> None:
    stack.store(then_noop("item", map={"over": "${input.list}", "as": "number"}))
    run_id = stack.trigger("then-item", {"list": list(range(400))})
    assert stack.finished(run_id).status == "completed"
    items = stack.items(run_id, "only")
    assert [row.output for row in items] == [n % 10 for n in range(400)]
    assert sorted(call.map_index % 10 for call in stack.calls(run_id) if call.step_id == "only") == list(
        range(10)
    )
    assert Counter(row.cached_from is None for row in items) == {True: 10, False: 390}
    assert stack.attempts(run_id) == []


def test_a_failure_is_not_reused_and_the_next_task_run_executes(stack: LiveStack, gate: Path) -> None:
    stack.store(then_noop("failing"))
    wish = {"order": "f", "gate": str(gate)}
    first = stack.trigger("then-failing", wish)
    stack.until(Path(f"{gate}.held").exists, "the step is not held")
    others = trigger_all(stack, "then-failing", [wish] * 3)
    stack.until(
        lambda: {stack.steps(each)["only"].status for each in others} == {"pending"}, "they do not wait"
    )
    gate.touch()
    assert stack.finished(first).status == "failed"
    assert {stack.finished(each).status for each in others} == {"completed"}
    [second] = {stack.steps(each)["only"].output for each in others}
    assert [ids.show(ids.RUN, each) for each in others if stack.called(each)["only"]] == [second]


@pytest.mark.parametrize("input", [{}, {"wrong": "", "length": 0}, {"wrong": "k" * 600, "length": 600}])
def test_a_key_that_is_none_fails_the_attempt_and_nothing_is_called(stack: LiveStack, input: Any) -> None:
    run = stack.ran(then_noop("wrong"), input)
    assert run.status == "failed"
    step = stack.steps(run.id)["only"]
    assert (step.error_code, step.attempt) == ("INVALID_IDEMPOTENCY_KEY", 1)
    assert stack.called(run.id) == {}
    assert len(stack.dead_letters(run.id)) == 1


def test_a_holder_that_is_killed_is_tried_again_while_the_others_wait(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    doomed = stack_with_beat.start_worker("keyed.py", concurrency=1)
    stack_with_beat.store(then_noop("held"))
    wish = {"order": "o", "gate": str(gate)}
    first = stack_with_beat.trigger("then-held", wish)
    stack_with_beat.until(Path(f"{gate}.held").exists, "the step is not held")
    stack_with_beat.start_worker("keyed.py", concurrency=2)
    others = trigger_all(stack_with_beat, "then-held", [wish] * 3)
    stack_with_beat.until(
        lambda: {stack_with_beat.steps(each)["only"].status for each in others} == {"pending"},
        "they do not wait",
    )
    stack_with_beat.kill(doomed)
    assert {stack_with_beat.finished(each).status for each in (first, *others)} == {"completed"}
    assert {stack_with_beat.steps(each)["only"].output for each in (first, *others)} == {2}
    assert [stack_with_beat.called(each)["only"] for each in (first, *others)] == [2, 0, 0, 0]
    assert {stack_with_beat.steps(each)["only"].cached_from for each in others} == {
        stack_with_beat.steps(first)["only"].id
    }
    [attempt] = stack_with_beat.attempts(first)
    assert (attempt.number, attempt.status) == (1, "lost")
    assert [stack_with_beat.attempts(each) for each in others] == [[], [], []]


def test_a_waiter_whose_holder_was_cancelled_executes(stack: LiveStack, gate: Path) -> None:
    stack.store(then_noop("held"))
    wish = {"order": "c", "gate": str(gate)}
    first = stack.trigger("then-held", wish)
    stack.until(Path(f"{gate}.held").exists, "the step is not held")
    second = stack.trigger("then-held", wish)
    stack.until(lambda: stack.steps(second)["only"].status == "pending", "it does not wait")
    stack.cancel(first)
    stack.until(lambda: bool(stack.called(second)), "it was not called")
    gate.touch()
    assert stack.finished(second).status == "completed"
    assert stack.steps(second)["only"].cached_from is None
