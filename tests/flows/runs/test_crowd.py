"""Many runs at once on several workers: nothing runs twice, and a killed worker is missed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.live_stack import LiveStack

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
def stack(stack_with_beat: LiveStack) -> LiveStack:
    """With two beats."""
    stack_with_beat.start_beat()
    return stack_with_beat


def test_a_hundred_runs_at_once_on_three_workers_run_every_step_once(stack: LiveStack) -> None:
    for _ in range(3):
        stack.start_worker("faulty.py", concurrency=2)
    stack.store(DIAMOND)
    with ThreadPoolExecutor(2) as clients:
        runs = list(clients.map(lambda _: stack.trigger("diamond"), range(100)))
    # Every message once more, so that there is something to run twice.
    stack.double_messages()
    for run_id in runs:
        assert stack.finished(run_id).status == "completed"
        assert stack.called(run_id) == {"a": 1, "b": 1, "c": 1, "d": 1}
        assert stack.attempts(run_id) == []


def test_the_call_of_a_killed_worker_is_repeated_once_on_another_worker(
    stack: LiveStack, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    Path(f"{gate}.name").write_text("only")
    doomed = stack.start_worker("faulty.py", concurrency=1)
    stack.store({"id": "one", "steps": [{"id": "only", "task": "held_step"}]})
    run_id = stack.trigger("one", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the step is not held")
    stack.start_worker("faulty.py", concurrency=1)
    stack.kill(doomed)
    assert stack.finished(run_id).status == "completed"
    assert [call.seen for call in stack.calls(run_id)] == [1, 2]
    assert len({call.pid for call in stack.calls(run_id)}) == 2
