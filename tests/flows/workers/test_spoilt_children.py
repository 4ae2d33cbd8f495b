"""A task spoils the process that called it: the calls after it do not suffer."""

from __future__ import annotations

from collections import Counter

import pytest
from support.live_stack import LiveStack

STEPS = [
    {"id": "bad", "task": "spoiling"},
    *({"id": f"after{n}", "task": "noop", "needs": ["bad"]} for n in range(3)),
]


@pytest.fixture
def stack(stack_with_beat: LiveStack) -> LiveStack:
    return stack_with_beat


@pytest.mark.parametrize(
    ("how", "said", "lost"),
    [
        ("json", "functions of orjson were replaced", 0),
        ("descriptors", "was lowered", 0),
        ("turns", "somebody broke it", 1),
    ],
)
def test_a_child_that_a_task_has_spoilt_calls_nothing_more(
    stack: LiveStack, how: str, said: str, lost: int
) -> None:
    stack.start_worker("faulty.py", concurrency=1)
    run = stack.ran({"id": f"spoilt-{how}", "steps": STEPS}, {"how": how})
    assert run.status == "completed"
    assert stack.called(run.id) == Counter({"bad": 1 + lost, "after0": 1, "after1": 1, "after2": 1})
    assert [(row.number, row.status) for row in stack.attempts(run.id)] == [(1, "lost")] * lost
    spoiler = next(call.pid for call in stack.calls(run.id) if call.step_id == "bad")
    assert spoiler not in [call.pid for call in stack.calls(run.id) if call.step_id != "bad"]
    assert said in stack.logs()
