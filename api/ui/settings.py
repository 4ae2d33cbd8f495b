"""The screen of the deployment: maintenance, limits, the checkup and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.api.ui import words
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("settings")

_REASON = (Field("reason", "Reason", about="Every refused caller reads it.", flag="--reason"),)


def _drains(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    maintenance = view.ask("maintenance.get_maintenance")
    number, left = maintenance["blockingTotal"], maintenance["emptyInMs"]
    goes_on = "1 open run goes on" if number == 1 else f"{number:,} open runs go on"
    about = f", in about {words.duration(left)} if it goes on as now" if number and left else ""
    return Effects(
        (
            "new triggers, queued tasks and retries are refused, in every tenant",
            f"{goes_on}; maintenance begins when nothing is open any more{about}",
        )
    )


VERBS.add(
    Verb(
        "maintenance.request_maintenance",
        "Request maintenance",
        "Request maintenance of the whole deployment?",
        "Nothing new is accepted.",
        command="pipeweave maintenance request",
        fields=_REASON,
        effects=_drains,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "maintenance.enter_maintenance",
        "Begin maintenance",
        "Begin maintenance, if no run is open?",
        "Maintenance begins when no run is open.",
        command="pipeweave maintenance enter",
        fields=_REASON,
    )
)
VERBS.add(
    Verb(
        "maintenance.exit_maintenance",
        "End maintenance",
        "Accept new work again?",
        "New work is accepted.",
        command="pipeweave maintenance exit",
        fields=_REASON,
    )
)
VERBS.add(
    Verb(
        "deployment.run_doctor",
        "Check the deployment",
        "Check every part of the deployment?",
        "The checkup is done.",
        command="pipeweave doctor",
        shows="checkup.html",
        takes_tenant=False,
    )
)


VERBS.add(
    Verb(
        "deployment.verify_history",
        "Verify a sample",
        "Rebuild the newest runs from their events?",
        "The sample is verified.",
        command="pipeweave verify --all",
        fields=(Field("limit", "Runs", "number", default="50", about="The newest, 200 at most.", flag="-n"),),
        shows="verified.html",
        takes_tenant=False,
    )
)


@screens.add("/settings", "settings.html", every_s=5.0)
def settings(view: View) -> ScreenPage:
    """What concerns the deployment, for those who may see it, and the limits of the tenant."""
    may_all = view.inside.may(view.caller, "deployment.get_config")
    shown = {
        "limits": view.ask("queue.get_limits"),
        "quotas": view.ask("tenants.get_limits", id=view.tenant),
        "at_work": view.ask("deployment.get_limit") if may_all else None,
        "maintenance": view.ask("maintenance.get_maintenance") if may_all else None,
        "history": view.ask("deployment.get_history") if may_all else None,
        "settings": view.ask("deployment.get_config")["settings"] if may_all else None,
    }
    return ScreenPage("Settings", shown)
