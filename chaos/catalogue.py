"""What the tasks of the fault test promise, for those who judge without importing them.

A worker loads some of these parts (tasks/…): two teams share one deployment, and a deploy replaces a part.
"""

from __future__ import annotations

from typing import Any

# The tasks of each part. `changed` is in two of them, in different code.
TASKS = {
    "common": (
        "work",
        "limited",
        "single",
        "slow",
        "hopeless",
        "endless",
        "stubborn",
        "late",
        "awaited",
        "tardy",
        "asked",
        "polled",
    ),
    "team_one": ("by_one",),
    "team_two": ("by_two",),
    "before": ("changed", "removed"),
    "after": ("changed", "added"),
    "remote": ("remote",),
}
# The tasks of the HTTP service. Their dispatches may fail, which uses up attempts without a call.
REMOTE = frozenset(TASKS["remote"])

# All tasks: every other task run is the engine's own, and nobody is called for it.
CALLED = frozenset(each for several in TASKS.values() for each in several)
# Tasks whose calls hand their work on: they hold their slot until its result has come.
SUSPENDING = frozenset({"asked", "polled"})

# The parts that a worker always loads, by its name.
TEAMS = {"worker-1": ("common", "team_one"), "worker-2": ("common", "team_two")}
# The part that a deploy replaces. So every task is loaded somewhere while no deploy is under way.
DEPLOYED = {"worker-1": "before", "worker-2": "after"}

# Attempts of a task.
PLENTY = 40
ATTEMPTS = {"hopeless": 3, "endless": 3, "stubborn": 1}

# Tasks that always fail, whatever the input asks.
DOOMED = frozenset(ATTEMPTS)
# Tasks with a concurrency limit.
LIMITS = {"limited": 2, "single": 1, "asked": 3}
# Tasks that do what the input says.
OBEDIENT = frozenset(
    {
        "work",
        "awaited",
        "limited",
        "single",
        "slow",
        "by_one",
        "by_two",
        "changed",
        "removed",
        "added",
        "remote",
    }
)

# What makes an output or an input so large that it is an object in storage.
PADDING = "x" * 60_000


def without_padding(output: Any) -> Any:
    """An output as its task noted it: without what makes it large, and without what an answer to a poll has
    beside it. A list of them item by item.
    """
    if isinstance(output, list):
        return [without_padding(each) for each in output]
    if isinstance(output, dict) and output.keys() == {"status", "token"}:
        return output["token"]
    return output.partition(" ")[0] if isinstance(output, str) else output


def other(part: str) -> str:
    """The part that takes the place of this one in a deploy."""
    return "after" if part == "before" else "before"
