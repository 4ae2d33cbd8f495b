"""Bodies of maps and loops, whose steps real workers call."""

from __future__ import annotations

from collections import Counter
from typing import Any

from support.live_stack import LiveStack

FILES: dict[str, Any] = {
    "id": "bodies",
    "variables": {"sign": "${input.sign}"},
    "steps": [
        {"id": "names", "task": "give", "params": {"value": "${input.names}"}},
        {"id": "long", "task": "repeat", "params": {"text": "x", "times": 50_000}, "needs": []},
        {
            "id": "each",
            "map": {
                "over": "${steps.names}",
                "maxParallel": 2,
                "steps": [
                    {
                        "id": "said",
                        "task": "weigh",
                        "params": {"name": "${item}${variables.sign}", "factor": 2, "place": "${mapIndex}"},
                    },
                    {"id": "length", "task": "measure", "params": {"text": "${steps.long}"}},
                    {
                        "id": "both",
                        "task": "give",
                        "condition": "steps.length == 50000",
                        "params": {"value": ["${steps.said}", "${steps.length}", "${status.names}"]},
                    },
                ],
            },
        },
        {
            "id": "again",
            "loop": {
                "maxIterations": 5,
                "until": "last.n == 3",
                "steps": [
                    {
                        "id": "more",
                        "task": "give",
                        "params": {"value": {"n": "${(loop.last.n ?? 0) + 1}", "at": "${loop.index}"}},
                    }
                ],
            },
        },
        {"id": "all", "task": "give", "params": {"value": ["${steps.each}", "${steps.again}"]}},
    ],
}


def test_the_steps_of_bodies_are_called_with_the_values_around_them(stack: LiveStack) -> None:
    run = stack.ran(FILES, {"names": ["a", "b", "c"], "sign": "!"})
    assert run.status == "completed"
    each = [[f"{place}: {name}!{name}!", 50_000, "completed"] for place, name in enumerate("abc")]
    assert stack.output(stack.steps(run.id)["all"]) == [each, {"n": 3, "at": 2}]
    rows = stack.rows("SELECT body, status, depth FROM runs WHERE parent_run_id = :id ORDER BY id", id=run.id)
    assert Counter((row.body, row.status, row.depth) for row in rows) == {
        ("each.map", "completed", 1): 3,
        ("again.loop", "completed", 1): 3,
    }
