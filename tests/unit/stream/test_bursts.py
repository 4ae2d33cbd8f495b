"""A list is shown soon after each of many changes, in a bounded share of the time; tests move the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.stream import LiveClock, live_clock
from pipeweave.orchestrator.stream.pace import SHARE, ViewPace
from pipeweave.orchestrator.stream.watching import WatchedView

# What a list of runs takes when some of its rows have changed, and what one took when all of them were made.
LIST_S, WHOLE_S = 0.008, 0.05
MINUTE_S = 60.0


@dataclass(eq=False)
class List:
    """A view that takes so long (s), on a clock of its own."""

    cost_s: float
    now: float = 1_000.0
    shown_at: list[float] = field(default_factory=list)
    name: str = "/runs"
    every_s: float = 0.0

    def __post_init__(self) -> None:
        self.pace = ViewPace(lambda: self.now)

    @property
    def rest_s(self) -> float:
        return self.pace.rest_s(self.name)

    def compute(self) -> str:
        self.now += self.cost_s
        self.pace.record(self.name, self.cost_s)
        self.shown_at.append(self.now)
        return str(self.now)

    @property
    def longest_s(self) -> float:
        """The longest time in which nothing new was shown."""
        return max(later - before for before, later in zip(self.shown_at, self.shown_at[1:], strict=False))


@pytest.fixture
def clock() -> Iterator[LiveClock]:
    with closing(LiveClock(Database("postgresql://nobody@127.0.0.1:1/nothing"), 1)) as made:
        yield made


def watch(clock: LiveClock, view: List, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the clock for so long; it moves before each look."""
    watched, until = WatchedView(view), view.now + seconds
    monkeypatch.setattr("time.monotonic", lambda: view.now)
    while view.now < until:
        clock._clock, clock._moved_at = clock._clock + 1, view.now
        if clock._is_due(watched):
            clock._compute(watched)
        view.now += live_clock.EVERY_S


def test_a_list_is_never_half_a_second_behind_however_long_changes_go_on(
    clock: LiveClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = List(LIST_S)
    watch(clock, view, MINUTE_S, monkeypatch)
    assert view.longest_s <= 0.5 + LIST_S


@pytest.mark.parametrize("cost_s", [LIST_S, WHOLE_S])
def test_a_minute_of_changes_takes_no_more_than_the_share(
    clock: LiveClock, cost_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = List(cost_s)
    watch(clock, view, MINUTE_S, monkeypatch)
    early = live_clock.BURST_S / view.rest_s
    assert len(view.shown_at) * cost_s <= SHARE * MINUTE_S + early * cost_s + cost_s
