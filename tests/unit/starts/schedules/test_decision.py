"""What becomes of due times, by policy: examples, and properties of all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeweave.orchestrator.starts.schedules.decision import (
    GRACE,
    MAX_MISSED,
    ScheduleDecision,
    ScheduleRules,
    decide,
    jitter,
)
from pipeweave.spec.timetable import Timetable

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVERY_MINUTE = Timetable(every=MINUTE, anchor=START)


def decided(
    late: timedelta,
    missed: str = "one",
    overlap: str = "allow",
    *,
    is_open: bool = False,
    waits: bool = False,
) -> ScheduleDecision:
    rules = ScheduleRules(EVERY_MINUTE, missed, overlap)
    return decide(rules, START, START + late, has_open_run=is_open, has_waiting=waits)


def outcomes(decision: ScheduleDecision) -> list[tuple[float, str]]:
    return [((each.scheduled_at - START) / MINUTE, each.outcome) for each in decision.fires]


def test_what_is_in_time_fires() -> None:
    found = decided(timedelta(seconds=1))
    assert outcomes(found) == [(0, "fired")]
    assert found.next_at == START + MINUTE


def test_of_missed_times_one_starts_all_start_or_none() -> None:
    late = timedelta(minutes=10, seconds=5)
    assert outcomes(decided(late)) == [(10, "fired")]
    assert outcomes(decided(late, "skip")) == [(0, "skipped"), (10, "fired")]
    assert outcomes(decided(late, "all")) == [(each, "fired") for each in range(11)]


def test_all_missed_times_are_so_many_at_most_and_the_one_in_time_is_not_among_them() -> None:
    found = outcomes(decided(timedelta(minutes=5_000), "all"))
    assert found[:MAX_MISSED] == [(each, "fired") for each in range(MAX_MISSED)]
    assert found[MAX_MISSED:] == [(MAX_MISSED, "skipped"), (4_999, "fired"), (5_000, "fired")]


def test_an_open_run_keeps_others_from_starting() -> None:
    moment = timedelta(seconds=1)
    assert outcomes(decided(moment, overlap="allow", is_open=True)) == [(0, "fired")]
    assert outcomes(decided(moment, overlap="skip", is_open=True)) == [(0, "skipped")]
    assert outcomes(decided(moment, overlap="queue", is_open=True)) == [(0, "waiting")]
    assert outcomes(decided(moment, overlap="queue", is_open=True, waits=True)) == [(0, "skipped")]


def test_a_newer_run_cancels_the_old_one() -> None:
    found = decided(timedelta(minutes=3), "all", "cancel-old", is_open=True)
    assert outcomes(found) == [(0, "skipped"), (1, "skipped"), (2, "skipped"), (3, "fired")]
    assert found.supersedes
    assert not decided(MINUTE, overlap="cancel-old").supersedes


TIMETABLES = st.one_of(
    st.integers(1_000, 10_000_000).map(lambda ms: Timetable(every=timedelta(milliseconds=ms), anchor=START)),
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "* * * * * *", "0 0 * * *"]).map(Timetable),
)


@settings(max_examples=100, deadline=None)
@given(
    timetable=TIMETABLES,
    missed=st.sampled_from(["skip", "one", "all"]),
    overlap=st.sampled_from(["allow", "skip", "queue", "cancel-old"]),
    late_s=st.floats(0, 3_000),
    is_open=st.booleans(),
    waits=st.booleans(),
)
def test_every_decision_holds_to_the_rules(
    timetable: Timetable, missed: str, overlap: str, late_s: float, is_open: bool, waits: bool
) -> None:
    now = START + timedelta(seconds=late_s)
    found = decide(
        ScheduleRules(timetable, missed, overlap), START, now, has_open_run=is_open, has_waiting=waits
    )
    times = [each.scheduled_at for each in found.fires]
    fired = [each.scheduled_at for each in found.fires if each.outcome == "fired"]
    assert times == sorted(set(times))
    assert set(times) <= {START, *takewhile(lambda each: each <= now, timetable.upcoming(START))}
    assert found.next_at is not None
    assert found.next_at > now
    assert found.next_at == timetable.after(now)
    assert found.fires, "each due time is decided about once, so there is always one"
    if overlap in ("skip", "queue"):
        assert len(fired) == (0 if is_open or waits else min(1, len(fired)))
    if overlap == "cancel-old":
        assert len(fired) <= 1
    assert sum(each.outcome == "waiting" for each in found.fires) <= (not waits)
    if missed == "one" and now - START > GRACE:
        assert len(found.fires) == 1
    if missed == "skip":
        assert all(now - each <= GRACE for each in fired)


@given(st.integers(0, 10**9), st.integers(0, 86_400_000))
def test_jitter_is_the_same_each_time_and_within_its_limit(seconds: int, most_ms: int) -> None:
    at, most = START + timedelta(seconds=seconds), timedelta(milliseconds=most_ms)
    found = jitter("nightly", at, most)
    assert found == jitter("nightly", at, most)
    assert timedelta() <= found <= most
    assert found < most or not most
