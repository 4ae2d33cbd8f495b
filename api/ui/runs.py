"""The list of runs; run_verbs.py has the verbs for one of them, bulk.py those for many."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipeweave.api.http.inside import Query
from pipeweave.api.ui import figures, periods, saved_views
from pipeweave.api.ui.chart_parts import Chart
from pipeweave.api.ui.exports import RUN_FILTERS, TIMES, export_command, export_links, run_query
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.view import View
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.domain import RunStatus

screens = Screens("runs")

# Parameters of the address that choose runs, as the API names them.
FILTERS = tuple(RUN_FILTERS)
_LABELS = {
    "pipelineId": "pipeline",
    "createdAfter": "since",
    "createdBefore": "before",
    "triggeredBy": "began by",
    "minMs": "took ms ≥",
    "taskId": "task",
}
# What statistics know of a run; a chart beside another filter shows more than the list.
_COUNTED = {"status", "pipelineId", "createdAfter", "createdBefore", "window"}
COLUMNS = {
    "status": "Status",
    "pipeline": "Pipeline",
    "run": "Run",
    "error": "Error",
    "took": "Took",
    "created": "Created",
    "by": "Began by",
    "priority": "Priority",
    "steps": "Task runs",
    "metadata": "Metadata",
}
# Those that a list has at first.
SHOWN = {name: title for name, title in COLUMNS.items() if name not in ("priority", "steps", "metadata")}
# How many of a status are shown as a number.
_MOST_SHOWN = 999
# Statuses that are seldom looked for.
RARE = ("pending", "paused", "error_handling")
TRIGGERS = ("api", "schedule", "webhook", "event", "rerun", "redrive", "transaction", "parent")


@screens.add("/runs", "runs.html")
def runs(view: View) -> ScreenPage:
    """The tenant's runs, newest first."""
    view.require_filters(*FILTERS, "window", "cols")
    query = {**run_query(view), **view.only("cursor", limit="50")}
    listing = view.ask("runs.list_runs", query)
    shown = {
        "runs": listing["runs"],
        "cursor": listing["nextCursor"],
        "scanned": listing["scanned"],
        "scanned_to": listing["scannedTo"],
        "statuses": [each.value for each in RunStatus],
        "rare_statuses": RARE,
        "chosen": view.lists.get("status", ()),
        "windows": periods.PERIODS,
        "time_words": _time_words(view),
        "triggers": TRIGGERS,
        "chips": _chips(view),
        "columns": _columns(view),
        "all_columns": COLUMNS,
        "bulk": _bulk(query),
        "exports": export_links(view),
        "export_command": export_command(view),
        **saved_views.shown(view, "runs", (*FILTERS, "window", "cols")),
        "is_narrowed": _is_narrowed(view),
        "chart": _charted(view) if listing["runs"] or view.parameters else None,
        "counts": _counts(view, query),
    }
    return ScreenPage("Runs", shown)


def _charted(view: View) -> Chart | None:
    """The chart of the runs over the time that the list shows, without one the last day."""
    period, pipelines = _period(view), [each for each in view.lists.get("pipelineId", ()) if each]
    if period is None or len(pipelines) > 1:
        return None

    def ask(period: periods.Period) -> Any:
        query = {**period.query, "pipelineId": pipelines[0] if pipelines else None}
        return view.ask_now_and_then("statistics.runs", query)

    try:
        period, statistics = figures.fitted(ask, period, is_chosen=view.has_any("window", *TIMES))
    except (NotFound, InvalidInput):
        return None
    return _chart(view, period, statistics)


def _counts(view: View, query: Query) -> dict[str, str]:
    """What stands beside each status: how many runs of this time and these pipelines have it. Nothing beside
    other filters, by which runs would have to be looked through.
    """
    if _is_narrowed(view):
        return {}
    asked = {name: query[name] for name in ("pipelineId", *TIMES) if query.get(name)}
    try:
        answer = view.ask_now_and_then("runs.count_runs", asked)
    except InvalidInput:
        return {}
    more = answer["atLeast"]
    return {
        status: f"{min(number, _MOST_SHOWN)}+" if status in more else str(number)
        for status, number in answer["counts"].items()
        if number
    }


def _chart(view: View, period: periods.Period, statistics: Mapping[str, Any]) -> Chart | None:
    statuses = [each for each in figures.RUN_ENDS if each in view.lists.get("status", figures.RUN_ENDS)]
    title = f"Runs that ended, {period.words}, each bar {statistics['bucket']}"
    return figures.ends(statistics, title, statuses, _narrowed(view)) if statuses else None


def _is_narrowed(view: View) -> bool:
    """Whether a filter is set that statistics know nothing of."""
    return view.has_any(*(name for name in FILTERS if name not in _COUNTED))


def _time_words(view: View) -> str:
    """What the list says of its time."""
    if view.has_any(*TIMES):
        return "chosen"
    window = view.parameters.get("window")
    return f"last {window}" if window in periods.PERIODS else "any"


def _period(view: View) -> periods.Period | None:
    """The time that the list shows; None of one that makes no sense."""
    times = view.instants(*TIMES)
    after, before = (times.get(name) for name in TIMES)
    if not after:
        return periods.chosen(view)
    try:
        begin, end = (
            datetime.fromisoformat(str(after)),
            datetime.fromisoformat(str(before)) if before else None,
        )
        return periods.between(begin, end)
    except (ValueError, OverflowError):
        return None


def _narrowed(view: View) -> figures.Link:
    """This list, of runs that were created in a stretch of time."""

    def link(begin: datetime, end: datetime) -> str:
        times = {"createdAfter": periods.text(begin), "createdBefore": periods.text(end)}
        return view.here(window=None, **times)

    return link


def _columns(view: View) -> dict[str, str]:
    """The columns that the address names, with their titles."""
    names = [name for text in view.lists.get("cols", ()) for name in text.split(",")]
    columns = {name: COLUMNS[name] for name in names if name in COLUMNS} or SHOWN
    # Its link is what a row opens.
    return {**columns, "run": COLUMNS["run"]} if "run" not in columns else columns


def _chips(view: View) -> list[tuple[str, str]]:
    """The filters that are set, besides status: their words, and the address without them."""
    chips = []
    for name in (*(each for each in FILTERS if each != "status"), "window"):
        values = [each for each in view.lists.get(name, ()) if each]
        for value in values:
            others = [each for each in values if each != value]
            chips.append((f"{_LABELS.get(name, name)} {value}", view.here(**{name: others or None})))
    return chips


def _bulk(query: Mapping[str, Any]) -> dict[str, Any]:
    """The filter of the list as the verbs for many runs take it; empty without one."""
    return {f"filter.{name}": query[name] for name in FILTERS if query.get(name)}
