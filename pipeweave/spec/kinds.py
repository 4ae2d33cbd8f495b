"""Defines the kinds of steps and of task runs, and what is true of each kind.

Other rooms ask what is true of a task run (`kind in CALLED`), never which kind it is: so a new kind is
described here, once.
"""

from __future__ import annotations

from typing import Final, Literal

StepKind = Literal["task", "map", "choice", "transform", "wait", "body"]
TaskRunKind = Literal["task", "map", "item", "choice", "transform", "wait", "body"]

TASK: Final = "task"
MAP: Final = "map"
ITEM: Final = "item"
CHOICE: Final = "choice"
TRANSFORM: Final = "transform"
WAIT: Final = "wait"
BODY: Final = "body"
KINDS: tuple[TaskRunKind, ...] = (TASK, MAP, ITEM, CHOICE, TRANSFORM, WAIT, BODY)

# Called: a worker calls its task. A map is not called, only its items are.
CALLED: frozenset[str] = frozenset({TASK, ITEM})
# With items: it has a task run for each item of a list, waits for them, and its output is theirs.
WITH_ITEMS: frozenset[str] = frozenset({MAP})
# Steps: a step of the pipeline has one such task run.
STEPS: frozenset[str] = frozenset(KINDS) - {ITEM}
# Items: one of several task runs of a step.
ITEMS: frozenset[str] = frozenset({ITEM})
# Decided by the engine: no worker, no message and no task; the transaction that reaches it decides it.
ENGINE: frozenset[str] = frozenset({CHOICE, TRANSFORM, WAIT, BODY})


def seen(status: str, failed: int = 0) -> str:
    """The status of a step as people see it: a map that completed without some of its items is partial.

    Args:
        failed: how many of its items failed; 0 of a step without items.
    """
    return "partial" if failed and status == "completed" else status
