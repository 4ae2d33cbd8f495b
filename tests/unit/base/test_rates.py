"""Rate limits as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.rates import Rate, is_rate, parse_rate, rate_mistakes


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10, 1)),
        ("100/m", Rate(100, 60)),
        ("5000/h", Rate(5_000, 3_600)),
        ("1/d", Rate(1, 86_400)),
        ("9999999/s", Rate(9_999_999, 1)),
    ],
)
def test_a_rate_is_read_and_shown_as_it_is_written(text: str, rate: Rate) -> None:
    assert is_rate(text)
    assert parse_rate(text) == rate
    assert str(rate) == text


def test_a_rate_that_nobody_can_write_is_shown_all_the_same() -> None:
    assert str(Rate(5, 2.5)) == "5/2.5s"


@pytest.mark.parametrize(
    "wrong",
    ["", "100", "/m", "0/m", "-1/m", "1.5/m", "100/", "100/min", "100 / m", "100/m\n", "\u0665/s", 100, True],
)
def test_a_wrong_rate_is_answered_with_what_is_allowed(wrong: Any) -> None:
    [mistake] = rate_mistakes(wrong, "rate_limit")
    assert mistake.field == "rate_limit"
    assert mistake.expected == "1 to 9999999 starts per s, m, h or d, as 100/m"
