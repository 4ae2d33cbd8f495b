"""Random pipelines that run each other, of steps that the engine decides: they end without any worker."""

from __future__ import annotations

import random
from typing import Any

LEVELS = 3


def random_tree(chance: random.Random, prefix: str) -> list[dict[str, Any]]:
    """Documents, each of which runs those before it; the last one is the root. Each takes and gives {n}."""
    documents: list[dict[str, Any]] = []
    for level in range(LEVELS):
        inner = [each["id"] for each in documents]
        steps, numbers = [], ["(input.n ?? 0)"]
        for place in range(chance.randint(1, 3)):
            step, number = _step(chance, f"s{place}", inner, chance.choice(numbers))
            steps.append(step)
            numbers.append(number)
        document: dict[str, Any] = {"id": f"{prefix}-{level}", "steps": steps}
        document["failureMode"] = chance.choice(["fail-fast", "continue", "partial-merge"])
        document["output"] = {"n": f"${{{numbers[-1]}}}"}
        documents.append(document)
    return documents


def _step(chance: random.Random, id: str, inner: list[str], number: str) -> tuple[dict[str, Any], str]:
    """A step that gets a number, and the expression of the number that it gives."""
    step: dict[str, Any] = {"id": id}
    if chance.random() < 0.2:
        step["condition"] = f"{number} > {chance.randint(0, 4)}"
    if chance.random() < 0.2:
        step["continueOnError"] = True
    kind = chance.choice(
        ["transform", "pipeline", "loop", "map", "body", "rounds"] if inner else ["transform"]
    )
    if kind == "transform":
        step["transform"] = {"output": {"n": f"${{{number} + {chance.randint(0, 3)}}}"}}
        if chance.random() < 0.3:
            limit = chance.randint(1, 6)
            step["transform"]["failIf"] = [
                {"condition": f"{number} > {limit}", "code": "LARGE", "message": f"more than {limit}"}
            ]
        return step, f"(steps.{id}.n ?? 0)"
    if chance.random() < 0.2:
        step["retry"] = {"attempts": 2, "delayMs": 1, "backoff": "fixed"}
    if kind in ("body", "rounds"):
        return _with_body(chance, step, kind, number)
    return _of_child(chance, step, kind, chance.choice(inner), number)


def _of_child(
    chance: random.Random, step: dict[str, Any], kind: str, inner: str, number: str
) -> tuple[dict[str, Any], str]:
    id = step["id"]
    if kind == "loop":
        loop: dict[str, Any] = {"pipeline": inner, "maxIterations": chance.randint(1, 3)}
        if chance.random() < 0.7:
            loop["until"] = f"last.n > {chance.randint(0, 5)}"
        collects = chance.random() < 0.3
        params = {"n": f"${{(last.n ?? {number}) + loop.index}}"}
        step |= {"loop": {**loop, "collect": True} if collects else loop, "params": params}
        return step, f"len(steps.{id} ?? [])" if collects else f"(steps.{id}.n ?? 0)"
    step["pipeline"] = inner
    if kind == "pipeline":
        step["params"] = {"n": f"${{{number}}}"}
        return step, f"(steps.{id}.n ?? 0)"
    items = [chance.randint(0, 4) for _ in range(chance.randint(0, 3))]
    step["map"] = {"over": items, "maxParallel": chance.randint(1, 3)}
    step |= {"params": {"n": f"${{item + mapIndex + {number}}}"}} if chance.random() < 0.5 else {}
    step["map"] |= {} if "params" in step else {"as": "n"}
    return step, f"len(steps.{id} ?? [])"


def _with_body(
    chance: random.Random, step: dict[str, Any], kind: str, number: str
) -> tuple[dict[str, Any], str]:
    """A map or a loop over steps that stand in it, and see what is around them."""
    id = step["id"]
    own = "(loop.last.n ?? 0) + loop.index" if kind == "rounds" else "item + mapIndex"
    made: dict[str, Any] = {"output": {"n": f"${{{number} + {own}}}"}}
    if chance.random() < 0.3:
        made["failIf"] = [{"condition": f"{own} > {chance.randint(0, 5)}", "code": "BODY", "message": "no"}]
    steps = [
        {"id": f"{id}_in", "transform": made},
        {"id": f"{id}_out", "transform": {"n": f"${{(steps.{id}_in.n ?? 0) + {number}}}"}},
    ]
    if kind == "rounds":
        step["loop"] = {"steps": steps, "maxIterations": chance.randint(1, 3)}
        return step, f"(steps.{id}.n ?? 0)"
    items = [chance.randint(0, 4) for _ in range(chance.randint(0, 3))]
    failure = chance.choice(["run", "settle", "partial"])
    step["map"] = {"over": items, "maxParallel": chance.randint(1, 3), "failure": failure, "steps": steps}
    return step, f"len(steps.{id} ?? [])"
