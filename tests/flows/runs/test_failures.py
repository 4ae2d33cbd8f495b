"""What handlers may do to a worker, and what is stored of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.live_stack import LiveStack

from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import plain_path


def one_step(task: str) -> dict[str, Any]:
    return {"id": f"one-{task}", "steps": [{"id": "only", "task": task}]}


def misbehaved(stack: LiveStack, behaviour: str) -> tuple[Any, Any]:
    """The task run and its attempt after the handler misbehaved."""
    run = stack.ran(one_step("misbehave"), {"behaviour": behaviour})
    assert run.status == "failed"
    (attempt,) = stack.attempts(run.id)
    return stack.steps(run.id)["only"], attempt


def children(stack: LiveStack) -> set[int]:
    """The processes that call handlers now."""
    stack.store(one_step("noop"))
    runs: list[UUID] = [stack.trigger("one-noop") for _ in range(10)]
    for run_id in runs:
        stack.finished(run_id)
    return {call.pid for run_id in runs for call in stack.calls(run_id)}


@pytest.mark.parametrize(
    ("behaviour", "type_", "message"),
    [
        ("value-error", "ValueError", "the third card is missing"),
        ("chained", "RuntimeError", "effect"),
        ("system-exit", "SystemExit", "3"),
        ("memory-error", "MemoryError", "MemoryError"),
        ("keyboard-interrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_an_exception_is_stored_with_type_message_and_traceback(
    stack: LiveStack, behaviour: str, type_: str, message: str
) -> None:
    before = children(stack)
    row, attempt = misbehaved(stack, behaviour)

    assert (row.status, row.error_code, row.error["type"]) == ("failed", type_, type_)
    assert row.error["message"] == message
    assert "in misbehave" in row.error["traceback"]
    assert attempt.error == row.error
    assert (attempt.number, attempt.status, attempt.error_code) == (1, "failed", type_)
    assert attempt.started_at == row.started_at
    assert attempt.finished_at == row.finished_at
    assert attempt.worker == row.worker
    assert children(stack) & before, "no process of the worker survived"


def test_the_cause_of_an_exception_stands_in_its_traceback(stack: LiveStack) -> None:
    row, _ = misbehaved(stack, "chained")
    assert "KeyError: 'cause'" in row.error["traceback"]


def test_a_task_error_keeps_its_code_and_details(stack: LiveStack) -> None:
    row, attempt = misbehaved(stack, "task-error")
    assert (row.error_code, attempt.error_code) == ("CARD_DECLINED", "CARD_DECLINED")
    assert row.error["details"] == {"card": 4242}
    assert row.error["retryable"] is False


def test_texts_that_postgresql_refuses_are_made_printable(stack: LiveStack) -> None:
    row, _ = misbehaved(stack, "odd-texts")
    assert row.error["message"] == "nul \\0 and a lone surrogate ?"


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        ("not-json", "INVALID_RESULT"),
        ("not-a-number", "INVALID_RESULT"),
        ("nul", "INVALID_RESULT"),
        ("next-is-a-text", "INVALID_RESULT"),
        ("unknown-next", "INVALID_NEXT_TASKS"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_the_attempt_with_a_clear_code(
    stack: LiveStack, behaviour: str, code: str
) -> None:
    row, attempt = misbehaved(stack, behaviour)
    assert (row.status, row.error_code, attempt.error_code) == ("failed", code, code)
    assert row.error["retryable"] is False
    assert row.output is None
    assert row.output_path is None


def test_an_item_whose_failure_is_hard_to_store_fails_alone(stack: LiveStack) -> None:
    each = {"id": "each", "task": "listing", "map": {"over": "${input.list}", "as": "number"}}
    document = {"id": "listings", "failureMode": "partial-merge", "steps": [each]}
    run = stack.ran(document, {"list": list(range(5))})
    statuses = {row.map_index: (row.status, row.error_code) for row in stack.items(run.id, "each")}
    assert statuses.pop(2) == ("failed", "INVALID_RESULT")
    assert set(statuses.values()) == {("completed", None)}
    assert stack.called(run.id) == {"each": 5}
    [letter] = stack.dead_letters(run.id)
    assert "output.caf?.txt" in [fault["field"] for fault in letter.error["details"]]


def test_a_huge_result_goes_to_storage_and_comes_back(stack: LiveStack) -> None:
    document = {
        "id": "huge",
        "steps": [
            {"id": "make", "task": "misbehave", "params": {"behaviour": "huge"}},
            {"id": "measure", "task": "measure", "params": {"text": "${steps.make}"}},
        ],
    }
    run = stack.ran(document)
    assert run.status == "completed"
    steps = stack.steps(run.id)
    assert steps["make"].output is None
    assert plain_path(steps["make"].output_path).startswith("artifacts/sha256/")
    assert steps["make"].output_size == 3_000_002
    assert steps["measure"].output == 3_000_000


@pytest.mark.parametrize("size", [INLINE_BYTES - 2, INLINE_BYTES - 1])
def test_results_and_inputs_up_to_the_limit_stay_in_their_rows(stack: LiveStack, size: int) -> None:
    text = "x" * size
    run = stack.ran(one_step("give"), {"value": text})
    row = stack.steps(run.id)["only"]
    assert stack.output(row) == text
    assert (row.output_path is None) == (size + 2 <= INLINE_BYTES)


def test_a_huge_input_reaches_the_task(stack: LiveStack) -> None:
    run = stack.ran(one_step("measure"), {"text": "y" * 200_000})
    assert run.status == "completed"
    assert run.input is None
    assert run.input_path is not None
    assert stack.steps(run.id)["only"].output == 200_000


@pytest.mark.parametrize(
    ("input", "fields"),
    [
        ({"count": "many", "names": ["a"]}, {"count"}),
        ({"count": 1.5, "names": "a"}, {"count", "names"}),
        ({"names": [1]}, {"count", "names[0]"}),
        ({"count": 1, "names": [], "ratio": "half"}, {"ratio"}),
        (None, {"count", "names"}),
        ("text", {"count", "names"}),
    ],
)
def test_parameters_of_wrong_types_fail_the_attempt_naming_each_field(
    stack: LiveStack, input: Any, fields: set[str]
) -> None:
    run = stack.ran(one_step("typed"), input)
    row = stack.steps(run.id)["only"]
    assert (row.status, row.error_code) == ("failed", "INVALID_PARAMS")
    assert {each["field"] for each in row.error["details"]} == fields
    assert row.error["retryable"] is False


def test_params_that_lead_nowhere_fail_the_attempt(stack: LiveStack) -> None:
    document = {
        "id": "nowhere",
        "steps": [
            {"id": "make", "task": "give", "params": {"value": {"here": 1}}},
            {"id": "take", "task": "give", "params": {"value": "${steps.make.there.further}"}},
        ],
    }
    run = stack.ran(document)
    row = stack.steps(run.id)["take"]
    assert (run.status, row.status, row.error_code) == ("failed", "failed", "INVALID_REFERENCE")
    assert "there" in row.error["message"]


def test_references_give_values_with_their_types(stack: LiveStack) -> None:
    value = {
        "list": "${steps.make.rows}",
        "number": "${steps.make.rows[1]}",
        "text": "${input.who} has ${steps.make.rows}",
        "literal": "$${input.who}",
        "whole": "${input}",
    }
    document = {
        "id": "references",
        "steps": [
            {"id": "make", "task": "give", "params": {"value": {"rows": [1, 2.5, None]}}},
            {"id": "take", "task": "give", "params": {"value": value}},
        ],
    }
    run = stack.ran(document, {"who": "Ada"})
    assert stack.steps(run.id)["take"].output == {
        "list": [1, 2.5, None],
        "number": 2.5,
        "text": "Ada has [1,2.5,null]",
        "literal": "${input.who}",
        "whole": {"who": "Ada"},
    }


@pytest.mark.parametrize("output", [None, 0, False, "", [], {}])
def test_every_small_json_value_is_a_result(stack: LiveStack, output: Any) -> None:
    run = stack.ran(one_step("give"), {"value": output})
    row = stack.steps(run.id)["only"]
    assert row.status == "completed"
    assert stack.output(row) == output
    assert type(stack.output(row)) is type(output)
