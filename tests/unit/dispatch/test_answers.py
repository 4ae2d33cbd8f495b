"""What the answer of a service means for its dispatch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.dispatch.answers import MAX_RETRY_AFTER_S, AnswerVerdict, judge, retry_after
from pipeweave.orchestrator.domain.failure import Outcome
from pipeweave.sending import NoReply, Reply

NOW = datetime(2026, 11, 22, tzinfo=UTC)
URL = "http://worker:3001"


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_2xx_has_taken_the_dispatch(status: int) -> None:
    assert judge(Reply(status, None, ""), URL, NOW).verdict is AnswerVerdict.TAKEN


@pytest.mark.parametrize(
    ("status", "verdict", "code", "is_retryable", "sets_aside"),
    [
        (500, AnswerVerdict.LATER, "DISPATCH_FAILED", True, False),
        (502, AnswerVerdict.LATER, "DISPATCH_FAILED", True, True),
        (503, AnswerVerdict.ELSEWHERE, "DISPATCH_FAILED", True, True),
        (429, AnswerVerdict.ELSEWHERE, "DISPATCH_FAILED", True, False),
        (400, AnswerVerdict.REFUSED, "DISPATCH_REFUSED", False, False),
        (404, AnswerVerdict.REFUSED, "DISPATCH_REFUSED", False, False),
        (301, AnswerVerdict.REFUSED, "DISPATCH_REFUSED", False, False),
    ],
)
def test_other_answers_are_failures(
    status: int, verdict: AnswerVerdict, code: str, is_retryable: bool, sets_aside: bool
) -> None:
    judged = judge(Reply(status, None, "no"), URL, NOW)
    assert judged.failure is not None
    assert (judged.verdict, judged.failure.code) == (verdict, code)
    assert (judged.failure.retryable, judged.sets_aside) == (is_retryable, sets_aside)
    assert URL in judged.failure.message


def test_a_busy_instance_says_when_to_come_back() -> None:
    judged = judge(Reply(429, "7", "busy"), URL, NOW)
    assert judged.busy_s == 7
    draining = judge(Reply(503, "7", "draining"), URL, NOW)
    assert (draining.busy_s, draining.sets_aside) == (7, False)
    assert judge(Reply(503, None, "down"), URL, NOW).busy_s is None


def test_silence_is_a_timeout_that_another_attempt_tries_again() -> None:
    judged = judge(NoReply("no answer within 5 s", is_certain=False, is_late=True), URL, NOW)
    assert judged.failure is not None
    assert (judged.verdict, judged.failure.code) == (AnswerVerdict.LATER, "TIMEOUT")
    assert judged.failure.outcome is Outcome.TIMEOUT
    assert judged.failure.retryable


def test_another_instance_is_tried_where_nothing_was_sent() -> None:
    refused = judge(NoReply("connection refused", is_certain=True), URL, NOW)
    cut = judge(NoReply("connection reset", is_certain=False), URL, NOW)
    assert (refused.verdict, cut.verdict) == (AnswerVerdict.ELSEWHERE, AnswerVerdict.LATER)
    assert refused.sets_aside
    assert cut.sets_aside


def test_retry_after_may_be_a_date() -> None:
    assert retry_after(format_datetime(NOW + timedelta(seconds=90)), NOW) == 90
    assert retry_after(format_datetime(NOW - timedelta(seconds=90)), NOW) == 0


@given(st.text(max_size=60))
def test_retry_after_is_bounded_whatever_it_says(text: str) -> None:
    delay = retry_after(text, NOW)
    assert delay is None or 0 <= delay <= MAX_RETRY_AFTER_S
