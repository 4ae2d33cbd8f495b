"""How often beat looks for enqueued runs."""

from __future__ import annotations

import pytest

from pipeweave.workers.loops.enqueued import EVERY_S, LONGEST_PAUSE_S, SELDOM_S, pause_after

QUICK_S = 0.0001


@pytest.mark.parametrize(("is_often", "pause_s"), [(True, EVERY_S), (False, SELDOM_S)])
def test_it_looks_often_only_where_that_is_needed(is_often: bool, pause_s: float) -> None:
    assert pause_after(QUICK_S, is_often=is_often) == pause_s


def test_slow_looks_come_less_often() -> None:
    assert pause_after(EVERY_S, is_often=True) > EVERY_S
    assert pause_after(60.0, is_often=False) == LONGEST_PAUSE_S
