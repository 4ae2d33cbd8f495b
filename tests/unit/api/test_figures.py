"""Which time a chart shows, and how small pictures fold what they tell."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.api.ui import figures, periods

NOW = "2026-06-15T12:00:00+00:00"


def answer(*ended_at: str) -> dict[str, Any]:
    """What the endpoint answers when runs completed in these minutes."""
    points = [{"at": at, "completed": 1, "partial": 0, "failed": 0, "cancelled": 0} for at in ended_at]
    empty = {"at": "2026-06-14T12:00:00+00:00", "completed": 0, "partial": 0, "failed": 0, "cancelled": 0}
    return {"to": NOW, "points": [empty, *points]}


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        ("2026-06-15T11:30:00+00:00", "1h"),
        ("2026-06-15T08:00:00+00:00", "6h"),
        ("2026-06-14T20:00:00+00:00", "24h"),
    ],
)
def test_a_chart_shows_the_shortest_period_that_has_all(first: str, shown: str) -> None:
    period, _ = figures.fitted(lambda period: answer(first, NOW), periods.last("24h"))
    assert period.name == shown


def test_a_period_that_somebody_chose_stays_and_so_does_an_empty_one() -> None:
    young = answer("2026-06-15T11:30:00+00:00")
    assert figures.fitted(lambda period: young, periods.last("24h"), is_chosen=True)[0].name == "24h"
    assert figures.fitted(lambda period: answer(), periods.last("24h"))[0].name == "24h"


def test_a_small_picture_has_a_bar_for_neighbours_and_none_for_nothing() -> None:
    durations = {"p95": 500.0}
    points = [
        {"started": 1, "failed": 0, "partial": 0, "waitMs": durations, "durationMs": durations}
        for _ in range(72)
    ]
    sparks = figures.sparks({"points": points})
    assert sparks["started"].count("<rect") == figures.MOST_SPARKS
    assert sparks["failed"].count("<rect") == 0
