"""When a failed attempt is followed by another, and how long after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.authoring.retry import RetryPolicy
from pipeweave.option_checks import BACKOFFS

DAY_MS = 86_400_000

delays = st.integers(0, 366 * DAY_MS)
chances = st.floats(0, 1, exclude_max=True)
attempts = st.integers(1, 1_000_000)
policies = st.builds(
    RetryPolicy,
    backoff=st.sampled_from(BACKOFFS),
    base_ms=delays,
    max_delay_ms=delays,
    multiplier=st.floats(1, 1e6),
    jitter=st.floats(0, 1),
    cap_ms=st.none() | delays,
)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetryPolicy("fixed", 1_000, DAY_MS), [1_000, 1_000, 1_000, 1_000]),
        (RetryPolicy("linear", 1_000, DAY_MS), [1_000, 2_000, 3_000, 4_000]),
        (RetryPolicy("exponential", 1_000, DAY_MS), [1_000, 2_000, 4_000, 8_000]),
        (RetryPolicy("exponential", 1_000, DAY_MS, multiplier=3), [1_000, 3_000, 9_000, 27_000]),
        (RetryPolicy("exponential", 1_000, DAY_MS, multiplier=1.1), [1_000, 1_100, 1_210, 1_331]),
        (RetryPolicy("exponential", 1_000, DAY_MS, multiplier=1), [1_000, 1_000, 1_000, 1_000]),
        (RetryPolicy("exponential", 0, DAY_MS), [0, 0, 0, 0]),
        (RetryPolicy("exponential", 1_000, 5_000), [1_000, 2_000, 4_000, 5_000]),
        (RetryPolicy("linear", 1_000, DAY_MS, cap_ms=2_500), [1_000, 2_000, 2_500, 2_500]),
        (RetryPolicy("fixed", 1_000, DAY_MS, cap_ms=10), [10, 10, 10, 10]),
        (RetryPolicy("fixed", 1_000, 10, cap_ms=20), [10, 10, 10, 10]),
    ],
)
def test_the_delay_grows_as_the_backoff_says_up_to_the_lower_limit(
    policy: RetryPolicy, expected: list[int]
) -> None:
    assert [policy.delay_ms(attempt, 0.5) for attempt in (1, 2, 3, 4)] == expected


@given(policies, attempts, chances)
def test_no_delay_is_negative_or_over_a_limit(policy: RetryPolicy, attempt: int, chance: float) -> None:
    delay = policy.delay_ms(attempt, chance)
    assert isinstance(delay, int)
    assert 0 <= delay <= policy.max_delay_ms
    assert policy.cap_ms is None or delay <= policy.cap_ms


@given(policies, attempts, attempts, chances)
def test_a_later_attempt_never_waits_less(policy: RetryPolicy, one: int, another: int, chance: float) -> None:
    earlier, later = sorted((one, another))
    assert policy.delay_ms(earlier, chance) <= policy.delay_ms(later, chance)


@given(policies, attempts, chances)
def test_jitter_takes_off_no_more_than_its_part(policy: RetryPolicy, attempt: int, chance: float) -> None:
    whole = policy.delay_ms(attempt, 0)
    delay = policy.delay_ms(attempt, chance)
    assert whole * (1 - policy.jitter) - 1 <= delay <= whole


@given(attempts, chances)
def test_without_jitter_chance_changes_nothing(attempt: int, chance: float) -> None:
    policy = RetryPolicy("exponential", 1_000, DAY_MS)
    assert policy.delay_ms(attempt, chance) == policy.delay_ms(attempt, 0)


@pytest.mark.parametrize("backoff", BACKOFFS)
@pytest.mark.parametrize("multiplier", [1, 1.000001, 2, 1e300])
def test_the_millionth_attempt_has_a_delay(backoff: str, multiplier: float) -> None:
    policy = RetryPolicy(backoff, 1, DAY_MS, multiplier)  # type: ignore[arg-type]
    assert 1 <= policy.delay_ms(1_000_000, 0.0) <= DAY_MS


@pytest.mark.parametrize("backoff", BACKOFFS)
def test_no_delay_stays_none_however_often_it_grows(backoff: str) -> None:
    policy = RetryPolicy(backoff, 0, DAY_MS, 1e300)  # type: ignore[arg-type]
    assert policy.delay_ms(1_000_000, 0.0) == 0


def test_every_retryable_error_earns_another_attempt_by_default() -> None:
    policy = RetryPolicy("fixed", 1, 1)
    assert policy.may_retry("HTTP_503", is_retryable=True)
    assert not policy.may_retry("HTTP_503", is_retryable=False)


def test_only_the_named_codes_earn_another_attempt() -> None:
    policy = RetryPolicy("fixed", 1, 1, retry_on=frozenset({"HTTP_503", "TIMEOUT"}))
    assert policy.may_retry("HTTP_503", is_retryable=True)
    assert not policy.may_retry("HTTP_500", is_retryable=True)
    assert not policy.may_retry("HTTP_503", is_retryable=False), "naming a code does not overrule the task"
