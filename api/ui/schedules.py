"""Schedules and triggers: when runs begin by themselves, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pipeweave.api.ui.screens import Page, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("schedules")

EVERY_S = 5.0
# The mark of what a fire came to.
MARKS = {"fired": "completed", "skipped": "skipped", "waiting": "waiting", "failed": "failed"}


def _backfills(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    if "from" not in body or "to" not in body:
        return Effects(["give the first time and the end of the range"])
    found = view.ask("schedules.backfill", body={**body, "dryRun": True}, id=ids["id"])
    count = len(found["times"])
    sentences = [f"starts {count:,} run{'' if count == 1 else 's'}, one for each due time of the range"]
    if found["known"]:
        sentences.append(f"{found['known']:,} due times were decided before, and start nothing")
    if found["nextFrom"]:
        sentences.append(f"more follow: send it again from `{found['nextFrom']}`")
    return Effects(sentences, count, found["times"][:5])


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
        fields=(
            Field("from", "First time", about="For example 2026-11-01T00:00:00Z.", is_required=True),
            Field("to", "End", about="Times from here on do not count.", is_required=True),
            Field("limit", "At most", "number", default="100", flag="--limit"),
        ),
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
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "triggers.pause",
        "Pause",
        "Pause this trigger?",
        "The trigger is paused.",
        command="pipeweave triggers pause {id}",
    )
)
VERBS.add(
    Verb(
        "triggers.resume",
        "Resume",
        "Resume this trigger?",
        "The trigger is resumed.",
        command="pipeweave triggers resume {id}",
    )
)


@screens.add("/schedules", "schedules.html", every_s=EVERY_S)
def schedules(view: View) -> Page:
    """The schedules by id, with their next time and what came of the last one."""
    found = view.ask("schedules.list_schedules", view.only("pipelineId", "cursor", limit="100"))
    return Page("Schedules", {"schedules": found["schedules"], "cursor": found["nextCursor"]})


@screens.add("/schedules/<id>", "schedule.html", every_s=EVERY_S)
def schedule(view: View, id: str) -> Page:
    """One schedule: its times in words and in its zone, its policies, and its last fires."""
    found = view.ask("schedules.get_schedule", id=id)
    shown = {
        "schedule": found,
        "next": _in_zone(found["nextFires"], found["timeZone"]),
        "marks": MARKS,
    }
    return Page(id, shown, status="paused" if found["paused"] else None)


def _in_zone(times: Sequence[str], zone: str) -> list[dict[str, str]]:
    """Times as clocks in this zone show them, with a mark where these are set forward or back before."""
    shown: list[dict[str, str]] = []
    offset = None
    for each in times:
        at = datetime.fromisoformat(each).astimezone(ZoneInfo(zone))
        change = "" if offset in (None, at.utcoffset()) else "clocks were changed before"
        offset = at.utcoffset()
        shown.append({"at": each, "local": f"{at:%a %Y-%m-%d %H:%M:%S %Z}", "change": change})
    return shown


@screens.add("/triggers", "triggers.html", every_s=EVERY_S)
def triggers(view: View) -> Page:
    """What starts runs when something happens: webhooks, and the ends of runs and tasks."""
    found = view.ask("triggers.list_triggers", view.only("cursor", limit="100"))
    return Page("Triggers", {"triggers": found["triggers"], "cursor": found["nextCursor"]})
