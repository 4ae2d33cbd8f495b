"""What must be true of a run whose processes were killed."""

from __future__ import annotations

from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import verify
from support.live_stack import LiveStack


def check_completed_once(stack: LiveStack, run_id: UUID, steps: int = 1) -> None:
    """The run and each of its steps completed, one event says so, and the events rebuild the rows."""
    assert stack.finished(run_id).status == "completed"
    types = [row.type for row in stack.rows("SELECT type FROM events WHERE run_id = :id", id=run_id)]
    assert types.count("task_run.completed") == steps
    assert types.count("run.completed") == 1
    with verify.snapshot(stack.deployment.database) as tx:
        assert not [each for each in verify.all_runs(tx) if ids.show(ids.RUN, run_id) in str(each)]
