"""Enqueued runs: what programs have put into the database and has not started, or never will."""

from __future__ import annotations

from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.view import View

screens = Screens("queues")

EVERY_S = 2.0
# Status -> its words.
STATUSES = {"waiting": "wait to start", "refused": "refused", "repeated": "token of a run before"}


@screens.add("/enqueued", "enqueued.html", every_s=EVERY_S)
def enqueued(view: View) -> ScreenPage:
    """The enqueued runs with one status, and why they have not started."""
    view.require_filters("status")
    answer = view.ask("enqueued.list_enqueued", view.only("status", "cursor", limit="50"))
    shown = {
        "found": answer,
        "rows": answer["enqueuedRuns"],
        "cursor": answer["nextCursor"],
        "status": view.parameters.get("status") or "waiting",
        "statuses": STATUSES,
    }
    return ScreenPage("Enqueued runs", shown)
