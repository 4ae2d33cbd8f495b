"""How often one address may fail to log in."""

from __future__ import annotations

import pytest

from pipeweave.api.ui import login_limit
from pipeweave.api.ui.login_limit import MOST_FAILURES, WITHIN_S, LoginLimit
from pipeweave.errors import TooManyRequests


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def failing(limit: LoginLimit, address: str, times: int) -> None:
    for _ in range(times):
        limit.failed(address)


def test_an_address_may_fail_ten_times_a_minute() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    failing(limit, "a", MOST_FAILURES)
    with pytest.raises(TooManyRequests):
        limit.failed("a")
    limit.failed("b")
    clock.now = WITHIN_S
    failing(limit, "a", MOST_FAILURES)
    with pytest.raises(TooManyRequests):
        limit.failed("a")


def test_the_oldest_of_ten_failures_decides() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    for _ in range(MOST_FAILURES):
        failing(limit, "a", 1)
        clock.now += 10
    # Five of the ten failures were 60 s ago or more: so many are free again.
    failing(limit, "a", 5)
    with pytest.raises(TooManyRequests):
        failing(limit, "a", 1)


def test_refused_failures_do_not_prolong_the_minute() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    failing(limit, "a", MOST_FAILURES)
    clock.now = WITHIN_S - 1
    with pytest.raises(TooManyRequests):
        limit.failed("a")
    clock.now = WITHIN_S
    limit.failed("a")


def test_many_addresses_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limit, "MAX_ADDRESSES", 3)
    limit = LoginLimit(Clock())
    for address in ("first", "b", "c", "d"):
        failing(limit, address, MOST_FAILURES)
    limit.failed("first")
    with pytest.raises(TooManyRequests):
        limit.failed("d")
