"""The time of a run: its ledger and its timeline, and the items of its maps.

The run's own page shows the same parts: `timeline_of` and `matrix_of` give it what they need.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from pipeweave.api.ui.screens import Redirect, ScreenPage, Screens
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.orchestrator.timeline import WORDS, PhaseKind, colour_of, svg

screens = Screens("runs")

# Steps that a page draws and lists without scripts; the element reads the others itself.
STEPS_SHOWN = 100
# What one bar is called; WORDS say what several are together.
_OF_ONE_BAR = {
    **WORDS,
    PhaseKind.FAILED_WORK: "an attempt that failed",
    PhaseKind.RETRY_DELAY: "retry delay",
    PhaseKind.ENDED: "ended",
}


def timeline_of(view: View, run_id: str) -> dict[str, Any]:
    """What `parts/timeline.html` and `parts/ledger.html` show of a run: {timeline, ledger, picture}."""
    query = view.only("stepsCursor=cursor", limit=str(STEPS_SHOWN))
    document = view.ask("run_times.get_timeline", query, id=run_id)
    title = f"Timeline of {document['pipelineId']}, {document['status']}"
    return {
        "timeline": document,
        "ledger": ledger_of(view, run_id),
        "picture": Markup(svg(document, title=title, is_page=True)),
        "words": {kind.value: word for kind, word in WORDS.items()},
        "bar_words": {kind.value: word for kind, word in _OF_ONE_BAR.items()},
        "legend": _legend(document["steps"]),
    }


def _legend(steps: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The kinds of bars of these steps, with their words and colours."""
    kinds = {bar["kind"] for step in steps for bar in step["bars"]}
    return [
        {"kind": kind.value, "word": word, "colour": colour_of(kind, "completed")}
        for kind, word in WORDS.items()
        if kind.value in kinds and kind is not PhaseKind.ITEMS
    ]


def ledger_of(view: View, run_id: str) -> dict[str, Any]:
    """What `parts/ledger.html` shows of a run: its ledger, and the place and the colour of each sum."""
    ledger: dict[str, Any] = view.ask("run_times.get_ledger", id=run_id)
    at, total = 0.0, ledger["totalMs"] or 1
    for each in ledger["sums"]:
        each["at"], each["width"] = 1000 * at / total, 1000 * each["ms"] / total
        each["colour"] = colour_of(PhaseKind(each["kind"]), "completed")
        at += each["ms"]
    return ledger


def matrix_of(view: View, run_id: str, step: str) -> dict[str, Any]:
    """What `parts/matrix.html` shows of a map: a page of its items, and all of them in short."""
    names = ("itemStatus=status", "errorCode", "order", "first", "last", "itemsCursor=cursor")
    listed = view.ask("run_times.get_items", view.only(*names, limit="50"), id=run_id, step=step)
    short = view.ask("run_times.get_items", {"view": "matrix"}, id=run_id, step=step)
    return {"items": listed, "matrix": short["matrix"], "statuses": [each.value for each in TaskStatus]}


@screens.add("/runs/<id>/timeline", "moved.html")
def timeline(view: View, id: str) -> Redirect:
    """The timeline of a run, which is a form of its steps now."""
    named = {name: list(values) for name, values in view.lists.items()}
    return Redirect(view.url(f"/runs/{quote(id, safe='')}", **{**named, "tab": "timeline"}))


@screens.add("/runs/<id>/steps/<step>/items", "run_items.html")
def items(view: View, id: str, step: str) -> ScreenPage:
    """The items of a map."""
    shown = matrix_of(view, id, step)
    return ScreenPage(f"Items of {step}", shown, shown["items"]["status"], id)
