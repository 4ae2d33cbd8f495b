"""Predict how a run must end from its document and input, independently of the product's own rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from chaos.catalogue import DOOMED
from chaos.shapes import Shape

COMPLETED, FAILED, SKIPPED = "completed", "failed", "skipped"


@dataclass(slots=True)
class Expected:
    """How a run ends if nothing cuts it short, as fail-fast may.

    Args:
        run: its status.
        steps: status by step id; `failed` stands for `timeout`, too.
        items: status of each item, by step id of its map.
    """

    run: str = ""
    steps: dict[str, str] = field(default_factory=dict)
    items: dict[str, list[str]] = field(default_factory=dict)


def expect(shape: Shape) -> Expected:
    """Predict the end of a run of this shape."""
    expected = Expected()
    after_failure: set[str] = set()
    behaviour = shape.input["steps"]
    steps = {step["id"]: step for step in shape.document["steps"]}
    for id in TopologicalSorter({each: steps[each]["needs"] for each in steps}).static_order():
        needs = steps[id]["needs"]
        is_hit = any(expected.steps[each] == FAILED or each in after_failure for each in needs)
        is_taken = not needs or any(_is_taken(expected, behaviour, each, id) for each in needs)
        if is_taken and (not is_hit or shape.mode == "partial-merge"):
            expected.steps[id] = _called(expected, shape, steps[id])
        else:
            expected.steps[id] = SKIPPED
            if is_hit:
                after_failure.add(id)
    statuses = {*expected.steps.values(), *(each for items in expected.items.values() for each in items)}
    ends_badly = "partial" if shape.mode == "partial-merge" else "failed"
    expected.run = ends_badly if FAILED in statuses else COMPLETED
    return expected


def _is_taken(expected: Expected, behaviour: Mapping[str, Any], before: str, id: str) -> bool:
    if expected.steps[before] != COMPLETED:
        return False
    chosen = behaviour.get(before, {}).get("choose")
    return chosen is None or id in chosen


def _called(expected: Expected, shape: Shape, step: Mapping[str, Any]) -> str:
    """How a step that runs ends."""
    refused = shape.input["steps"].get(step["id"], {}).get("refuse")
    if "map" not in step:
        return FAILED if refused or step["task"] in DOOMED else COMPLETED
    count = len(shape.input["lists"][step["id"]])
    items = [FAILED if each in (refused or ()) else COMPLETED for each in range(count)]
    expected.items[step["id"]] = items
    if FAILED not in items or (shape.mode == "partial-merge" and COMPLETED in items):
        return COMPLETED
    return FAILED


def settled(shape: Shape, broken: Collection[str], begin: str) -> tuple[set[str], set[str]]:
    """The steps whose results a rerun takes over, and those that the choices of these leave out.

    Args:
        broken: the steps of the run before that did not complete, or whose items did not all.
        begin: the step that the rerun begins at.
    """
    reused, away = set[str](), set[str]()
    steps = {step["id"]: step for step in shape.document["steps"]}
    for id in TopologicalSorter({each: steps[each]["needs"] for each in steps}).static_order():
        needs = steps[id]["needs"]
        if not (reused | away).issuperset(needs):
            continue
        if needs and not any(each in reused and _chooses(shape, each, id) for each in needs):
            away.add(id)
        elif id != begin and id not in broken:
            reused.add(id)
    return reused, away


def _chooses(shape: Shape, before: str, id: str) -> bool:
    chosen = shape.input["steps"].get(before, {}).get("choose")
    return chosen is None or id in chosen
