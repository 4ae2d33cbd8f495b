"""Generate random pipelines for the fault test, and inputs that say how their steps behave."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.catalogue import LIMITS, OBEDIENT, PADDING

Document = dict[str, Any]
# By step id: seconds, failures, refuse, choose, look, large (tasks/acting.py).
Behaviour = dict[str, dict[str, Any]]

WORKFLOWS = Path(__file__).parents[1] / "tests" / "flows" / "workflows"
# Larger workflows would take most of the test.
MOST_STEPS = 320

MODES = ("fail-fast", "continue", "partial-merge")
# How long (s) a step takes by default: steps of large pipelines take less.
USUAL_S = ((30, (0.0, 0.05, 0.1, 0.3)), (100, (0.0, 0.05, 0.1)), (MOST_STEPS, (0.01, 0.03)))

# How long (s) a call of a task with a limit takes by default.
LIMITED_S = 0.03
# Half of the pipelines have steps that only one team has, and one in ten has steps that deploys touch.
MIXED, TOUCHED = 0.5, 0.1
# In four of ten, some of the plain steps are those of the HTTP service.
REMOTE, MOST_REMOTE = 0.4, 12
# In three of ten, half of the plain steps are `async def`.
AWAITED = 0.3
# In one of ten the input is an object in storage, and in two of ten the outputs of some steps are.
LARGE_INPUT, LARGE_OUTPUTS, MOST_LARGE = 0.1, 0.2, 3
_MIXTURE = ("work", "work", "work", "by_one", "by_two")
_TOUCHED = ("changed", "removed", "added")


@dataclass(frozen=True, slots=True)
class Shape:
    """A pipeline with an input that fits it.

    Args:
        document: the stored pipeline.
        input: the input of the run.
        mode: the failure mode of the run.
    """

    document: Document
    input: Mapping[str, Any]
    mode: str


def draw(chance: random.Random, number: int) -> Shape:
    """The next pipeline of a plan."""
    kinds = [kind for kind, weight in _KINDS.items() for _ in range(weight)]
    kind = chance.choice(kinds)
    id = f"{kind.__name__.strip('_')}-{number}"
    steps, behaviour, lists = kind(chance)
    _look(chance, steps, behaviour)
    _mix(chance, steps)
    for step in steps:
        if step["task"] in LIMITS:
            behaviour.setdefault(step["id"], {}).setdefault("seconds", LIMITED_S)
    usual = next(several for most, several in USUAL_S if len(steps) <= most)
    given = {"steps": behaviour, "lists": lists, "seconds": chance.choice(usual)}
    _enlarge(chance, steps, given)
    code = "pinned" if any(step["task"] == "changed" for step in steps) and chance.random() < 0.5 else "any"
    return Shape({"id": id, "steps": steps, "code": code}, given, chance.choice(MODES))


Drawn = tuple[list[Document], Behaviour, dict[str, list[int]]]


def _step(id: str, needs: list[str], task: str = "work") -> Document:
    return {"id": id, "task": task, "needs": needs}


def _workflow(chance: random.Random) -> Drawn:
    """A production workflow with tasks that do nothing, some of which fail at first."""
    path = chance.choice(sorted(WORKFLOWS.glob("*.json")))
    steps = json.loads(path.read_text())["steps"]
    while len(steps) > MOST_STEPS:
        path = chance.choice(sorted(WORKFLOWS.glob("*.json")))
        steps = json.loads(path.read_text())["steps"]
    documents = [_step(each["id"], each["parents"]) for each in steps]
    return documents, _some_fail_at_first(chance, documents, 0.03), {}


def _chain(chance: random.Random) -> Drawn:
    names = [f"c{number}" for number in range(chance.randint(5, 40))]
    steps = [_step(name, names[place - 1 : place]) for place, name in enumerate(names)]
    return steps, _some_fail_at_first(chance, steps, 0.1), {}


def _diamond(chance: random.Random) -> Drawn:
    """1, 2, 1; one side may be left out by choice."""
    steps = [_step("top", []), _step("left", ["top"]), _step("right", ["top"])]
    steps.append(_step("bottom", ["left", "right"]))
    choose = chance.choice([None, ["left"], ["left", "right"], []])
    return steps, {} if choose is None else {"top": {"choose": choose}}, {}


def _fan(chance: random.Random) -> Drawn:
    middle = [f"m{number}" for number in range(chance.choice([3, 9, 24, 80]))]
    steps = [_step("first", []), *(_step(each, ["first"]) for each in middle), _step("last", middle)]
    return steps, _some_fail_at_first(chance, steps, 0.05), {}


def _mapped(chance: random.Random) -> Drawn:
    """A wide map between two steps; some of its items may be refused."""
    count = chance.choice([0, 5, 60, 300])
    behaviour: Behaviour = {
        "each": {"seconds": chance.choice([0.002, 0.01] if count > 60 else [0.0, 0.05, 0.1])}
    }
    if chance.random() < 0.3:
        behaviour["each"]["refuse"] = [each for each in range(count) if chance.random() < 0.05]
    if chance.random() < 0.3:
        behaviour["each"]["failures"] = 1
    task = chance.choice(["work", "work", "work", "limited"]) if count <= 60 else "work"
    steps = [_step("before", []), _map("each", ["before"], task), _step("after", ["each"])]
    return steps, behaviour, {"each": list(range(count))}


def _map(id: str, needs: list[str], task: str) -> Document:
    return _step(id, needs, task) | {"map": {"over": f"${{input.lists.{id}}}"}}


def _crowd(chance: random.Random) -> Drawn:
    """More steps of limited tasks than may run at once."""
    names = [f"l{number}" for number in range(chance.randint(4, 10))]
    steps = [_step(name, [], chance.choice(["limited", "limited", "single"])) for name in names]
    steps.append(_step("all", names))
    behaviour: Behaviour = {name: {"seconds": chance.choice([0.02, 0.1, 0.4])} for name in names}
    return steps, behaviour, {}


def _slow(chance: random.Random) -> Drawn:
    """Steps that take seconds, side by side."""
    names = [f"s{number}" for number in range(chance.randint(1, 2))]
    steps = [_step("start", []), *(_step(name, ["start"], "slow") for name in names), _step("end", names)]
    return steps, {name: {"seconds": chance.uniform(1.5, 6.0)} for name in names}, {}


def _doomed(chance: random.Random) -> Drawn:
    """A random graph in which one step always fails."""
    steps, behaviour, lists = _tangle(chance)
    task = chance.choice(["hopeless", "hopeless", "endless", "stubborn"])
    chosen = chance.choice([each for each in steps if "map" not in each])
    chosen["task"] = task
    behaviour.pop(chosen["id"], None)
    return steps, behaviour, lists


def _belated(chance: random.Random) -> Drawn:
    """Steps that exceed their time limit once."""
    names = [f"t{number}" for number in range(chance.randint(1, 2))]
    task = chance.choice(["late", "tardy"])
    steps = [*(_step(name, [], task) for name in names), _step("join", names)]
    return steps, {}, {}


def _tangle(chance: random.Random) -> Drawn:
    """A graph without a plan: plain, limited and mapped steps that fail at first, refuse and choose."""
    names = [f"n{number}" for number in range(chance.randint(4, 24))]
    steps: list[Document] = []
    lists: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        most = min(number, chance.choice([1, 2, 3, 12]))
        needs = sorted(chance.sample(names[:number], chance.randint(min(number, 1), most)), key=names.index)
        task = chance.choice(["work", "work", "work", "limited"])
        if number and chance.random() < 0.15:
            lists[name] = list(range(chance.choice([0, 1, 3, 8, 20])))
            steps.append(_map(name, needs, task))
        else:
            steps.append(_step(name, needs, task))
    behaviour = _some_fail_at_first(chance, steps, 0.1)
    if chance.random() < 0.4:
        _refuse(chance, steps, behaviour, lists)
    for step in steps:
        if step["id"] not in lists and chance.random() < 0.1:
            after = [each["id"] for each in steps if step["id"] in each["needs"]]
            chosen = [each for each in after if chance.random() < 0.6]
            behaviour.setdefault(step["id"], {})["choose"] = chosen
    return steps, behaviour, lists


def _refuse(
    chance: random.Random, steps: list[Document], behaviour: Behaviour, lists: Mapping[str, list[int]]
) -> None:
    for step in steps:
        if chance.random() < 0.1:
            items = lists.get(step["id"])
            refused = True if items is None else [each for each in items if chance.random() < 0.4]
            behaviour.setdefault(step["id"], {})["refuse"] = refused


def _some_fail_at_first(chance: random.Random, steps: list[Document], share: float) -> Behaviour:
    return {each["id"]: {"failures": chance.randint(1, 3)} for each in steps if chance.random() < share}


def _look(chance: random.Random, steps: list[Document], behaviour: Behaviour) -> None:
    """Let some steps note the outputs of their predecessors."""
    for step in steps:
        if step["needs"] and step["task"] in OBEDIENT and "map" not in step and chance.random() < 0.3:
            behaviour.setdefault(step["id"], {})["look"] = step["needs"][:10]


def _mix(chance: random.Random, steps: list[Document]) -> None:
    """Give some steps tasks of the HTTP service or of one of the teams, `async def` ones, or those that come
    and go with deploys.
    """
    plain = [step for step in steps if step["task"] == "work"]
    if chance.random() < REMOTE:
        single = [step for step in plain if "map" not in step]
        for step in chance.sample(single, min(len(single), chance.randint(1, MOST_REMOTE))):
            step["task"] = "remote"
        plain = [step for step in plain if step["task"] == "work"]
    if chance.random() < AWAITED:
        for step in plain:
            step["task"] = chance.choice(["work", "awaited"])
        plain = [step for step in plain if step["task"] == "work"]
    if chance.random() < MIXED:
        for step in plain:
            step["task"] = chance.choice(_MIXTURE)
    if chance.random() < TOUCHED:
        for step in chance.sample(plain, min(len(plain), 3)):
            step["task"] = chance.choice(_TOUCHED)


def _enlarge(chance: random.Random, steps: list[Document], given: dict[str, Any]) -> None:
    """Let some inputs and outputs be objects in storage."""
    if chance.random() < LARGE_INPUT:
        given["padding"] = PADDING
    if chance.random() < LARGE_OUTPUTS:
        several = [each for each in steps if each["task"] in OBEDIENT and "map" not in each]
        for step in chance.sample(several, min(len(several), MOST_LARGE)):
            given["steps"].setdefault(step["id"], {})["large"] = True


_KINDS: dict[Callable[[random.Random], Drawn], int] = {
    _workflow: 3,
    _chain: 3,
    _diamond: 3,
    _fan: 3,
    _mapped: 4,
    _crowd: 3,
    _slow: 4,
    _doomed: 3,
    _belated: 1,
    _tangle: 5,
}
