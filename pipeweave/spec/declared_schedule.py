"""The schedule that a pipeline's code or document declares, and the reading of it, each mistake by field.

It is a cron line, or an object with the members of a stored schedule. It is no part of a pipeline's version:
a version says what a run does, a schedule when one begins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.json_values import json_faults, json_type
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import timetable
from pipeweave.spec.timetable import Timetable
from pipeweave.suggestions import did_you_mean

MISSED_POLICIES = ("skip", "one", "all")
OVERLAP_POLICIES = ("allow", "skip", "queue", "cancel-old")

# The members as documents and the API name them, and as the dataclass does.
MEMBERS = {
    "cron": "cron",
    "everyMs": "every_ms",
    "at": "at",
    "timeZone": "time_zone",
    "input": "input",
    "missedPolicy": "missed",
    "overlapPolicy": "overlap",
    "jitterMs": "jitter_ms",
    "startAt": "start_at",
    "endAt": "end_at",
    "paused": "paused",
}
_TIME = "a time with its zone, such as 2030-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """When runs of a pipeline are to begin by themselves. One of `cron`, `every_ms` and `at` is given.

    Args:
        cron: a line of five fields, or of six with seconds in the first.
        every_ms: the interval, ms.
        at: the only time.
        time_zone: of the cron line.
        input: of its runs.
        missed: what becomes of times that were missed: `skip`, `one` or `all`.
        overlap: what becomes of a time while a run is open: `allow`, `skip`, `queue` or `cancel-old`.
        jitter_ms: each due time starts up to so much later, ms.
        start_at: nothing is due before it.
        end_at: nothing is due after it.
        paused: whether it is paused when it is stored for the first time.
    """

    cron: str | None = None
    every_ms: int | None = None
    at: datetime | None = None
    time_zone: str = "UTC"
    input: Any = None
    missed: str = "one"
    overlap: str = "allow"
    jitter_ms: int = 0
    start_at: datetime | None = None
    end_at: datetime | None = None
    paused: bool = False

    def times(self, created_at: datetime) -> Timetable:
        """When it is due, if it is stored at this moment: intervals are counted from there."""
        every = None if self.every_ms is None else timedelta(milliseconds=self.every_ms)
        anchor = self.start_at or created_at
        return Timetable(self.cron, self.time_zone, every, anchor, self.at, self.start_at, self.end_at)

    def to_json(self) -> dict[str, Any]:
        """The members that differ from their defaults, as a document has them."""
        default = DeclaredSchedule()
        members = {name: getattr(self, attribute) for name, attribute in MEMBERS.items()}
        return {
            name: _text(value) if isinstance(value, datetime) else value
            for name, value in members.items()
            if value != getattr(default, MEMBERS[name])
        }


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def read_schedule(entry: Any, field: str = "schedule") -> tuple[DeclaredSchedule | None, list[FieldError]]:
    """Read a schedule: a cron line, or an object. It is None if there are mistakes.

    Args:
        field: the name of the whole in errors.
    """
    reader = _ScheduleReader(field)
    if isinstance(entry, str):
        cron = reader.cron(entry, field)
        return (DeclaredSchedule(cron=cron) if not reader.errors else None), reader.errors
    if not isinstance(entry, Mapping):
        reader.wrong(field, f"must be a cron line or an object, not {json_type(entry)}", "invalid_type")
        return None, reader.errors
    schedule = reader.schedule(entry)
    return (schedule if not reader.errors else None), reader.errors


class _ScheduleReader:
    """Reads one schedule and collects its mistakes."""

    def __init__(self, field: str) -> None:
        self.field = field
        self.errors: list[FieldError] = []

    def wrong(self, field: str, message: str, code: str, expected: str | None = None) -> None:
        self.errors.append(FieldError(field, message[:500], code, expected))

    def schedule(self, members: Mapping[str, Any]) -> DeclaredSchedule:
        for key in members:
            if key not in MEMBERS:
                known = f"its members are {', '.join(MEMBERS)}"
                self.wrong(
                    f"{self.field}.{str(key)[:200]}",
                    f"is not a member of a schedule; {did_you_mean(str(key), list(MEMBERS), known)}",
                    "unknown_field",
                )
        # A member that is null counts as absent.
        self.members = {name: value for name, value in members.items() if value is not None}
        schedule = DeclaredSchedule(
            cron=self.member("cron", self.cron),
            every_ms=self.number("everyMs", timetable.MIN_EVERY_MS, timetable.MAX_EVERY_MS),
            at=self.member("at", self.time),
            time_zone=self.member("timeZone", self.zone) or "UTC",
            input=self.member("input", self.input),
            missed=self.choice("missedPolicy", MISSED_POLICIES) or "one",
            overlap=self.choice("overlapPolicy", OVERLAP_POLICIES) or "allow",
            jitter_ms=self.number("jitterMs", 0, timetable.MAX_JITTER_MS) or 0,
            start_at=self.member("startAt", self.time),
            end_at=self.member("endAt", self.time),
            paused=self.member("paused", self.flag) or False,
        )
        if sum(name in self.members for name in ("cron", "everyMs", "at")) != 1:
            self.wrong(self.field, "must have one of cron, everyMs and at", "one_of")
        if (
            schedule.start_at is not None
            and schedule.end_at is not None
            and schedule.start_at > schedule.end_at
        ):
            self.wrong(f"{self.field}.endAt", "must not lie before startAt", "range")
        return schedule

    def member(self, name: str, read: Any) -> Any:
        return read(self.members[name], f"{self.field}.{name}") if name in self.members else None

    def cron(self, value: Any, field: str) -> str | None:
        if not isinstance(value, str):
            self.wrong(field, f"must be a cron line, not {json_type(value)}", "invalid_type", "string")
            return None
        try:
            return timetable.checked_cron(value)
        except ValueError as error:
            self.wrong(field, str(error), "invalid_cron", "a cron line such as */5 * * * *")
            return None

    def zone(self, value: Any, field: str) -> str | None:
        if not isinstance(value, str):
            self.wrong(field, f"must be a text, not {json_type(value)}", "invalid_type", "string")
            return None
        try:
            timetable.zone(value)
        except ValueError as error:
            self.wrong(field, str(error), "invalid_zone", "a name such as Europe/Berlin")
            return None
        return value

    def time(self, value: Any, field: str) -> datetime | None:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self.wrong(field, f"is {value!r}: use {_TIME}", "invalid_time", _TIME)
            return None
        if moment.tzinfo is None or moment.utcoffset() is None:
            self.wrong(field, f"is {value!r}, which names no time zone: use {_TIME}", "invalid_time", _TIME)
            return None
        if not timetable.FIRST_YEAR <= moment.year <= timetable.LAST_YEAR:
            years = f"must lie in the years {timetable.FIRST_YEAR} to {timetable.LAST_YEAR}"
            self.wrong(field, years, "out_of_range")
            return None
        return moment.astimezone(UTC)

    def number(self, name: str, lowest: int, highest: int) -> int | None:
        if name not in self.members:
            return None
        value = self.members[name]
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not lowest <= value <= highest:
            expected = f"a whole number from {lowest} to {highest}"
            message = f"must be {expected}, not {value!r}"
            self.wrong(f"{self.field}.{name}", message, "invalid_value", expected)
            return None
        return int(value)

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        if name not in self.members:
            return None
        value = self.members[name]
        if not isinstance(value, str) or value not in choices:
            allowed = ", ".join(choices)
            message = f"is {value!r}: use one of {allowed}"
            self.wrong(f"{self.field}.{name}", message, "invalid_value", allowed)
            return None
        return value

    def flag(self, value: Any, field: str) -> bool:
        if not isinstance(value, bool):
            self.wrong(field, f"must be true or false, not {value!r}", "invalid_type", "boolean")
        return bool(value)

    def input(self, value: Any, field: str) -> Any:
        if faults := json_faults(value, field):
            self.errors += faults
            return None
        size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
        if size > INLINE_BYTES:
            message = f"takes {size:,} bytes of JSON, at most {INLINE_BYTES:,} are stored with a schedule"
            self.wrong(field, message, "too_large")
        return value
