"""How often beat looks for enqueued runs."""

from __future__ import annotations

import pytest

from pipeweave.workers.loops.enqueued import (
    EVERY_S,
    IN_USE_FOR_S,
    LONGEST_PAUSE_S,
    SELDOM_S,
    pause_after,
)

QUICK_S = 0.0001


@pytest.mark.parametrize(
    ("unused_s", "pause_s"),
    [(0.0, EVERY_S), (IN_USE_FOR_S - 1, EVERY_S), (IN_USE_FOR_S, SELDOM_S), (None, SELDOM_S)],
)
def test_it_looks_often_only_where_runs_are_enqueued(unused_s: float | None, pause_s: float) -> None:
    assert pause_after(QUICK_S, unused_s) == pause_s


def test_slow_looks_come_less_often() -> None:
    assert pause_after(EVERY_S, 0.0) > EVERY_S
    assert pause_after(60.0, None) == LONGEST_PAUSE_S
