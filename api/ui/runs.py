"""The list of runs."""

from __future__ import annotations

from pipeweave.api.ui.screens import Page, Screens
from pipeweave.api.ui.verbs import REASON, VERBS, Verb
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import RunStatus

screens = Screens("runs")

VERBS.add(
    Verb(
        "runs.cancel",
        "Cancel run",
        "Cancel this run?",
        "The run is cancelled.",
        command="pipeweave cancel {id}",
        fields=(REASON,),
        is_dangerous=True,
    )
)


@screens.add("/runs", "runs.html")
def runs(view: View) -> Page:
    """The tenant's runs, newest first."""
    found = view.ask("runs.list_runs", view.only("status", "pipelineId", "cursor", limit="50"))
    shown = {
        "runs": found["runs"],
        "cursor": found["nextCursor"],
        "statuses": [each.value for each in RunStatus],
    }
    return Page("Runs", shown)
