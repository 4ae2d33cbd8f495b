"""What the list of schedules says of the last fires of each."""

from __future__ import annotations

from typing import Any

from pipeweave.api.ui.schedule_fires import LastFires, lag_ms


def fire(lag_s: int, status: str | None = None, kind: str = "due") -> dict[str, Any]:
    times = {"scheduledAt": "2026-06-15T09:00:00.000Z", "firedAt": f"2026-06-15T09:00:{lag_s:02}.000Z"}
    return {**times, "kind": kind, "runStatus": status, "runId": status and f"prun_{status}"}


def test_the_last_run_is_that_of_the_newest_fire_that_began_one() -> None:
    assert LastFires.of([fire(1), fire(1, "failed"), fire(1, "completed")]).last == fire(1, "failed")


def test_a_run_that_goes_on_or_was_cancelled_neither_failed_nor_went_well() -> None:
    fires = [fire(1, each) for each in ("running", "cancelled", "completed", "partial")]
    assert LastFires.of(fires).success_rate == 0.5
    assert LastFires.of(fires[:2]).success_rate is None


def test_the_lag_is_that_of_most_due_times_and_of_no_backfill() -> None:
    assert lag_ms(fire(2)) == 2_000
    assert LastFires.of([fire(1), fire(2), fire(50), fire(59, kind="backfill")]).lag_ms == 2_000
    assert LastFires.of([fire(59, kind="backfill")]).lag_ms is None


def test_of_a_schedule_that_was_never_due_nothing_is_said() -> None:
    assert LastFires.of([]) == LastFires(None, None, None)
