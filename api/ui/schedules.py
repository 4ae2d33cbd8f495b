"""Schedules: when runs begin by the clock, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pipeweave.api.ui.schedule_fires import LastFires, lag_ms
from pipeweave.api.ui.schedule_week import Week
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.spec import timetable
from pipeweave.spec.timetable import FIRST_YEAR, LAST_YEAR

screens = Screens("schedules")

EVERY_S = 5.0
# The mark of what a fire came to.
MARKS = {"fired": "completed", "skipped": "skipped", "waiting": "waiting", "failed": "failed"}

# Fires of the strip of each schedule in the list.
LAST_FIRES = "20"
STATES = ("on", "failed", "paused", "over")
FILTERS = ("pipelineId", "state")
# The policies in words.
MISSED = {
    "skip": "nothing starts for times that passed more than a minute ago",
    "one": "one run starts for all times that passed more than a minute ago",
    "all": "a run starts for each time that passed, up to 100 of them",
}
OVERLAP = {
    "allow": "another one starts beside it",
    "skip": "a due time is skipped",
    "queue": "one due time waits for its end, further ones are skipped",
    "cancel-old": "the open run is cancelled, and the new one starts",
}


def _backfills(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    if "from" not in body or "to" not in body:
        return Effects(["give the first time and the end of the range"])
    backfill = view.ask("schedules.backfill", body={**body, "dryRun": True}, id=ids["id"])
    count = len(backfill["times"]) - backfill["known"]
    runs = "1 run" if count == 1 else f"{count:,} runs"
    sentences = [f"starts {runs}, one for each due time that nothing was decided about"]
    if backfill["known"]:
        sentences.append(f"{backfill['known']:,} due times were decided before, and start nothing")
    if backfill["nextFrom"]:
        sentences.append(f"more follow: send it again from `{backfill['nextFrom']}`")
    return Effects(sentences, count, backfill["times"][:5] if count else ())


def _range(view: View) -> Sequence[Field]:
    """The fields of a backfill, by the clocks by which the schedule goes."""
    id = view.parameters.get("id")
    zone = view.ask("schedules.get_schedule", id=id)["timeZone"] if id else "UTC"
    clocks = f"By the clocks of {zone}" + (", the schedule's zone." if zone != "UTC" else ".")
    end = f"{clocks} Times from here on do not count."
    return (
        Field("from", "First time", "moment", clocks, is_required=True, zone=zone),
        Field("to", "End", "moment", end, is_required=True, zone=zone),
        Field("limit", "At most", "number", default="100", flag="--limit"),
    )


VERBS.add(
    Verb(
        "schedules.pause",
        "Pause",
        "Pause this schedule?",
        "The schedule is paused.",
        command="pipeweave schedule pause {id}",
    )
)
VERBS.add(
    Verb(
        "schedules.resume",
        "Resume",
        "Resume this schedule?",
        "The schedule is resumed.",
        command="pipeweave schedule resume {id}",
    )
)
VERBS.add(
    Verb(
        "schedules.fire",
        "Fire now",
        "Start a run of this schedule now?",
        "The run has begun.",
        command="pipeweave schedule fire {id}",
        after="/runs/{pipelineRunId}",
    )
)
VERBS.add(
    Verb(
        "schedules.backfill",
        "Backfill",
        "Start the runs of times that have passed?",
        "The runs have begun.",
        command="pipeweave schedule backfill {id} {from} {to}",
        fields_of=_range,
        effects=_backfills,
    )
)
VERBS.add(
    Verb(
        "schedules.delete_schedule",
        "Delete",
        "Delete this schedule?",
        "The schedule is deleted.",
        command="pipeweave schedule delete {id}",
        after="/schedules",
        is_dangerous=True,
    )
)


@screens.add("/schedules", "schedules.html", every_s=EVERY_S)
def schedules(view: View) -> ScreenPage:
    """The schedules by id, with their next time and what came of the last one; or the times of a week."""
    view.require_filters(*FILTERS, "tab", "week", "zone")
    is_week = view.parameters.get("tab") == "week"
    recent = None if is_week else LAST_FIRES
    wanted = view.only(*FILTERS, "cursor", limit="100", recent=recent)
    listing = view.ask("schedules.list_schedules", wanted)
    zones = {each["timeZone"] for each in listing["schedules"]} | {"UTC"}
    shown: dict[str, Any] = {
        "schedules": listing["schedules"],
        "last_fires": {each["id"]: LastFires.of(each["lastFires"]) for each in listing["schedules"]},
        "cursor": listing["nextCursor"],
        "tab": "week" if is_week else "list",
        "states": STATES,
        "marks": MARKS,
        "is_filtered": view.has_any(*FILTERS),
    }
    return ScreenPage("Schedules", shown | (_week(view, zones) if is_week else {}))


def _week(view: View, zones: set[str]) -> dict[str, Any]:
    zone = _zone(view.parameters.get("zone") or _usual(zones))
    now = view.now
    week = Week.of(_day(view.parameters.get("week")) or now.astimezone(zone).date(), zone)
    wanted = {"from": week.begin.isoformat(), "to": week.end.isoformat()}
    calendar = view.ask("schedules.calendar", {**wanted, **view.only("pipelineId")})
    return {
        "week": week,
        "days": week.days(now),
        "rows": week.rows(calendar["fires"], now),
        "calendar": calendar,
        "zones": sorted(zones | {zone.key}),
        "before": str(week.monday - timedelta(days=7)),
        "after": str(week.monday + timedelta(days=7)),
    }


def _usual(zones: set[str]) -> str:
    """The zone of the clocks that are shown at first: that of the schedules if they have one alone."""
    others = zones - {"UTC"}
    return next(iter(others)) if len(others) == 1 else "UTC"


def _zone(name: str) -> ZoneInfo:
    try:
        return timetable.zone(name)
    except ValueError as error:
        raise InvalidInput(str(error), errors=[FieldError("zone", str(error), "unknown")]) from None


def _day(text: str | None) -> date | None:
    """A day of the address.

    Raises:
        InvalidInput: it is none, or lies in years that no schedule has.
    """
    if not text:
        return None
    message = f"must be a day such as 2026-11-23, in the years {FIRST_YEAR} to {LAST_YEAR}"
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or not FIRST_YEAR < day.year < LAST_YEAR:
        raise InvalidInput(f"week {message}", errors=[FieldError("week", message, "invalid")])
    return day


@screens.add("/schedules/<id>", "schedule.html", every_s=EVERY_S)
def schedule(view: View, id: str) -> ScreenPage:
    """One schedule: its times in words and in its zone, its policies, and its last fires."""
    document = view.ask("schedules.get_schedule", id=id)
    shown = {
        "schedule": document,
        "fires": [{**each, "lagMs": lag_ms(each)} for each in document["lastFires"]],
        "next": _in_zone(document["nextFires"], document["timeZone"]),
        "marks": MARKS,
        "missed": MISSED,
        "overlap": OVERLAP,
    }
    return ScreenPage(id, shown, status="paused" if document["paused"] else None)


def _in_zone(times: Sequence[str], zone: str) -> list[dict[str, str]]:
    """Times as clocks in this zone show them, with a mark where these are set forward or back before."""
    shown: list[dict[str, str]] = []
    offset = None
    for each in times:
        at = datetime.fromisoformat(each).astimezone(ZoneInfo(zone))
        change = "" if offset in (None, at.utcoffset()) else "clocks were changed before"
        offset = at.utcoffset()
        shown.append({"at": each, "local": f"{at:%a} {at.day} {at:%b %Y, %H:%M:%S %Z}", "change": change})
    return shown
