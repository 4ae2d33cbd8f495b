"""The plan of a run before it starts: its levels, how wide it gets, what would hold it, how long it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pipeweave.api.ui.view import View

# Levels, and steps of one level, that are listed.
LEVELS_SHOWN, STEPS_SHOWN = 50, 6
FAULTS_SHOWN = 10
# Steps of the newest run that are asked how many items they had.
_MAPS_ASKED = "100"

Document = Mapping[str, Any]


def plan_of(view: View, pipeline: Document, plan: Document) -> dict[str, Any]:
    """What `parts/plan.html` shows: {levels, levelCount, forecast, holds, faults}.

    Args:
        pipeline: its newest version, as the API shows it.
        plan: the answer of a dry run.
    """
    tasks = {each["id"]: each["task"] for each in pipeline["spec"]["steps"] if "task" in each}
    forecast = plan.get("forecast")
    usual = {each["id"]: each["p50Ms"] for each in forecast["steps"]} if forecast else {}
    items = _items(view, pipeline["id"], plan["executionPlan"])
    levels = [_level(each, usual, items) for each in plan["executionPlan"]]
    return {
        "levels": levels[:LEVELS_SHOWN],
        "levelCount": len(levels),
        "forecast": forecast,
        "holds": list(_holds(view, set(tasks.values()))),
        "faults": [each["message"] for each in (*plan["errors"], *plan["warnings"])][:FAULTS_SHOWN],
    }


def _items(view: View, pipeline_id: str, levels: Sequence[Document]) -> dict[str, int]:
    """How many items the maps had in the newest run."""
    if not any(each.get("maps") for each in levels):
        return {}
    query = {"runs": "1", "steps": _MAPS_ASKED, "view": "all"}
    grid = view.ask("pipelines.get_grid", query, id=pipeline_id)
    return {each["id"]: each["items"][0] for each in grid["steps"] if each["items"] and each["items"][0]}


def _level(each: Document, usual: Mapping[str, float | None], items: Mapping[str, int]) -> dict[str, Any]:
    took = [ms for step in each["tasks"] if (ms := usual.get(step)) is not None]
    return {
        "number": each["step"] + 1,
        "steps": [
            {"id": step, "isMap": step in each.get("maps", ()), "items": items.get(step)}
            for step in each["tasks"][:STEPS_SHOWN]
        ],
        "count": len(each["tasks"]),
        "waitsFor": len(each.get("waitsFor", ())),
        "ms": max(took, default=None),
    }


def _holds(view: View, tasks: Collection[str]) -> Iterator[str]:
    """What would hold the run now, or bounds how much of it goes at a time."""
    limits = view.ask("queue.get_limits")
    most, active = limits["maxActiveRuns"], limits["activeRuns"]
    if most is not None and active >= most:
        waiting = limits["pendingRuns"]
        yield f"It would wait: {active:,} of {most:,} runs are active, {waiting:,} wait before it."
    for each in limits["tasks"]:
        if each["taskId"] not in tasks:
            continue
        name, held = each["taskId"], f"{each['held']:,}{'+' if each['heldIsCapped'] else ''}"
        waits = f", {held} wait" if each["held"] else ""
        if each["isPaused"]:
            yield f"`{name}` is paused{waits}."
        if each["concurrency"]:
            yield f"`{name}` runs {each['concurrency']:,} at a time: {each['live']:,} run now{waits}."
        if each["rateLimit"]:
            yield f"`{name}` starts {each['rateLimit']} at most{waits}."
