"""Notes that the result of an attempt held the value of a secret, which is stored as `***`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction

# Of an attempt that is fenced nothing is stored, so there is nothing to tell.
_NOTE = """
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT t.run_id, :now, 'task_run.secret_masked', t.id, t.attempt,
    jsonb_build_object('places', CAST(:places AS text[]))
FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = :id AND t.attempt = :attempt AND t.status = 'running'
    AND (CAST(:worker AS text) IS NULL OR t.worker = :worker)
"""


def note(tx: Transaction, task_run: TaskRun, places: Sequence[str]) -> None:
    """Write the event `task_run.secret_masked` of a running attempt.

    Args:
        places: where values were: `output`, `poll` (its URL), `assets.<key>`.
    """
    parameters = {
        "run_id": task_run.run_id,
        "id": task_run.id,
        "attempt": task_run.attempt,
        "worker": task_run.worker,
        "places": list(places),
        "now": tx.now,
    }
    tx.execute(_NOTE, parameters)
