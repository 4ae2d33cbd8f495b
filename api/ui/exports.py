"""Exports that a browser saves: the audit, and what belongs to the runs that a list shows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from pipeweave.api.http.inside import Query
from pipeweave.api.ui import periods
from pipeweave.api.ui.screens import LinesFile, Screens
from pipeweave.api.ui.view import View
from pipeweave.errors import NotFound

screens = Screens("runs")

# Parameters of the address that choose runs, as the API names them -> the option of commands that says so.
RUN_FILTERS = {
    "status": "--status",
    "pipelineId": "--pipeline",
    "createdAfter": "--since",
    "createdBefore": "--until",
    "triggeredBy": "--triggered-by",
    "text": "--text",
    "meta": "--meta",
    "version": "--pipeline-version",
    "minMs": "--min-ms",
    "taskId": "--task",
}
# Which of them are times; they count more than `window`.
TIMES = ("createdAfter", "createdBefore")
AUDIT_FILTERS = ("actor", "verb", "object", "since", "until")
# What is exported -> its words.
KINDS = {
    "runs": "Runs",
    "task-runs": "Task runs",
    "attempts": "Attempts",
    "events": "Events",
    "logs": "Logs",
}


@screens.file("/export/<id>")
def export(view: View, id: str) -> LinesFile:
    """The export of this kind, of what the same filters show in a list.

    Raises:
        NotFound: there is no such export.
    """
    if id == "audit":
        return _file(view, id, "audit.export_entries", audit_query(view))
    if id not in KINDS:
        raise NotFound(f"there is no export of {id[:80]!r}", hint=f"there are {', '.join(KINDS)} and audit")
    return _file(view, id, f"exports.export_{id.replace('-', '_')}", run_query(view))


def run_query(view: View) -> dict[str, str | Sequence[str] | None]:
    """The filters of a list of runs as its address has them."""
    query = {**view.only(*RUN_FILTERS), **view.instants(*TIMES)}
    window = periods.PERIODS.get(view.parameters.get("window", ""))
    if window is not None and not view.has_any(*TIMES):
        query["createdAfter"] = periods.since(window)
    return query


def audit_query(view: View, *names: str, **more: str) -> dict[str, str | Sequence[str] | None]:
    """The filters of the audit as its address has them, and further parameters; see `View.only`."""
    return {**view.only(*AUDIT_FILTERS, *names, **more), **view.instants("since", "until")}


def export_command(view: View) -> str:
    """The command that writes the runs of a list, however many they are."""
    words = ["pipeweave", "export", "runs", *([] if view.tenant == "default" else ["--tenant", view.tenant])]
    for name, value in run_query(view).items():
        values = [value] if isinstance(value, str) else value or ()
        words += [word for each in values if each for word in (RUN_FILTERS[name], each)]
    return shlex.join([*words, "--output", "runs.ndjson"])


def _file(view: View, kind: str, operation: str, query: Query) -> LinesFile:
    day = view.now.strftime("%Y-%m-%d")
    return LinesFile(view.lines(operation, query), f"{view.tenant}-{kind}-{day}.ndjson")


def export_links(view: View) -> list[tuple[str, str]]:
    """The words and the address of each export of what a list of runs shows."""
    filters: dict[str, Any] = {name: view.lists.get(name) or None for name in (*RUN_FILTERS, "window")}
    return [(words, view.url(f"/export/{kind}", **filters)) for kind, words in KINDS.items()]
