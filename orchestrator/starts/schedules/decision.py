"""Decides what happens at the due times of a schedule (pure).

A due time that passed longer than GRACE ago was missed: no process looked at that time, or nothing new was
accepted. The missed policy says what becomes of such times, the overlap policy what becomes of a time at
which an earlier run of the schedule is open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from pipeweave.spec.timetable import Timetable

# A due time that passed longer ago was missed.
GRACE = timedelta(minutes=1)
# With the policy `all`, at most so many missed times are made up for.
MAX_MISSED = 100

WAS_MISSED, OVERLAPS, OTHER_WAITS, NEWER_FOLLOWS = "missed", "overlap", "another waits", "a newer one follows"


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """What the decision depends on, of a schedule."""

    timetable: Timetable
    missed: str = "one"
    overlap: str = "allow"


@dataclass(frozen=True, slots=True)
class DueFire:
    """A due time and what becomes of it: it is `fired`, `skipped` or `waiting`, with the reason for these."""

    scheduled_at: datetime
    outcome: str = "fired"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleDecision:
    """What happens now.

    Args:
        fires: in the order of their times.
        supersedes: whether open runs of the schedule are to be cancelled.
        next_at: the first time that is not due yet; None when there is none.
    """

    fires: tuple[DueFire, ...]
    supersedes: bool
    next_at: datetime | None


def jitter(schedule_id: str, scheduled_at: datetime, most: timedelta) -> timedelta:
    """How much later than planned a due time starts, less than `most`: always the same for the same time."""
    if not most:
        return timedelta()
    seed = f"{schedule_id} {scheduled_at.timestamp():.6f}".encode()
    part = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big") / 2**64
    return timedelta(milliseconds=int(most / timedelta(milliseconds=1) * part))


def decide(
    rules: ScheduleRules, first: datetime, now: datetime, *, has_open_run: bool, has_waiting: bool = False
) -> ScheduleDecision:
    """What becomes of the due times up to now.

    Args:
        rules: of the schedule.
        first: its earliest due time that nothing was decided about; it is not after `now`.
        now: less the jitter.
        has_open_run: whether a run of the schedule is open.
        has_waiting: whether a due time waits for the end of that run.
    """
    due = _missed(rules, first, now) if now - first > GRACE else _due(rules.timetable, first, now)
    fires = tuple(_overlapping(rules.overlap, due, has_open_run, has_waiting))
    fired = any(each.outcome == "fired" for each in fires)
    return ScheduleDecision(
        fires, rules.overlap == "cancel-old" and has_open_run and fired, rules.timetable.after(now)
    )


def _due(timetable: Timetable, first: datetime, now: datetime) -> list[DueFire]:
    later = takewhile(lambda each: each <= now, timetable.upcoming(first))
    return [DueFire(each) for each in (first, *later)]


def _missed(rules: ScheduleRules, first: datetime, now: datetime) -> list[DueFire]:
    timetable = rules.timetable
    if rules.missed == "one":
        return [DueFire(timetable.last(first, now))]
    in_time = timetable.after(max(first, now - GRACE - timedelta(microseconds=1)))
    on_time = [] if in_time is None or in_time > now else _due(timetable, in_time, now)
    if rules.missed == "skip":
        return [DueFire(first, "skipped", WAS_MISSED), *on_time]
    return [*_made_up_for(timetable, first, now - GRACE), *on_time]


def _made_up_for(timetable: Timetable, first: datetime, until: datetime) -> Iterator[DueFire]:
    """The missed times, as many as are made up for; one that is skipped stands for all others."""
    yield DueFire(first)
    for number, each in enumerate(timetable.upcoming(first), start=2):
        if each >= until:
            return
        if number > MAX_MISSED:
            yield DueFire(each, "skipped", WAS_MISSED)
            return
        yield DueFire(each)


def _overlapping(policy: str, due: list[DueFire], is_open: bool, is_waiting: bool) -> Iterator[DueFire]:
    """The same times, of which each that may not start now is skipped or waits."""
    last = max((each.scheduled_at for each in due if each.outcome == "fired"), default=None)
    for each in due:
        if each.outcome != "fired" or policy == "allow":
            yield each
        elif policy == "cancel-old":
            is_last = each.scheduled_at == last
            yield each if is_last else DueFire(each.scheduled_at, "skipped", NEWER_FOLLOWS)
        elif not is_open and not is_waiting:
            is_open = True
            yield each
        elif policy == "queue" and not is_waiting:
            is_waiting = True
            yield DueFire(each.scheduled_at, "waiting", OVERLAPS)
        else:
            yield DueFire(each.scheduled_at, "skipped", OTHER_WAITS if is_waiting else OVERLAPS)
