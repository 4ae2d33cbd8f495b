"""Calls in boxes of a real worker: what they try ends in a row, and the worker goes on."""

from __future__ import annotations

import pytest
from support.live_stack import LiveStack

pytestmark = pytest.mark.usefixtures("machine_with_boxes")

ATTEMPTS = {
    "os.kill(os.getppid(), 9)": "PermissionError",
    "os.kill(1, 9)": "PermissionError",
    "open(f'/proc/{os.getppid()}/environ').read()": "PermissionError",
    "os.fork()": "PermissionError",
    "import socket; socket.socket()": "PermissionError",
    "while True: pass": "SANDBOX_CPU_EXCEEDED",
    "kept = []\nwhile True: kept.append(bytearray(1 << 20))": "SANDBOX_MEMORY_EXCEEDED",
    "os._exit(0)": "SANDBOX_CRASHED",
}


@pytest.fixture
def stack(stack_with_beat: LiveStack) -> LiveStack:
    return stack_with_beat


def test_a_worker_lives_through_what_its_boxes_try(stack: LiveStack) -> None:
    canary = "canary-of-a-worker"
    stack.start_worker("boxed.py", concurrency=1, variables={"CANARY": canary})
    free = {"id": "free", "task": "free"}
    before = stack.ran({"id": "before", "steps": [free]})
    for number, (source, code) in enumerate(ATTEMPTS.items()):
        step = {"id": "a", "task": "boxed", "params": {"source": source}}
        run = stack.ran({"id": f"way-{number}", "steps": [step]})
        assert run.status == "failed", source
        assert [row.error_code for row in stack.attempts(run.id)] == [code], source
    for kind, code in (("memory", "MEMORY_LIMIT_EXCEEDED"), ("cpu", "CPU_LIMIT_EXCEEDED")):
        run = stack.ran({"id": f"limited-{kind}", "steps": [{"id": "a", "task": "limited"}]}, {"kind": kind})
        assert [row.error_code for row in stack.attempts(run.id)] == [code]
    seen = {"id": "a", "task": "boxed", "params": {"source": "outcome = dict(os.environ)"}}
    run = stack.ran({"id": "last", "steps": [seen, {**free, "needs": ["a"]}]})
    assert run.status == "completed"
    outputs = {row.step_id: stack.output(row) for row in stack.task_runs(run.id)}
    assert canary not in str(outputs["a"]) and "DATABASE_URL" not in str(outputs["a"])
    [first] = stack.task_runs(before.id)
    assert outputs["free"] == stack.output(first), "it is the same child"
    assert "child.lost" not in stack.logs()
