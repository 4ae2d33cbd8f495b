"""Attempts that end badly: another one follows, or a dead letter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    empty_stack.start_worker("faulty.py", concurrency=2)
    empty_stack.start_beat()
    return empty_stack


def one(task: str, **document: Any) -> Mapping[str, Any]:
    return {"id": f"one-{task}", "steps": [{"id": "only", "task": task}], **document}


def test_a_step_that_fails_is_tried_again_and_told_of_its_attempts(stack: LiveStack) -> None:
    run = stack.ran(
        {
            "id": "again",
            "steps": [{"id": "a", "task": "flaky"}, {"id": "b", "task": "noop", "needs": ["a"]}],
        },
        {"fails": 2},
    )
    assert run.status == "completed"
    step = stack.steps(run.id)["a"]
    assert (step.status, step.attempt, step.error_code) == ("completed", 3, None)
    told = [(each["attempt"], each["status"], each["errorCode"], each["details"]) for each in step.output]
    assert told == [(1, "failed", "FLAKY", {"n": 1}), (2, "failed", "FLAKY", {"n": 2})]
    kept = [(each.number, each.status, each.error["message"]) for each in stack.attempts(run.id)]
    assert kept == [(1, "failed", "attempt 1"), (2, "failed", "attempt 2")]
    assert all("TaskError" in each.error["traceback"] and each.worker for each in stack.attempts(run.id))
    assert stack.called(run.id) == {"a": 3, "b": 1}
    assert stack.dead_letters(run.id) == []


def test_a_step_whose_attempts_are_used_up_is_one_dead_letter(stack: LiveStack) -> None:
    run = stack.ran(one("flaky"), {"fails": 99})
    assert (run.status, run.error_code) == ("failed", "STEP_FAILED")
    assert stack.called(run.id) == {"only": 4}
    [letter] = stack.dead_letters(run.id)
    step = stack.steps(run.id)["only"]
    assert (letter.task_run_id, letter.error_code, letter.attempts) == (step.id, "FLAKY", 4)
    assert (letter.input, letter.code_hash) == ({"fails": 99}, step.code_hash)
    assert [each["attempt"] for each in letter.history] == [1, 2, 3, 4]
    assert len(stack.attempts(run.id)) == 4


def test_an_error_that_is_not_retryable_is_a_dead_letter_at_once(stack: LiveStack) -> None:
    run = stack.ran(one("flaky"), {"fails": 99, "retryable": False})
    assert (stack.called(run.id), len(stack.dead_letters(run.id))) == ({"only": 1}, 1)


def test_only_the_named_codes_are_tried_again(stack: LiveStack) -> None:
    assert stack.ran(one("picky"), {"code": "BUSY"}).status == "completed"
    other = stack.ran(one("picky"), {"code": "OTHER"})
    assert (other.status, stack.called(other.id)) == ("failed", {"only": 1})


@pytest.mark.parametrize("count", [3, 12, 200])
def test_items_that_fail_are_tried_again_until_their_map_completes(stack: LiveStack, count: int) -> None:
    run = stack.ran(
        {
            "id": f"flaky-items-{count}",
            "steps": [
                {"id": "each", "task": "flaky", "map": {"over": "${input.list}"}},
                {"id": "after", "task": "noop", "needs": ["each"]},
            ],
        },
        {"list": [1 if number % 3 else 0 for number in range(count)]},
    )
    assert run.status == "completed"
    assert stack.called(run.id)["after"] == 1
    attempts = [row.attempt for row in stack.items(run.id, "each")]
    assert attempts == [2 if number % 3 else 1 for number in range(count)]
    assert {row.status for row in stack.items(run.id, "each")} == {"completed"}


def test_a_join_of_steps_that_are_tried_again_runs_once(stack: LiveStack) -> None:
    middles = [f"m{number}" for number in range(12)]
    run = stack.ran(
        {
            "id": "flaky-fan",
            "steps": [
                {"id": "first", "task": "noop", "needs": []},
                *({"id": each, "task": "flaky", "needs": ["first"]} for each in middles),
                {"id": "last", "task": "noop", "needs": middles},
            ],
        },
        {"fails": 1},
    )
    assert run.status == "completed"
    assert stack.called(run.id) == {"first": 1, "last": 1, **dict.fromkeys(middles, 2)}


# --- time -------------------------------------------------------------------------------------------------


def test_a_call_beyond_its_time_limit_is_told_so_and_times_out(stack: LiveStack, tmp_path: Path) -> None:
    note = tmp_path / "note"
    run = stack.ran(one("slow"), {"seconds": 60, "note": str(note)})
    step = stack.steps(run.id)["only"]
    assert (run.status, step.status, step.error_code) == ("failed", "timeout", "TIMEOUT")
    assert step.error["details"] == {"timeoutMs": 400}
    assert note.read_text() == "cleaned up"
    [letter] = stack.dead_letters(run.id)
    assert (letter.status, letter.error_code) == ("timeout", "TIMEOUT")
    [event] = stack.rows("SELECT * FROM events WHERE run_id = :id AND type = 'task_run.timed_out'", id=run.id)
    assert event.data["outcome"] == "timeout"


def test_a_call_that_does_not_stop_is_ended_with_its_process(stack: LiveStack) -> None:
    run = stack.ran(one("stubborn"))
    assert run.status == "completed"
    assert stack.steps(run.id)["only"].output == "attempt 2"
    [attempt] = stack.attempts(run.id)
    assert (attempt.status, attempt.error_code) == ("timeout", "TIMEOUT")
    assert attempt.error["details"] == {"timeoutMs": 400}


def test_a_call_that_holds_the_interpreter_is_missed_and_tried_again(stack: LiveStack) -> None:
    run = stack.ran(one("deaf"))
    assert run.status == "completed"
    [attempt] = stack.attempts(run.id)
    assert (attempt.status, attempt.error_code) == ("timeout", "HEARTBEAT_LOST")


def test_a_call_that_waits_for_long_is_said_to_be_alive(stack: LiveStack) -> None:
    run = stack.ran(one("patient"), {"seconds": 4})
    assert (run.status, stack.attempts(run.id)) == ("completed", [])
