"""The list of workers, and one worker; their drain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pipeweave.api.ui import periods
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("workers")

# Heartbeats come each second; nothing that happens to a worker is an event of a run.
EVERY_S = 5.0

# Task runs of the last hour that the page of a worker lists.
RAN = 50
_HOUR = timedelta(hours=1)
FILTERS = ("state", "service")

# The mark of each state; its word is that of the API.
MARKS = {
    "running": "running",
    "stalled": "warning",
    "draining": "paused",
    "stopped": "cancelled",
    "crashed": "failed",
}


def _drains(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    worker = view.ask("workers.get_worker", id=ids["id"])["worker"]
    running = len(worker["taskRuns"])
    others = view.ask("workers.list_workers", {"service": worker["serviceId"], "state": "running"})["workers"]
    left = sum(each["id"] != worker["id"] for each in others)
    goes_on = f"{running} task run{'' if running == 1 else 's'} of it go{'es' if running == 1 else ''} on"
    sentences = [f"`{worker['name']}` takes nothing more; {goes_on}"]
    if left:
        sentences.append(f"{left} other running worker{'' if left == 1 else 's'} of `{worker['serviceId']}`")
    else:
        sentences.append(f"no other running worker of `{worker['serviceId']}`: its work waits")
    return Effects(sentences)


VERBS.add(
    Verb(
        "workers.drain",
        "Drain",
        "Drain this worker?",
        "The worker takes nothing more.",
        command="pipeweave workers drain {id}",
        fields=(Field("reason", "Reason", about="Shown wherever the worker is.", flag="--reason"),),
        effects=_drains,
    )
)
VERBS.add(
    Verb(
        "workers.resume",
        "Resume",
        "Let this worker take work again?",
        "The worker takes work again.",
        command="pipeweave workers resume {id}",
    )
)


@screens.add("/workers", "workers.html", every_s=EVERY_S)
def workers(view: View) -> ScreenPage:
    """The workers that live, and those that ended in the last week."""
    view.require_filters(*FILTERS)
    listing = view.ask("workers.list_workers", view.only(*FILTERS, "cursor", limit="100"))
    shown = {
        "workers": listing["workers"],
        "counts": listing["counts"],
        "uptimes": listing["uptime"],
        "cursor": listing["nextCursor"],
        "marks": MARKS,
        "is_filtered": view.has_any(*FILTERS),
    }
    return ScreenPage("Workers", shown)


@screens.add("/workers/<id>", "worker.html", every_s=EVERY_S)
def worker(view: View, id: str) -> ScreenPage:
    """One worker: what it is, what it has loaded, what it runs now, and what it ran in the last hour."""
    document = view.ask("workers.get_worker", id=id)["worker"]
    name = f"{document['serviceId']} {document['name']}" if document["kind"] == "http" else id
    query = {"worker": name, "createdAfter": periods.since(_HOUR), "limit": str(RAN)}
    ran = view.ask_now_and_then("runs.find_task_runs", query)
    shown = {
        "worker": document,
        "marks": MARKS,
        "worker_name": name,
        "ran": ran["taskRuns"],
        "counts": Counter(each["status"] for each in ran["taskRuns"]),
        "has_more": ran["nextCursor"] is not None,
    }
    return ScreenPage(document["name"], shown)
