"""Many runs at once on several workers: nothing runs twice, and a killed worker is missed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.live_stack import Stage

pytestmark = pytest.mark.timeout(180)

DIAMOND = {
    "id": "diamond",
    "steps": [
        {"id": "a", "task": "noop", "needs": []},
        {"id": "b", "task": "noop", "needs": ["a"]},
        {"id": "c", "task": "noop", "needs": ["a"]},
        {"id": "d", "task": "noop", "needs": ["b", "c"]},
    ],
}


@pytest.fixture
def stage(fragile: Stage) -> Stage:
    """With two beats."""
    fragile.start_beat()
    return fragile


def test_a_hundred_runs_at_once_on_three_workers_run_every_step_once(stage: Stage) -> None:
    for _ in range(3):
        stage.start_worker("faulty.py", concurrency=2)
    stage.store(DIAMOND)
    with ThreadPoolExecutor(2) as clients:
        runs = list(clients.map(lambda _: stage.trigger("diamond"), range(100)))
    # Every message once more, so that there is something to run twice.
    stage.double_messages()
    for run_id in runs:
        assert stage.finished(run_id).status == "completed"
        assert stage.called(run_id) == {"a": 1, "b": 1, "c": 1, "d": 1}
        assert stage.attempts(run_id) == []


def test_what_a_killed_worker_ran_is_called_again_elsewhere_once(stage: Stage, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Path(f"{gate}.name").write_text("only")
    doomed = stage.start_worker("faulty.py", concurrency=1)
    stage.store({"id": "one", "steps": [{"id": "only", "task": "held_step"}]})
    run_id = stage.trigger("one", {"gate": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "the step is not held")
    stage.start_worker("faulty.py", concurrency=1)
    stage.kill(doomed)
    assert stage.finished(run_id).status == "completed"
    assert [call.seen for call in stage.calls(run_id)] == [1, 2]
    assert len({call.pid for call in stage.calls(run_id)}) == 2
