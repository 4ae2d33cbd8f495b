"""The table of endings: what comes to a wait, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import async_reports, ids
from pipeweave.json_values import json_faults
from pipeweave.orchestrator.domain.failure import Outcome
from pipeweave.orchestrator.domain.waits import Signal, Wait, WaitKind
from pipeweave.orchestrator.waits.ending import Completes, Ending, Fails, Later, decide
from pipeweave.spec.wait_steps import DECISION_KEYS

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
TIMEOUT = BEGAN + timedelta(days=1)
RUN = ids.new_id()
QUESTION: dict[str, Any] = {
    "title": "Ship?",
    "assignees": [],
    "needs": 1,
    "options": [],
    "form": None,
    "context": None,
    "fourEyes": False,
    "failsWhenRejected": False,
}


def a_wait(kind: WaitKind, due_at: datetime = TIMEOUT, **data: Any) -> Wait:
    task_run = ids.task_run_id(RUN, 2)
    return Wait(RUN, task_run, "t", RUN, 1, kind, ("paid",), due_at, TIMEOUT, data, BEGAN)


def sent(
    payload: Any = None, by: str = "ann", after: timedelta = timedelta(hours=1), name: str = "paid"
) -> Signal:
    return Signal(ids.new_id(), name, payload, None, by, BEGAN + after, by)


def vote(choice: str, by: str = "ann", comment: str | None = None) -> Signal:
    return sent({"choice": choice, "form": None, "comment": comment}, by)


def at(hours: float) -> datetime:
    return BEGAN + timedelta(hours=hours)


def test_a_sleep_ends_at_its_time_and_not_before() -> None:
    sleep = a_wait("timer", at(3))
    assert decide(sleep, (), at(2.9)) == Later(at(3))
    assert decide(sleep, (), at(3)) == Completes(None, "timer")


def test_a_signal_is_taken_the_oldest_first() -> None:
    first, second = sent(1), sent(2)
    end = decide(a_wait("signal"), (first, second), at(2))
    assert isinstance(end, Completes)
    assert (end.output["payload"], end.signals, end.by) == (1, (first.id,), "ann")


def test_a_wait_without_a_signal_is_looked_at_again_at_its_timeout() -> None:
    assert decide(a_wait("signal"), (), at(2)) == Later(TIMEOUT)


@pytest.mark.parametrize("kind", ["signal", "approval"])
def test_a_wait_whose_time_is_over_fails_or_has_its_default(kind: WaitKind) -> None:
    question = QUESTION if kind == "approval" else {}
    failed = decide(a_wait(kind, **question), (), TIMEOUT)
    assert isinstance(failed, Fails)
    assert (failed.failure.code, failed.failure.outcome) == ("WAIT_TIMEOUT", Outcome.TIMEOUT)
    assert not failed.failure.retryable
    assert decide(a_wait(kind, **question, default=None), (), TIMEOUT) == Completes(None, "default")


def test_what_came_in_time_counts_however_late_it_is_looked_at() -> None:
    late = at(100)
    end = decide(a_wait("signal", default="none"), (sent(1, after=timedelta(hours=23)),), late)
    assert isinstance(end, Completes) and end.cause == "signal"


def test_what_came_after_the_time_was_over_does_not_count() -> None:
    end = decide(a_wait("signal", default="none"), (sent(1, after=timedelta(hours=25)),), at(100))
    assert end == Completes("none", "default")


@pytest.mark.parametrize(
    ("votes", "needs", "approved"),
    [
        (("approve",), 1, True),
        (("reject",), 1, False),
        (("approve",), 2, None),
        (("approve", "approve"), 2, True),
        (("approve", "reject"), 2, False),
        (("approve", "approve", "reject"), 2, True),
        (("reject", "approve", "approve"), 2, False),
    ],
)
def test_enough_people_must_agree_and_one_no_decides(
    votes: tuple[str, ...], needs: int, approved: bool | None
) -> None:
    came = [vote(each, f"person {number}") for number, each in enumerate(votes)]
    end = decide(a_wait("approval", **{**QUESTION, "needs": needs}), came, at(2))
    if approved is None:
        assert end == Later(TIMEOUT)
    else:
        assert isinstance(end, Completes)
        assert end.output["approved"] is approved


def test_an_option_is_chosen_by_as_many_as_are_needed() -> None:
    wait = a_wait("approval", **{**QUESTION, "options": ["ship", "hold"], "needs": 2})
    assert decide(wait, [vote("ship", "a"), vote("hold", "b")], at(2)) == Later(TIMEOUT)
    end = decide(wait, [vote("ship", "a"), vote("hold", "b"), vote("hold", "c")], at(2))
    assert isinstance(end, Completes)
    assert (end.output["choice"], end.output["by"], len(end.signals)) == ("hold", "c", 3)
    assert end.output.keys() == set(DECISION_KEYS)


def test_an_option_is_neither_a_yes_nor_a_no_whatever_it_is_called() -> None:
    wait = a_wait("approval", **{**QUESTION, "options": ["approve", "reject"], "failsWhenRejected": True})
    for choice in ("approve", "reject"):
        end = decide(wait, [vote(choice, "a")], at(2))
        assert isinstance(end, Completes)
        assert (end.output["approved"], end.output["choice"]) == (None, choice)


def test_a_rejected_approval_may_fail_its_step() -> None:
    wait = a_wait("approval", **{**QUESTION, "failsWhenRejected": True})
    end = decide(wait, [vote("reject", "ann", "too expensive")], at(2))
    assert isinstance(end, Fails)
    assert (end.failure.code, end.failure.message) == ("REJECTED", "ann rejected it: too expensive")


CHOICES = st.lists(st.sampled_from(["approve", "reject"]), max_size=6)


@given(CHOICES, st.integers(1, 4), st.floats(0, 48))
def test_an_approval_never_ends_without_enough_votes_or_its_timeout(
    choices: list[str], needs: int, hours: float
) -> None:
    came = [vote(each, f"person {number}") for number, each in enumerate(choices)]
    end: Ending = decide(a_wait("approval", **{**QUESTION, "needs": needs}), came, at(hours))
    may_end = "reject" in choices or choices.count("approve") >= needs or at(hours) >= TIMEOUT
    assert isinstance(end, Later) is not may_end
    if isinstance(end, Completes):
        assert set(end.signals) <= {each.id for each in came}


# --- suspended calls --------------------------------------------------------------------------------------

POLLED: dict[str, Any] = {"url": "http://a/", "intervalMs": 5_000, "maxTries": 3, "tries": 1}


def test_a_report_gives_the_result_or_fails_the_attempt() -> None:
    end = decide(
        a_wait("callback"), [sent(async_reports.of_callback({"status": "success", "result": 7}))], at(2)
    )
    assert isinstance(end, Completes)
    assert (end.output, end.cause) == (7, "callback")
    end = decide(
        a_wait("callback"), [sent(async_reports.of_callback({"status": "failed", "error": "no"}))], at(2)
    )
    assert isinstance(end, Fails)
    assert (end.failure.code, end.failure.message, end.failure.retryable) == (
        "ASYNC_FAILED",
        "Async operation failed: no",
        True,
    )


def test_a_poll_is_asked_again_until_its_tries_are_used_up_and_the_last_one_had_its_time() -> None:
    assert decide(a_wait("poll", at(3), **POLLED), (), at(2)) == Later(at(3))
    assert decide(a_wait("poll", at(3), **POLLED), (), at(3)) == Later(at(3))
    used_up = {**POLLED, "tries": 3, "lastAnswer": "200: running"}
    assert decide(a_wait("poll", at(3), **used_up), (), at(2.9)) == Later(at(3))
    end = decide(a_wait("poll", at(3), **used_up), (), at(3))
    assert isinstance(end, Fails)
    assert (end.failure.code, end.failure.message) == (
        "POLL_TRIES_EXCEEDED",
        "Max poll attempts (3) exceeded",
    )
    answer = sent({"status": "completed", "result": {"status": "completed", "n": 1}})
    assert decide(a_wait("poll", at(3), **used_up), [answer], at(4)) == Completes(
        {"status": "completed", "n": 1}, "poll", None, (answer.id,)
    )


@pytest.mark.parametrize("kind", ["callback", "poll"])
def test_a_suspended_call_that_nobody_answers_is_tried_again(kind: WaitKind) -> None:
    end = decide(a_wait(kind, **POLLED), (), at(25))
    assert isinstance(end, Fails)
    assert (end.failure.code, end.failure.outcome, end.failure.retryable) == (
        "WAIT_TIMEOUT",
        Outcome.TIMEOUT,
        True,
    )


@given(st.recursive(st.none() | st.booleans() | st.text() | st.integers(), lambda each: st.lists(each)))
def test_whatever_is_said_of_a_failure_can_be_stored(error: Any) -> None:
    stored = async_reports.of_callback({"status": "failed", "error": error})
    end = decide(a_wait("callback"), [sent(stored)], at(2))
    assert isinstance(end, Fails)
    assert end.failure.message.startswith("Async operation failed")
    assert not json_faults(stored)
