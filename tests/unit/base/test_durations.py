"""Lengths of time as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.durations import MAX_MS, in_words, milliseconds


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (90, 90_000),
        (0.25, 250),
        (0.001, 1),
        ("500ms", 500),
        ("30s", 30_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("366d", MAX_MS),
    ],
)
def test_seconds_and_texts_with_a_unit_are_taken(given: Any, ms: int) -> None:
    assert milliseconds(given) == ms


@pytest.mark.parametrize(
    "given",
    [
        *(0, -1, 0.0001, True, None, [], {}, 10**400, float("nan"), float("inf"), MAX_MS),
        *("", "5", "5 m", "m", "-5s", "5x", "1h30m", "0s", "367d", "5s\n", "\u0665s", "1e3s", ".5s", "5.s"),
    ],
)
def test_anything_else_is_none(given: Any) -> None:
    assert milliseconds(given) is None


def test_a_caller_may_allow_longer_durations() -> None:
    assert milliseconds("367d", longest_ms=400 * 86_400_000) == 367 * 86_400_000


@given(st.integers(1, 366 * 86_400))
def test_a_number_is_as_many_seconds(seconds: int) -> None:
    assert milliseconds(seconds) == milliseconds(f"{seconds}s") == seconds * 1_000


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    found = milliseconds(text)
    assert found is None or 1 <= found <= MAX_MS


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (250, "250 ms"),
        (1_000, "1 second"),
        (600_000, "10 minutes"),
        (5_400_000, "1 hour 30 minutes"),
        (90_061_000, "1 day 1 hour"),
    ],
)
def test_a_duration_is_named_by_its_two_largest_units(ms: float, said: str) -> None:
    assert in_words(ms) == said
