"""Postpones claimed task runs that nobody has room for: their attempt has not begun, and is not used up."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Postponed, TaskRun
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.rows import read
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent
from pipeweave.orchestrator.store.database import Transaction

_POSTPONED = Move(
    to=TaskStatus.PENDING,
    changes=""", due_at = now() + g.delay * interval '1 second', queued_at = NULL, worker = NULL,
    claimed_at = NULL, started_at = NULL, heartbeat_at = NULL, suspected_at = NULL""",
    rows=by_key("g.id"),
    where="t.attempt = g.attempt AND (CAST(:worker AS text) IS NULL OR t.worker = :worker)",
    source="""FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[]), CAST(:delays AS float[]),
        CAST(:reasons AS text[])) AS g(id, attempt, delay, reason)""",
    event=MoveEvent("'task_run.postponed'", "jsonb_build_object('reason', m.reason, 'dueAt', m.due_at)"),
    returning=", g.reason, t.due_at",
).sql
_POSTPONE = f"WITH {_POSTPONED} SELECT * FROM moved"


def postpone(tx: Transaction, run_id: UUID, postponed: Sequence[Postponed]) -> list[TaskRun]:
    """Let running task runs of one run wait for their delay. Attempts that are fenced are left out."""
    if not postponed:
        return []
    postponed = sorted(postponed, key=lambda each: each.task_run.id)
    parameters = {
        "run_id": run_id,
        "ids": [each.task_run.id for each in postponed],
        "attempts": [each.task_run.attempt for each in postponed],
        "delays": [each.delay_s for each in postponed],
        "reasons": [each.reason for each in postponed],
        # One process had claimed all of them.
        "worker": postponed[0].task_run.worker,
        "now": tx.now,
    }
    return read(tx.execute(_POSTPONE, parameters))
