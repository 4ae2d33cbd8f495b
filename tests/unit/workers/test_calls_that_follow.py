"""Which calls may follow those of other steps in one process, before the results of both are stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.settings import Settings
from pipeweave.workers.consumer.calls import Calls


def _plain() -> None:
    pass


async def _async() -> None:
    pass


@pytest.mark.parametrize(
    ("function", "options", "follows"),
    [
        (_plain, {}, True),
        (_plain, {"retries": 1}, True),
        # A call after it that ends the process would be the end of its task run.
        (_plain, {"retries": 0}, False),
        (_plain, {"idempotency_key": "inputs"}, False),
        (_async, {}, False),
    ],
)
def test_calls_follow_each_other(function: Any, options: dict[str, Any], follows: bool) -> None:
    spec = TaskSpec(id="each", code_hash="0" * 64, **options)
    nothing: Any = None
    values: Any = SimpleNamespace(backends={})
    calls = Calls(nothing, values, {"each": Task(function, spec)}, Settings())
    assert calls.follow("each") is follows
    assert not calls.follow("another")
