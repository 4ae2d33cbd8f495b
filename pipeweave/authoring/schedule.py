"""Define `Schedule`: when runs of a pipeline begin by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pipeweave.durations import milliseconds
from pipeweave.errors import FieldError, InvalidSpec
from pipeweave.spec import DeclaredSchedule, read_schedule

# The arguments, as the API and documents name them.
_NAMES = {
    "cron": "cron",
    "every": "everyMs",
    "at": "at",
    "time_zone": "timeZone",
    "input": "input",
    "missed": "missedPolicy",
    "overlap": "overlapPolicy",
    "jitter": "jitterMs",
    "start_at": "startAt",
    "end_at": "endAt",
    "paused": "paused",
}
_ARGUMENTS = {name: argument for argument, name in _NAMES.items()}
_EVERY = "a timedelta, seconds, or a text such as 90s, 15m or 1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When runs of a pipeline begin by themselves: `@pipeline(schedule=Schedule(cron="30 2 * * *"))`.

    One of `cron`, `every` and `at` is given.

    Args:
        cron: a line of five fields, or of six with seconds in the first; or `@daily` and the like.
        every: an interval of 1 s to 366 days: a timedelta, seconds, or a text such as `15m`.
        at: the only time: an aware datetime, or a text such as `2030-01-01T00:00:00Z`.
        time_zone: of the cron line: a name such as `Europe/Berlin`.
        input: of the runs; None for an empty object.
        missed: what becomes of times that were missed: `one`, `skip` or `all`.
        overlap: what becomes of a time while a run of the schedule is open: `allow`, `skip`, `queue` or
            `cancel-old`.
        jitter: each due time starts up to so much later: as `every`, at most a day.
        start_at: nothing is due before it: as `at`.
        end_at: nothing is due after it: as `at`.
        paused: whether it is paused when it is stored for the first time.

    Raises:
        InvalidSpec: an argument is invalid; each FieldError names one argument.
    """

    cron: str | None = None
    every: timedelta | float | str | None = None
    at: datetime | str | None = None
    time_zone: str = "UTC"
    input: Any = None
    missed: Literal["skip", "one", "all"] = "one"
    overlap: Literal["allow", "skip", "queue", "cancel-old"] = "allow"
    jitter: timedelta | float | str = 0
    start_at: datetime | str | None = None
    end_at: datetime | str | None = None
    paused: bool = False

    def __post_init__(self) -> None:
        self.declared()

    def declared(self) -> DeclaredSchedule:
        """The same for a pipeline's spec.

        Raises:
            InvalidSpec: an argument is invalid.
        """
        schedule, errors = read_schedule(self.to_json(), "")
        if errors or schedule is None:
            named = [_of_argument(each) for each in errors]
            more = f" (and {len(named) - 1} more)" if named[1:] else ""
            first = f"{named[0].field} {named[0].message}".strip()
            raise InvalidSpec(f"Schedule: {first}{more}", errors=named)
        return schedule

    def to_json(self) -> dict[str, Any]:
        """The same as a document has it."""
        members = {name: _json(getattr(self, argument)) for argument, name in _NAMES.items()}
        members |= {"everyMs": _ms(self.every), "jitterMs": _ms(self.jitter)}
        return {name: value for name, value in members.items() if value is not None}


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _ms(value: Any) -> Any:
    """A duration in ms; a value that is none stays, so that it is refused."""
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if value is None or value == 0:
        return value
    duration = milliseconds(value)
    return str(value) if duration is None else duration


def _of_argument(error: FieldError) -> FieldError:
    name = error.field.lstrip(".")
    head, dot, rest = name.partition(".")
    argument = _ARGUMENTS.get(head, head)
    if argument in ("every", "jitter"):
        return replace(error, field=argument, message=f"must be {_EVERY}", expected=_EVERY)
    message = error.message.replace("everyMs", "every").replace("startAt", "start_at")
    return replace(error, field=f"{argument}{dot}{rest}", message=message)
