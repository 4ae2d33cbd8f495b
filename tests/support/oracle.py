"""A simple model of how a run ends: one pass over the steps with the pure rules, no clock and no message."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.spec import rules
from pipeweave.spec.rules import Decision, Predecessor


@dataclass(slots=True)
class Expected:
    """How the run ends, how each step ends, and how often each step's handler is called."""

    run_status: str = ""
    statuses: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)


def reference(document: Mapping[str, Any], wishes: Mapping[str, Any], mode: str) -> Expected:
    """What a run of the document must come to. Steps stand in topological order.

    Under fail-fast, where timing decides what was still reached, they are those of a run that went on.
    """
    expected = Expected()
    ended: dict[str, Predecessor] = {}
    all_statuses: list[str] = []
    for step in document["steps"]:
        id = step["id"]
        before = {each: ended[each] for each in step["needs"]}
        match rules.decide_step(mode, before, id):
            case Decision.RUN:
                ended[id], statuses = _called(step, wishes, mode)
                expected.calls[id] += len(statuses)
                all_statuses += statuses
            case Decision.SKIP:
                ended[id] = Predecessor("skipped", None, rules.follows_failure(before.values()))
            case Decision.WAIT:
                raise AssertionError(f"{id} comes before its predecessors")
        expected.statuses[id] = ended[id].status
    expected.calls += Counter()
    expected.run_status = rules.final_run_status(mode, [*all_statuses, *expected.statuses.values()])
    return expected


def _called(step: Mapping[str, Any], wishes: Mapping[str, Any], mode: str) -> tuple[Predecessor, list[str]]:
    """How a step that runs ends, and the statuses of its calls."""
    id = step["id"]
    failing = wishes["fail"].get(id)
    if "map" not in step:
        status = "completed" if failing is None else "failed"
        return Predecessor(status, wishes["choose"].get(id)), [status]
    count = len(wishes["lists"][id])
    statuses = ["failed" if each in (failing or ()) else "completed" for each in range(count)]
    failed = statuses.count("failed")
    is_fine = failed == 0 or (mode == rules.PARTIAL_MERGE and failed < count)
    return Predecessor("completed" if is_fine else "failed"), statuses


def random_graph(chance: random.Random, id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pipeline of plain, limited and mapped steps, and an input that says which fail and choose."""
    count = chance.randint(1, 26)
    names = [f"s{number}" for number in range(count)]
    width = chance.choice([1, 2, 3, 12])
    steps: list[dict[str, Any]] = []
    lists: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        needs = chance.sample(names[:number], min(number, chance.randint(0 if number > 2 else 1, width)))
        needs.sort(key=names.index)
        step: dict[str, Any] = {
            "id": name,
            "task": chance.choice(["act", "act", "act_limited"]),
            "needs": needs,
        }
        if chance.random() < 0.2:
            lists[name] = list(range(chance.choice([0, 1, 3, 8, 20])))
            step["map"] = {"over": f"${{input.lists.{name}}}"}
        steps.append(step)
    fail, choose = _wishes(chance, steps, lists)
    return {"id": id, "steps": steps}, {"fail": fail, "choose": choose, "lists": lists}


def _wishes(
    chance: random.Random, steps: list[dict[str, Any]], lists: Mapping[str, list[int]]
) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    fail: dict[str, list[int]] = {}
    choose: dict[str, list[str]] = {}
    how_often = chance.choice([0.0, 0.1, 0.3])
    for step in steps:
        name = step["id"]
        after = [each["id"] for each in steps if name in each["needs"]]
        if chance.random() < how_often:
            fail[name] = [each for each in lists.get(name, []) if chance.random() < 0.4]
        if name not in lists and chance.random() < 0.3:
            choose[name] = [each for each in after if chance.random() < 0.5]
    return fail, choose
