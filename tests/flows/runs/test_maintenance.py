"""A deployment asked for maintenance works off what is open, comes to rest by itself, and starts anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_stack import TASKS, StackFolder
from support.live_stack import LiveStack

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.state.deployment_mode import MAINTENANCE, RUNNING, WAITING
from pipeweave.settings import environment

STEPS = {
    "id": "drained",
    "steps": [
        {"id": "first", "task": "hold", "needs": []},
        {"id": "each", "task": "double", "needs": ["first"], "map": {"over": "${input.list}"}},
        {"id": "last", "task": "noop", "needs": ["each"]},
    ],
}


@pytest.fixture(scope="module")
def stack(own_stack: LiveStack) -> LiveStack:
    return own_stack


def do(stack: LiveStack, verb: Callable[..., object]) -> None:
    stack.deployment.database.run(verb)


def mode(stack: LiveStack) -> str:
    return str(stack.rows("SELECT mode FROM orchestrator_state")[0].mode)


@pytest.fixture(autouse=True)
def _accepts_again(stack: LiveStack) -> Iterator[None]:
    yield
    stack.deployment.database.run(lambda tx: tx.execute("UPDATE orchestrator_state SET mode = 'running'"))


def test_a_worker_drains_what_is_open_and_maintenance_begins_by_itself(stack: LiveStack, gate: Path) -> None:
    """No beat runs here: the worker that ends the last run brings maintenance about."""
    stack.store(STEPS)
    wish: dict[str, Any] = {"path": str(gate), "list": list(range(20))}
    runs = [stack.trigger("drained", wish) for _ in range(3)]
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    do(stack, maintenance_mode.request)
    with pytest.raises(Unavailable, match="accepts no new work"):
        stack.trigger("drained", wish)
    assert mode(stack) == WAITING

    gate.touch()
    stack.until(lambda: mode(stack) == MAINTENANCE, "maintenance does not begin")
    # Following steps and items ran while nothing new was accepted.
    assert {stack.run(run_id).status for run_id in runs} == {"completed"}
    assert all(stack.called(run_id) == {"first": 1, "each": 20, "last": 1} for run_id in runs)
    with pytest.raises(Unavailable, match="accepts no new work"):
        stack.trigger("drained", wish)

    do(stack, maintenance_mode.leave)
    assert mode(stack) == RUNNING
    assert stack.finished(stack.trigger("drained", wish)).status == "completed"
    assert mode(stack) == RUNNING


def test_beat_brings_maintenance_when_nothing_is_open_and_goes_on_ticking(stack: LiveStack) -> None:
    beat = stack.start_beat()
    stack.until(lambda: tick_status.at(stack.deployment.database.url) is not None, "no tick")
    do(stack, maintenance_mode.request)
    stack.until(lambda: mode(stack) == MAINTENANCE, "maintenance does not begin")
    before = tick_status.at(stack.deployment.database.url)
    stack.until(lambda: tick_status.at(stack.deployment.database.url) != before, "no tick")
    stack.stop(beat)


def test_a_serverless_stack_has_no_beat_and_is_driven_by_requests(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    stack = StackFolder(tmp_path, variables={**environment(), "MODE": "serverless"})
    try:
        said = stack.call("up", "--detach", "--port", "0", "--no-flower")
        assert said.returncode == 0, said.stderr
        assert "POST /api/tick" in said.stdout
        with stack.client() as client:
            assert client.info()["mode"] == "serverless"
            assert client.health()["lastTickAt"] is None
            assert client.tick()["processed"] == 0
            assert client.health()["lastTickAt"] is not None
            client.request_maintenance()
            # The tick finds that nothing is open.
            client.tick()
            assert client.maintenance()["mode"] == "maintenance"
        assert "beat" not in stack.call("ps").stdout
        refused = stack.call("beat", "--data-dir", str(stack.data))
        assert refused.returncode == 1
        assert "MODE=serverless" in refused.stderr
    finally:
        stack.down()
