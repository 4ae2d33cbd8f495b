"""Fields for times: what the clocks of a zone show is what they mean."""

from __future__ import annotations

import pytest

from pipeweave.api.ui.clock_times import from_clocks, on_clocks

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("2026-01-01T02:30", "2026-01-01T02:30:00+01:00"),
        ("2026-07-01T02:30:15", "2026-07-01T02:30:15+02:00"),
        ("2026-07-01", "2026-07-01T00:00:00+02:00"),
        # What an address says with its offset stays.
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        # The clocks show it twice: the first time. They skip it: an hour later on them.
        ("2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),
        ("2026-03-29T02:30", "2026-03-29T02:30:00+01:00"),
        ("soon", "soon"),
        ("", ""),
    ],
)
def test_what_is_typed_is_by_the_clocks_of_the_zone(sent: str, meant: str) -> None:
    assert from_clocks(sent, BERLIN) == meant


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T01:00"),
        ("2026-07-01T00:00:07.000Z", "2026-07-01T02:00:07"),
        ("2026-07-01T00:00:07.125Z", "2026-07-01T02:00:07.125"),
        ("2026-07-01T02:30", "2026-07-01T02:30"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("soon", "soon"),
    ],
)
def test_a_field_shows_a_time_as_the_clocks_do(given: str, shown: str) -> None:
    assert on_clocks(given, BERLIN) == shown
