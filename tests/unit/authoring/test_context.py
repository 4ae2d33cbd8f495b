"""What a task can do with its context."""

from __future__ import annotations

import logging

import pytest

from pipeweave import Context
from pipeweave.errors import InvalidInput


def test_progress_is_passed_on() -> None:
    told: list[tuple[float, str | None]] = []
    ctx = Context(on_progress=lambda percent, message: told.append((percent, message)))
    ctx.progress(0)
    ctx.progress(12.5, "halfway to a quarter")
    assert told == [(0.0, None), (12.5, "halfway to a quarter")]
    Context().progress(100)


@pytest.mark.parametrize("percent", [-1, 100.1, float("nan"), "5", True, None])
def test_progress_outside_0_to_100_is_refused(percent: object) -> None:
    with pytest.raises(InvalidInput, match="0 to 100"):
        Context().progress(percent)  # type: ignore[arg-type]


@pytest.mark.parametrize("message", ["a\0b", "\ud800", 5])
def test_a_progress_message_that_cannot_be_stored_is_refused(message: object) -> None:
    with pytest.raises(InvalidInput, match="message"):
        Context().progress(50, message)  # type: ignore[arg-type]


def test_log_lines_carry_the_ids(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Context(run_id="prun_1", task_run_id="trun_2", task_id="count", step_id="s", attempt=3).log.info(
        "counted %d", 7
    )
    (record,) = caplog.records
    assert record.getMessage() == "counted 7"
    assert (record.__dict__["run_id"], record.__dict__["task_run_id"], record.__dict__["attempt"]) == (
        "prun_1",
        "trun_2",
        3,
    )
    assert record.name == "pipeweave.task.count"
