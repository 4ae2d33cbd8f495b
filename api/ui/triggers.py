"""Triggers: what starts runs when something happens, what each did last, and what to do about it."""

from __future__ import annotations

from typing import Any

from pipeweave import webhooks
from pipeweave.api.ui.schedules import EVERY_S, MARKS
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("schedules")

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
# The person may not give the secret: the address of a form would have it.
VERBS.add(
    Verb(
        "triggers.rotate",
        "New secret",
        "Give this webhook a new secret?",
        "The secret is made.",
        command="pipeweave triggers rotate {id}",
        fields=(
            Field(
                "overlapSeconds",
                "Seconds",
                "number",
                about="For so long, the secret before it is valid, too.",
                default="86400",
                flag="--overlap",
            ),
        ),
        shows="shown_once.html",
    )
)
VERBS.add(
    Verb(
        "triggers.delete_trigger",
        "Delete",
        "Delete this trigger? Runs that it started go on.",
        "The trigger is deleted.",
        command="pipeweave triggers delete {id}",
        after="/triggers",
        is_dangerous=True,
    )
)


@screens.add("/triggers", "triggers.html", every_s=EVERY_S)
def triggers(view: View) -> ScreenPage:
    """What starts runs when something happens: webhooks, and the ends of runs and tasks."""
    view.require_filters()
    listing = view.ask("triggers.list_triggers", view.only("cursor", limit="100"))
    return ScreenPage("Triggers", {"triggers": listing["triggers"], "cursor": listing["nextCursor"]})


@screens.add("/triggers/<id>", "trigger.html", every_s=EVERY_S)
def trigger(view: View, id: str) -> ScreenPage:
    """One trigger: what it starts, how something is delivered to it, and what came of its last fires."""
    document = view.ask("triggers.get_trigger", id=id)
    shown = {"trigger": document, "marks": MARKS, **_delivery(view, document)}
    return ScreenPage(id, shown, status="paused" if document["paused"] else None)


def _delivery(view: View, trigger: dict[str, Any]) -> dict[str, str | None]:
    """The address of a webhook, and the line that delivers to it where we have a command that signs."""
    if trigger["path"] is None:
        return {"url": None, "line": None}
    url = f"{view.host}{trigger['path']}"
    if trigger["scheme"] != webhooks.DEFAULT_SCHEME:
        return {"url": url, "line": None}
    return {"url": url, "line": webhooks.delivery_line(url, trigger["headers"])}
