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
        documents.append(document | _calls(chance, inner, [each["id"] for each in steps]))
    return documents


def _calls(chance: random.Random, inner: list[str], steps: list[str]) -> dict[str, Any]:
    """What takes care of errors in a document, and what follows its last step."""
    calls: dict[str, Any] = {}
    if chance.random() < 0.3:
        rule = _call(chance, inner, "mended", "error.attempts")
        calls["errorHandlers"] = [{"condition": f"error.step != '{chance.choice(steps)}'", **rule}]
    if chance.random() < 0.3:
        number = f"(steps.{steps[-1]}.n ?? 0)" if chance.random() < 0.5 else "len(run.outcome)"
        calls["finally"] = _call(chance, inner, "last", number)
    return calls


def _call(chance: random.Random, inner: list[str], id: str, number: str) -> dict[str, Any]:
    """A pipeline or a body that gets a number."""
    if inner and chance.random() < 0.5:
        return {"pipeline": chance.choice(inner), "params": {"n": f"${{{number}}}"}}
    made: dict[str, Any] = {"output": {"n": f"${{{number}}}"}}
    if chance.random() < 0.3:
        made["failIf"] = [
            {"condition": f"{number} > {chance.randint(0, 3)}", "code": "CALL", "message": "no"}
        ]
    return {"steps": [{"id": id, "transform": made}]}


def _step(chance: random.Random, id: str, inner: list[str], number: str) -> tuple[dict[str, Any], str]:
    """A step that gets a number, and the expression of the number that it gives."""
    step: dict[str, Any] = {"id": id}
    if chance.random() < 0.2:
        step["condition"] = f"{number} > {chance.randint(0, 4)}"
    if chance.random() < 0.2:
        step["continueOnError"] = True
    if chance.random() < 0.2:
        rule = _call(chance, inner, f"{id}_mended", "len(error.code)")
        step["onError"] = {**rule, "handled": chance.random() < 0.7}
    if chance.random() < 0.2:
        step["compensate"] = _call(chance, inner, f"{id}_back", f"(len(status.{id}) + {number})")
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
