"""The list of pipelines, and one pipeline: its graph, the grid of its runs, its runs, its versions, and what
they came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pipeweave.api.ui import confirm, figures, periods, run_plan, step_sentences, triggering
from pipeweave.api.ui.runs import SHOWN
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("pipelines")

TABS = [
    ("graph", "Graph"),
    ("grid", "Grid"),
    ("runs", "Runs"),
    ("versions", "Versions"),
    ("statistics", "Statistics"),
    ("trigger", "Trigger"),
]
# Source of a version -> where it came from.
SOURCES = {
    "decorator": "the code of a worker",
    "document": "a document of a worker",
    "derived": "the tasks of a service",
    "api": "a document over HTTP",
}
# The verb whose form a tab shows.
_START = "pipelines.trigger"
# Recent runs whose inputs the trigger form offers.
OFFERED = 10


_REASON = Field("reason", "Reason", about="For the audit.", flag="--reason")
# Whoever confirms has seen which version is current.
_SEEN = Field("expectedVersion", "Current version", kind="hidden", items="number")


def _promotes(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    shown = view.ask("pipelines.get_pipeline", id=ids["id"])["pipeline"]
    version = body["version"] or shown["latestVersion"]
    newer = "and newer ones, as they are stored" if body["version"] is None else "until another is promoted"
    return Effects(
        [
            f"version {version} starts instead of version {shown['currentVersion']}, {newer}",
            "runs keep the version they started with",
        ]
    )


def _goes_back(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    shown = view.ask("pipelines.get_pipeline", id=ids["id"])["pipeline"]
    return Effects(
        [
            f"the version that was current before version {shown['currentVersion']} starts again",
            "runs keep the version they started with",
        ]
    )


VERBS.add(
    Verb(
        "pipelines.promote",
        "Promote",
        "Promote this version?",
        "The version is current.",
        command="pipeweave pipelines promote {id} {version}",
        fields=(Field("version", "Version", kind="number", is_required=True), _SEEN, _REASON),
        effects=_promotes,
    )
)
VERBS.add(
    Verb(
        "pipelines.promote",
        "Follow the newest",
        "Follow the newest version?",
        "The newest version is current.",
        command="pipeweave pipelines promote {id} latest",
        fields=(_SEEN, _REASON),
        body={"version": None},
        effects=_promotes,
    ),
    "latest",
)
VERBS.add(
    Verb(
        "pipelines.roll_back",
        "Roll back",
        "Go back to the version before?",
        "The version before is current.",
        command="pipeweave pipelines rollback {id}",
        fields=(_SEEN, _REASON),
        effects=_goes_back,
    )
)


@screens.add("/pipelines", "pipelines.html")
def pipelines(view: View) -> ScreenPage:
    """The tenant's pipelines, each with its last runs."""
    listing = view.ask("pipelines.list_pipelines", view.only("cursor", limit="25", recent="20"))
    ids = [each["id"] for each in listing["pipelines"]]
    # Without a time, it is the last day.
    rows = view.ask_now_and_then("statistics.by_pipeline", {"pipelineId": ids})["pipelines"] if ids else []
    shown = {
        "pipelines": listing["pipelines"],
        "cursor": listing["nextCursor"],
        "figures": {each["pipelineId"]: each for each in rows},
    }
    return ScreenPage("Pipelines", shown)


@screens.add("/pipelines/<id>", "pipeline.html")
def pipeline(view: View, id: str) -> ScreenPage:
    """One pipeline; `tab` chooses what of it is shown."""
    document = view.ask("pipelines.get_pipeline", view.only("version"), id=id)["pipeline"]
    tab = view.parameters.get("tab", "graph")
    read = _TABS.get(tab, _graph)
    shown = {"pipeline": document, "tab": tab if tab in _TABS else "graph", "tabs": TABS}
    return ScreenPage(id, {**shown, **read(view, id, document)})


def _graph(view: View, id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    spec = document["spec"]
    return {"steps": step_sentences.all_steps(spec), "holds": step_sentences.of_pipeline(spec)}


def _grid(view: View, id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    names = ("runs", "steps", "before", "after", "fromStep", "view", "open")
    grid = view.ask("pipelines.get_grid", view.only(*names), id=id)
    longest = max((each["durationMs"] or 0 for each in grid["runs"]), default=0)
    # A class in the grid opens and closes with the others as they are.
    opened = set(grid["open"])
    toggled = {
        each["id"]: ",".join(sorted(opened ^ {each["id"]})) or None
        for each in grid["steps"]
        if each["stepCount"] > 1
    }
    return {"grid": grid, "longest": longest, "toggled": toggled}


def _runs(view: View, id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    listed = view.ask("runs.list_runs", view.only("status", "cursor", limit="50", pipelineId=id))
    return {"runs": listed["runs"], "cursor": listed["nextCursor"], "columns": SHOWN}


def _versions(view: View, id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    listed = view.ask("pipelines.list_versions", view.only("cursor", limit="50"), id=id)
    before, after = view.parameters.get("from"), view.parameters.get("to")
    numbers = [each["version"] for each in listed["versions"]]
    if before is None and after is None and len(numbers) > 1:
        before, after = str(numbers[1]), str(numbers[0])
    differences = None
    if before and after:
        differences = view.ask("graphs.get_differences", id=id, before=before, after=after)
    return {
        "versions": listed["versions"],
        "cursor": listed["nextCursor"],
        "differences": differences,
        "sources": SOURCES,
    }


def _statistics(view: View, id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    period = periods.chosen(view)
    counted = view.ask_now_and_then("statistics.pipeline", period.query, id=id)
    tasks = [each["taskId"] for each in counted["tasks"]["rows"]]
    query = {"taskId": tasks, "from": period.begin}
    rows = view.ask_now_and_then("statistics.by_task", query)["tasks"] if tasks else []
    bars = f"{period.words}, each step {counted['bucket']}"

    def link(begin: datetime, end: datetime) -> str:
        times = {"createdAfter": periods.text(begin), "createdBefore": periods.text(end)}
        return view.url("/runs", pipelineId=id, **times)

    return {
        "period": period.name,
        "periods": periods.PERIODS,
        "counted": counted,
        "figures": counted["summary"],
        "charts_shown": [
            figures.ends(counted, f"Runs that ended, {bars}", link=link),
            figures.durations(counted, f"How long they took, {bars}"),
            figures.durations(counted, f"How long they waited to be admitted, {bars}", "waitMs"),
        ],
        "heat": figures.by_task(counted["tasks"], "p95 of attempts: the darker, the longer"),
        "slowest": sorted(rows, key=lambda each: -(each["durationMs"]["p95"] or 0)),
    }


def _trigger(view: View, id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    recent = view.ask("runs.list_runs", {"pipelineId": id, "limit": str(OFFERED)})["runs"]
    schema = triggering.schema_of(view, document["spec"])
    shown = {"recent": recent, "schema": schema, "verb": None}
    if not view.may(_START):
        return {**shown, "plan": run_plan.plan_of(view, document, view.ask("pipelines.dry_run", id=id))}
    addressed = {"id": id, "next": view.here()}
    lists = {**view.lists, **{name: [text] for name, text in addressed.items()}}
    asked = replace(view, parameters={**view.parameters, **addressed}, lists=lists)
    return {**shown, **confirm.page(asked, _START).shown}


_TABS = {
    "graph": _graph,
    "grid": _grid,
    "runs": _runs,
    "versions": _versions,
    "statistics": _statistics,
    "trigger": _trigger,
}
