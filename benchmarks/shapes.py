"""The measured DAGs as pipeline documents, each a plain list of steps."""

from __future__ import annotations

import itertools
from typing import Any

Document = dict[str, Any]


def chain(length: int, task: str = "noop") -> Document:
    """One step after the other."""
    return {"steps": [_step(f"step_{n}", [f"step_{n - 1}"] if n else [], task) for n in range(length)]}


def chain_with_conditions(length: int) -> Document:
    """The same; each step but the first has a condition, which holds, and a parameter by expression."""
    steps = chain(length, "same")["steps"]
    steps[0]["params"] = {"number": 0}
    for before, step in itertools.pairwise(steps):
        step["condition"] = f"${{steps.{before['id']} >= 0}}"
        step["params"] = {"number": f"${{steps.{before['id']} + 1}}"}
    return {"steps": steps}


def fan(width: int) -> Document:
    """1 → width → 1."""
    middle = [f"middle_{n}" for n in range(width)]
    return {
        "steps": [
            _step("first", []),
            *(_step(each, ["first"]) for each in middle),
            _step("last", middle),
        ]
    }


def side_by_side(width: int, task: str) -> Document:
    """So many steps that need nothing."""
    return {"steps": [_step(f"step_{n}", [], task) for n in range(width)]}


def diamond() -> Document:
    """1 → 2 → 1."""
    return fan(2)


def mapped() -> Document:
    """A list found at run time, one item each, all outputs in one step; the run's input names the `count`."""
    return {
        "steps": [
            {"id": "numbers", "task": "numbers", "needs": [], "params": {"count": "${input.count}"}},
            {
                "id": "same",
                "task": "same",
                "needs": ["numbers"],
                "map": {"over": "${steps.numbers}", "as": "number"},
            },
            {"id": "collect", "task": "collect", "needs": ["same"], "params": {"rows": "${steps.same}"}},
        ]
    }


def _step(step_id: str, needs: list[str], task: str = "noop") -> Document:
    return {"id": step_id, "task": task, "needs": needs}
