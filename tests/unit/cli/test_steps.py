"""What commands show of the steps of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeweave.cli.support.steps import seen_status, steps_of

COUNTS = {"done": 4, "total": 4, "completed": 4, "failed": 0, "cancelled": 0, "skipped": 0}


def step(**changes: Any) -> dict[str, Any]:
    return {
        "id": "a",
        "kind": "map",
        "status": "completed",
        **COUNTS,
        "attempt": 1,
        "maxAttempts": 1,
        **changes,
    }


def test_a_step_takes_as_long_as_its_run_was_not_over() -> None:
    times = {"startedAt": "2026-11-20T12:00:00.000Z", "finishedAt": "2026-11-20T12:12:00.000Z"}
    run: Any = SimpleNamespace(document={"steps": [step(**times, overMs=717_000.0), step(**times)]})
    assert [each.duration() for each in steps_of(run)] == ["3.0 s", "12 min 0 s"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "completed"),
        ({"completed": 3, "failed": 1}, "partial"),
        ({"completed": 3, "failed": 1, "status": "failed"}, "failed"),
        ({"completed": 3, "failed": 1, "kind": "task"}, "completed"),
        ({"status": "waiting", "failed": 1}, "running"),
    ],
)
def test_a_map_that_completed_without_some_items_is_partial(changes: dict[str, Any], status: str) -> None:
    run: Any = SimpleNamespace(document={"steps": [step(**changes)]})
    assert [each.status for each in steps_of(run)] == [status]


def test_a_partial_map_has_ended() -> None:
    partial = step(completed=3, failed=1)
    assert seen_status(partial) == "partial"
    run: Any = SimpleNamespace(document={"steps": [partial]})
    assert steps_of(run)[0].is_final
