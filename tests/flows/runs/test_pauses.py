"""Pauses, rates and lines of runs with a real worker, and no beat: nothing here waits for the tick."""

from __future__ import annotations

import itertools
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import LiveStack

from pipeweave.orchestrator.queueing import limits, pauses
from pipeweave.orchestrator.registry.task_rows import queue_name
from pipeweave.orchestrator.runs import admission, pausing


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    """One worker of two children."""
    empty_stack.start_worker("steps.py", concurrency=2)
    return empty_stack


def pause(stack: LiveStack, task: str | None) -> None:
    stack.deployment.database.run(lambda tx: pauses.pause(tx, stack.settings.tenant, task))


def resume(stack: LiveStack, task: str | None) -> None:
    stack.deployment.database.run(lambda tx: pauses.resume(tx, stack.settings.tenant, task))


def quiet(stack: LiveStack) -> None:
    """Wait until nothing runs and no message is left."""
    running = "SELECT 1 FROM task_runs WHERE status = 'running'"
    stack.until(lambda: not stack.rows(running), "something runs")
    queue = queue_name(stack.settings.tenant, "python")
    stack.until(lambda: stack.deployment.publisher.depth(queue) == 0, "messages are left")


def called(stack: LiveStack, runs: list[UUID]) -> int:
    return sum(len(stack.calls(run_id)) for run_id in runs)


@pytest.mark.parametrize("task", ["nap", None], ids=["task", "tenant"])
def test_in_the_middle_of_a_map_nothing_more_starts_until_it_is_resumed(
    stack: LiveStack, task: str | None
) -> None:
    stack.store(
        {
            "id": "napping",
            "steps": [
                {"id": "m", "task": "nap", "needs": [], "map": {"over": "${input.list}"}},
                {"id": "z", "task": "noop", "needs": ["m"]},
            ],
        }
    )
    run_id = stack.trigger("napping", {"list": list(range(120))})
    stack.until(lambda: len(stack.calls(run_id)) > 5, "the map does not run")
    pause(stack, task)
    quiet(stack)
    before = len(stack.calls(run_id))
    assert before < 100
    held = [row.status for row in stack.items(run_id, "m")]
    assert held.count("ready") == 120 - before
    resume(stack, task)
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id) == {"m": 120, "z": 1}


def test_a_run_is_paused_in_the_middle_of_its_map_and_others_go_on(stack: LiveStack) -> None:
    stack.store(
        {
            "id": "napping-run",
            "steps": [
                {"id": "m", "task": "nap", "needs": [], "map": {"over": "${input.list}"}},
                {"id": "z", "task": "noop", "needs": ["m"]},
            ],
        }
    )
    run_id = stack.trigger("napping-run", {"list": list(range(120))})
    stack.until(lambda: len(stack.calls(run_id)) > 5, "the map does not run")
    database, tenant = stack.deployment.database, stack.settings.tenant
    assert database.run(lambda tx: pausing.pause(tx, tenant, run_id))
    other = stack.trigger("napping-run", {"list": [1]})
    assert stack.finished(other).status == "completed"
    quiet(stack)
    before = len(stack.calls(run_id))
    assert before < 100
    assert [row.status for row in stack.items(run_id, "m")].count("ready") == 120 - before
    assert database.run(lambda tx: pausing.resume(tx, tenant, run_id))
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id) == {"m": 120, "z": 1}


def test_a_chain_stops_between_two_steps_and_goes_on(stack: LiveStack, gate: Path) -> None:
    chain = [{"id": "first", "task": "hold", "needs": []}, {"id": "then", "task": "noop", "needs": ["first"]}]
    stack.store({"id": "held-chain", "steps": chain})
    run_id = stack.trigger("held-chain", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the first step does not run")
    pause(stack, "noop")
    gate.touch()
    stack.until(lambda: stack.statuses(run_id)["first"] == "completed", "the first step did not end")
    quiet(stack)
    assert stack.statuses(run_id)["then"] == "ready"
    resume(stack, "noop")
    assert stack.finished(run_id).status == "completed"


def test_a_rate_holds_over_the_children_of_a_worker(stack: LiveStack) -> None:
    stack.store({"id": "rated", "steps": [{"id": "only", "task": "rated"}]})
    runs = [stack.trigger("rated") for _ in range(14)]
    stack.until(lambda: called(stack, runs) >= 4, "the burst did not start")

    def over() -> bool:
        limits.fill_waiting(stack.deployment.database)  # what beat does each second
        return called(stack, runs) == 14

    stack.until(over, "the rate lets too little go")
    starts = sorted(stack.calls(run_id)[0].began for run_id in runs)
    # 4 in a second: a burst of 4 and then one each 250 ms. A worker that was late may seem to be quicker.
    assert all(later - first >= 0.5 for first, later in zip(starts, starts[8:], strict=False))
    assert starts[-1] - starts[0] >= 1.5


def test_a_line_of_runs_goes_one_after_the_other(stack: LiveStack, gate: Path) -> None:
    tenant = stack.settings.tenant
    first = {"id": "a", "task": "hold", "needs": [], "params": {"path": "${input.path}"}}
    stack.store({"id": "lined", "steps": [first, {"id": "b", "task": "nap_once", "needs": ["a"]}]})
    stack.deployment.database.run(lambda tx: admission.set_limit(tx, tenant, 1))
    try:
        runs = [stack.trigger("lined", {"path": str(gate)}) for _ in range(5)]
        assert [stack.run(run_id).status for run_id in runs[1:]] == ["pending"] * 4
        gate.touch()
        assert {stack.finished(run_id).status for run_id in runs} == {"completed"}
    finally:
        stack.deployment.database.run(lambda tx: admission.set_limit(tx, tenant, None))
    calls = [stack.calls(run_id) for run_id in runs]
    for before, after in itertools.pairwise(calls):
        assert max(call.ended for call in before) <= min(call.began for call in after)


def test_pausing_a_long_queue_takes_it_back_at_once(stack: LiveStack, gate: Path) -> None:
    stack.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    for _ in range(2):
        stack.trigger("held-chain", {"path": str(gate)})
    stack.until(lambda: len(stack.rows(_BUSY)) == 2, "the children are not busy")
    runs = [stack.trigger("quick") for _ in range(60)]
    pause(stack, "noop")
    assert {stack.statuses(run_id)["only"] for run_id in runs} == {"ready"}
    gate.touch()
    quiet(stack)
    assert called(stack, runs) == 0
    resume(stack, "noop")
    assert {stack.finished(run_id).status for run_id in runs} == {"completed"}
    assert called(stack, runs) == 60


_BUSY = "SELECT 1 FROM task_runs WHERE status = 'running' AND task_id = 'hold'"
