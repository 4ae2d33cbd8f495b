"""A process notices that another PostgreSQL has taken over by the number of its timeline."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.store.timeline import Timeline, timeline_of


def promoted(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int]]:
    """The promotions in the log: from which timeline to which."""
    lines = [each.__dict__ for each in caplog.records if each.message == "database.promoted"]
    return [(each["old_timeline"], each["new_timeline"]) for each in lines]


def test_a_promotion_is_logged_once_with_both_timelines(caplog: pytest.LogCaptureFixture) -> None:
    timeline = Timeline()
    for shown in ("00000001", "00000001", "0000000A", "0000000A"):
        timeline.record(shown)
    assert promoted(caplog) == [(1, 10)]
    assert timeline.promotions == 1


def test_the_first_timeline_that_a_process_meets_is_no_promotion(caplog: pytest.LogCaptureFixture) -> None:
    timeline = Timeline()
    timeline.record("00000007")
    assert (timeline.promotions, timeline.latest, promoted(caplog)) == (0, None, [])


def test_a_standby_says_nothing_of_a_promotion() -> None:
    timeline = Timeline()
    for shown in ("00000001", None, "00000001"):
        timeline.record(shown)
    assert timeline.promotions == 0


def test_a_server_on_an_older_timeline_in_between_is_no_second_promotion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    timeline = Timeline()
    for shown in ("00000001", "00000002", "00000001", "00000002"):
        timeline.record(shown)
    assert promoted(caplog) == [(1, 2)]


def test_a_promotion_is_recent_for_as_long_as_is_asked() -> None:
    now = 100.0
    timeline = Timeline(lambda: now)
    assert not timeline.was_promoted_within(5)
    timeline.record("00000001")
    timeline.record("00000002")
    now = 104.0
    assert timeline.was_promoted_within(5)
    now = 105.0
    assert not timeline.was_promoted_within(5)


def test_databases_of_the_same_servers_have_one_timeline() -> None:
    one, other = "postgresql://a:1@h1:5432,h2:5432/x", "postgresql://b:2@h1:5432,h2:5432/y"
    assert timeline_of(one) is timeline_of(other)
    assert timeline_of(one) is not timeline_of("postgresql://a:1@h1:5432/x")
