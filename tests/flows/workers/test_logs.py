"""What a worker's log says of a task that talks, and fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.live_stack import LiveStack

from pipeweave import ids

PIPELINE = {"id": "orders", "steps": [{"id": "charge", "task": "talk"}]}


@pytest.fixture(scope="module")
def lines(empty_stack: LiveStack) -> list[dict[str, Any]]:
    """The log of a worker that ran one run, whose only step failed twice."""
    empty_stack.start_worker("talking.py", concurrency=1)
    empty_stack.start_beat()
    run = empty_stack.ran(PIPELINE, {"order": 7})
    names = {"run_id": ids.show(ids.RUN, run.id), "tenant": run.tenant_id, "pipeline_id": "orders"}
    [log] = [each for each in empty_stack.folder.glob("*.log") if "beat" not in each.name]
    # The line follows the commit that ends the run.
    empty_stack.until(lambda: "run.failed" in log.read_text(), "the end of the run is logged")
    found = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert "from another program" in log.read_text()
    return [each for each in found if each.items() >= names.items()]


def of_logger(lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in lines if each["logger"] == name and each.get("attempt") == 1]


@pytest.mark.parametrize(
    ("logger", "level", "message"),
    [
        ("shop.orders", "info", "charging 7"),
        ("pipeweave.task.talk", "info", "through the context"),
        ("pipeweave.stdout", "info", "printed 7"),
        ("pipeweave.stdout", "info", "without an end"),
        ("pipeweave.stderr", "warning", "complaint"),
        ("pipeweave.stdout", "info", "captured"),
        ("vendor.cards", "error", "caught"),
    ],
)
def test_every_line_of_a_task_carries_its_ids(
    lines: list[dict[str, Any]], logger: str, level: str, message: str
) -> None:
    [line] = [each for each in of_logger(lines, logger) if each["message"] == message]
    assert (line["level"], line["task_id"], line["step_id"]) == (level, "talk", "charge")
    assert line["task_run_id"].startswith("trun_")
    assert line["trace_id"] == ids.read(ids.RUN, line["run_id"]).hex


def test_a_traceback_is_in_the_line_of_its_attempt(lines: list[dict[str, Any]]) -> None:
    [line] = of_logger(lines, "vendor.cards")
    assert line["exception_type"] == "KeyError"
    assert 'raise KeyError("card")' in line["exception"]


def test_all_that_an_attempt_caused_names_it_wholly(lines: list[dict[str, Any]]) -> None:
    """Whoever wrote the line: the task, a library, Python itself, or PipeWeave about its failure."""
    of_attempt = [each for each in lines if "attempt" in each]
    # Python shows the same warning once.
    assert len(of_attempt) == 17
    names = ("tenant", "pipeline_id", "run_id", "task_run_id", "task_id", "step_id", "trace_id")
    assert len({tuple(each[name] for name in names) for each in of_attempt}) == 1
    assert {each["attempt"] for each in of_attempt} == {1, 2}


def test_a_warning_of_python_carries_the_ids_too(lines: list[dict[str, Any]]) -> None:
    [line] = of_logger(lines, "py.warnings")
    assert "UserWarning: the card is old" in line["message"]
    assert (line["task_id"], line["step_id"]) == ("talk", "charge")


def test_members_of_extra_are_kept_whatever_they_are(lines: list[dict[str, Any]]) -> None:
    [line] = of_logger(lines, "shop.orders")
    assert (line["amount"], line["extra_level"]) == (5, "gold")
    assert line["cards"] in ("{'4242', '1'}", "{'1', '4242'}")
    [line] = of_logger(lines, "pipeweave.task.talk")
    assert (line["amount"], line["extra_name"]) == (6, "N")


def test_a_failure_with_another_attempt_is_a_warning_that_says_when(lines: list[dict[str, Any]]) -> None:
    [line] = [each for each in lines if each["message"] == "task_run.retrying"]
    assert (line["level"], line["attempt"], line["max_attempts"], line["retry_in_ms"]) == (
        "warning",
        1,
        2,
        10,
    )
    assert line["error"] == "order 7 cannot be charged"


def test_the_last_failure_is_an_error_with_its_exception(lines: list[dict[str, Any]]) -> None:
    [line] = [each for each in lines if each["message"] == "task_run.failed"]
    assert (line["level"], line["attempt"], line["task_id"], line["step_id"]) == (
        "error",
        2,
        "talk",
        "charge",
    )
    assert (line["error"], line["error_code"]) == ("order 7 cannot be charged", "ValueError")
    assert line["exception_type"] == "ValueError"
    assert 'raise ValueError(f"order {order} cannot be charged")' in line["exception"]
    assert "pipeweave/workers" not in line["exception"]


def test_the_end_of_a_run_has_a_line(lines: list[dict[str, Any]]) -> None:
    [line] = [each for each in lines if each["message"] == "run.failed"]
    assert (line["level"], line["error_code"]) == ("warning", "STEP_FAILED")
    assert line["duration_ms"] > 0
