"""Says which events change the state of a run, and which of them are its checkpoints (pure).

Both are views of the event log: rows and events are written in one transaction, so the state after an event
is what the events up to it give (replay.py), and no second record of it is kept.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from pipeweave.orchestrator.domain import json_shapes, replay

# The name under which every event that changes the state is told, whatever its own type.
STATE_UPDATED: Final = "state_updated"
# Their types: all but those that only note what has come.
MOVING = replay.TYPES - replay.NOTES

# A checkpoint is where a run stood still for a moment: it began, something of it ended or waits, or it was
# paused. What was done by then is durable, and a lost process repeats nothing of it.
CHECKPOINTS = frozenset(
    {
        *(each for each in MOVING if each.startswith("run.")),
        "task_run.completed",
        "task_run.failed",
        "task_run.timed_out",
        "task_run.waiting",
        "task_runs.skipped",
        "task_runs.cancelled",
    }
)


def checkpoint_href(run: UUID, seq: int) -> str:
    """Where a checkpoint is shown with its state."""
    return f"/api/runs/{json_shapes.run_id(run)}/checkpoints/{seq}"


def snapshot_href(run: UUID, seq: int) -> str:
    """Where the state after an event is shown."""
    return f"/api/runs/{json_shapes.run_id(run)}/at?seq={seq}"


def as_state_updated(run: UUID, seq: int, type_: str) -> dict[str, Any]:
    """The members of an event that differ when it is told as a change of the state."""
    is_checkpoint = type_ in CHECKPOINTS
    data = {
        "event": type_,
        "stateSnapshot": snapshot_href(run, seq),
        "checkpoint": checkpoint_href(run, seq) if is_checkpoint else None,
    }
    return {"type": STATE_UPDATED, "data": data}
