"""The graph of a pipeline or a run as a part of a page: an element that draws it; without script, a drawing.

A screen that shows a `run`, or else a `pipeline`, includes `parts/graph.html`, which asks `graph_of`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from pipeweave.api.http import RecordedCall
from pipeweave.api.ui import words
from pipeweave.api.ui.view import View
from pipeweave.orchestrator import graph as drawing
from pipeweave.orchestrator.domain import STATUS_LETTERS
from pipeweave.orchestrator.graph import Box
from pipeweave.spec import seen

_WORDS = {letter: word for word, letter in STATUS_LETTERS.items()}


def graph_of(
    view: View,
    pipeline_id: str,
    version: int,
    *,
    run_id: str | None = None,
    body: str | None = None,
    selected: str | None = None,
    changed: Collection[str] = (),
) -> dict[str, Any]:
    """What `parts/graph.html` shows.

    Args:
        view: the parameters `view`, `open`, `direction`, `colour` and `step` of its address say what the
            graph shows.
        pipeline_id: the pipeline.
        version: its version.
        run_id: the run whose states are shown; None: those of no run.
        body: the body that the run runs; None: the whole pipeline.
        selected: the step that is selected; None: what the address says.
        changed: the steps whose code is not that of the last run that completed.
    """
    query = {
        name: view.parameters[name] for name in ("view", "open", "direction") if view.parameters.get(name)
    }
    query |= {} if body is None else {"body": body}
    path = f"/api/pipelines/{quote(pipeline_id, safe='')}/versions/{version}/graph"
    states = None if run_id is None else f"/api/runs/{run_id}/steps"
    label = f"Graph of {pipeline_id}, version {version}" + ("" if body is None else f", {body}")
    shown = {
        "src": path + (f"?{urlencode(query)}" if query else ""),
        "states": states,
        "selected": selected if selected is not None else view.parameters.get("step", ""),
        "colour": view.parameters.get("colour", ""),
        "label": label,
        "changed": " ".join(changed),
    }
    if view.is_fragment:
        # The element on the page asks for these by itself.
        view.asked += [
            RecordedCall("GET", each, tuple(query.items()) if each == path else (), None)
            for each in (path, states)
            if each
        ]
        return {**shown, "drawing": None, "boxes": 0, "legend": ()}
    graph = view.ask("graphs.get_graph", query, id=pipeline_id, version=str(version))
    known = None if run_id is None else view.ask("runs.get_steps", id=run_id)
    count = len(graph["boxes"]["keys"])
    drawn = _drawn(view, graph, known, label, changed) if count <= drawing.MOST_IN_PAGE else None
    return {**shown, "drawing": drawn, "boxes": count, "legend": _legend(graph, is_of_run=bool(run_id))}


def _drawn(
    view: View, graph: dict[str, Any], known: dict[str, Any] | None, title: str, changed: Collection[str]
) -> Markup:
    """The drawing. A box leads to its step; that of a class opens or closes it."""
    opened = set(graph["open"])

    def href(box: Box) -> str:
        if len(box.steps) == 1:
            return view.here(step=box.key)
        return view.here(view=graph["view"], open=",".join(sorted(opened ^ {box.key})) or None)

    statuses, failed, left = None, {}, {}
    if known is not None:
        counts = {int(at): each["statuses"] for at, each in known["items"].items()}
        failed = {at: each.get("f", 0) + each.get("t", 0) for at, each in counts.items()}
        pairs = zip(known["ordinals"], known["statuses"], strict=True)
        statuses = {at: seen(_WORDS[letter], failed.get(at, 0)) for at, letter in pairs}
        left = {int(at): _left(view, each) for at, each in known["waits"].items()}
    marked = {at for at, step in enumerate(graph["steps"]["ids"], 1) if step in changed}
    shape, layout = drawing.read_document(graph)
    # The drawing escapes every text and address itself.
    return Markup(
        drawing.svg(
            shape,
            layout,
            title=title,
            statuses=statuses,
            failed=failed,
            href=href,
            changed=marked,
            left=left,
        )
    )


def _left(view: View, wait: dict[str, Any]) -> str:
    """How long a step waits yet, or in which round it is: `3 h left`; empty where neither is known."""
    if wait["text"] or not wait["until"]:
        return wait["text"] or ""
    minutes = max(0.0, (datetime.fromisoformat(wait["until"]) - view.now).total_seconds() / 60)
    if minutes < 60:
        return f"{minutes:.0f} min left"
    return f"{minutes / 60:.1f} h left" if minutes < 2 * 24 * 60 else f"{minutes / (24 * 60):.1f} d left"


def _legend(graph: dict[str, Any], *, is_of_run: bool) -> list[dict[str, str]]:
    """The shapes and small marks that this graph has, with their words: {word, path}."""
    shapes = {words.task_word(each) for each in graph["tasks"] if words.is_engine(each)}
    rhombus = [{"word": "choice", "path": "M0 5L5 0L10 5L5 10Z"}] if drawing.CHOICE_WORD in shapes else []
    marks = [{"word": word, "path": path} for word, path in drawing.ICONS.items() if word in shapes]
    pale = [{"word": "not taken", "path": ""}] if is_of_run and shapes else []
    return [*rhombus, *marks, *pale]
