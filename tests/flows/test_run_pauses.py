"""Pauses, rates and lines of runs with a real worker, and no beat: nothing here waits for the tick."""

from __future__ import annotations

import itertools
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import Stage

from pipeweave.orchestrator.queueing import limits, pauses
from pipeweave.orchestrator.registry.task_rows import queue_name
from pipeweave.orchestrator.runs import admission

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def stage(empty_stage: Stage) -> Stage:
    """One worker of two children."""
    empty_stage.start_worker("steps.py", concurrency=2)
    return empty_stage


def pause(stage: Stage, task: str | None) -> None:
    stage.deployment.database.run(lambda tx: pauses.pause(tx, stage.settings.tenant, task))


def resume(stage: Stage, task: str | None) -> None:
    stage.deployment.database.run(lambda tx: pauses.resume(tx, stage.settings.tenant, task))


def quiet(stage: Stage) -> None:
    """Wait until nothing runs and no message is left."""
    running = "SELECT 1 FROM task_runs WHERE status = 'running'"
    stage.until(lambda: not stage.rows(running), "something runs")
    queue = queue_name(stage.settings.tenant, "python")
    stage.until(lambda: stage.deployment.canvas.depth(queue) == 0, "messages are left")


def called(stage: Stage, runs: list[UUID]) -> int:
    return sum(len(stage.calls(run_id)) for run_id in runs)


@pytest.mark.parametrize("task", ["nap", None], ids=["task", "tenant"])
def test_in_the_middle_of_a_map_nothing_more_starts_until_it_is_resumed(
    stage: Stage, task: str | None
) -> None:
    stage.store(
        {
            "id": "napping",
            "steps": [
                {"id": "m", "task": "nap", "needs": [], "map": {"over": "${input.list}"}},
                {"id": "z", "task": "noop", "needs": ["m"]},
            ],
        }
    )
    run_id = stage.trigger("napping", {"list": list(range(120))})
    stage.until(lambda: len(stage.calls(run_id)) > 5, "the map does not run")
    pause(stage, task)
    quiet(stage)
    before = len(stage.calls(run_id))
    assert before < 100
    held = [row.status for row in stage.items(run_id, "m")]
    assert held.count("ready") == 120 - before
    resume(stage, task)
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id) == {"m": 120, "z": 1}


def test_a_chain_stops_between_two_steps_and_goes_on(stage: Stage, gate: Path) -> None:
    chain = [{"id": "first", "task": "hold", "needs": []}, {"id": "then", "task": "noop", "needs": ["first"]}]
    stage.store({"id": "held-chain", "steps": chain})
    run_id = stage.trigger("held-chain", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "the first step does not run")
    pause(stage, "noop")
    gate.touch()
    stage.until(lambda: stage.statuses(run_id)["first"] == "completed", "the first step did not end")
    quiet(stage)
    assert stage.statuses(run_id)["then"] == "ready"
    resume(stage, "noop")
    assert stage.finished(run_id).status == "completed"


def test_a_rate_holds_over_the_children_of_a_worker(stage: Stage) -> None:
    stage.store({"id": "rated", "steps": [{"id": "only", "task": "rated"}]})
    runs = [stage.trigger("rated") for _ in range(14)]
    stage.until(lambda: called(stage, runs) == 4, "the burst did not start")

    def over() -> bool:
        limits.fill_waiting(stage.deployment.database)  # what beat does each second
        return called(stage, runs) == 14

    stage.until(over, "the rate lets too little go")
    starts = sorted(stage.calls(run_id)[0].began for run_id in runs)
    # 4 in a second: a burst of 4 and then one each 250 ms. A worker that was late may seem to be quicker.
    assert all(later - first >= 0.5 for first, later in zip(starts, starts[8:], strict=False))
    assert starts[-1] - starts[0] >= 1.5


def test_a_line_of_runs_goes_one_after_the_other(stage: Stage) -> None:
    tenant = stage.settings.tenant
    steps = [{"id": "a", "task": "nap_once", "needs": []}, {"id": "b", "task": "nap_once", "needs": ["a"]}]
    stage.store({"id": "lined", "steps": steps})
    stage.deployment.database.run(lambda tx: admission.set_limit(tx, tenant, 1))
    try:
        runs = [stage.trigger("lined") for _ in range(5)]
        assert [stage.run(run_id).status for run_id in runs[1:]] == ["pending"] * 4
        assert {stage.finished(run_id).status for run_id in runs} == {"completed"}
    finally:
        stage.deployment.database.run(lambda tx: admission.set_limit(tx, tenant, None))
    calls = [stage.calls(run_id) for run_id in runs]
    for before, after in itertools.pairwise(calls):
        assert max(call.ended for call in before) <= min(call.began for call in after)


def test_pausing_a_long_queue_takes_it_back_at_once(stage: Stage, gate: Path) -> None:
    stage.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    for _ in range(2):
        stage.trigger("held-chain", {"path": str(gate)})
    stage.until(lambda: len(stage.rows(_BUSY)) == 2, "the children are not busy")
    runs = [stage.trigger("quick") for _ in range(60)]
    pause(stage, "noop")
    assert {stage.statuses(run_id)["only"] for run_id in runs} == {"ready"}
    gate.touch()
    quiet(stage)
    assert called(stage, runs) == 0
    resume(stage, "noop")
    assert {stage.finished(run_id).status for run_id in runs} == {"completed"}
    assert called(stage, runs) == 60


_BUSY = "SELECT 1 FROM task_runs WHERE status = 'running' AND task_id = 'hold'"
