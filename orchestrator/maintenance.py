"""Whether new work is accepted: one row that every process reads."""

from __future__ import annotations

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.paging import Document
from pipeweave.orchestrator.queries_shape import iso

RUNNING, WAITING = "running", "waiting_for_maintenance"

# Each count reads a partial index: what is over costs nothing.
_STATE = """
SELECT s.mode, s.mode_changed_at,
       (SELECT count(*) FROM task_runs WHERE status = 'queued')
           + (SELECT count(*) FROM task_runs WHERE status = 'ready') AS pending,
       (SELECT count(*) FROM task_runs WHERE status = 'running') AS running,
       EXISTS (SELECT 1 FROM runs WHERE status IN ('pending', 'running', 'error_handling')) AS is_busy
FROM orchestrator_state AS s
"""


def state(tx: Transaction) -> Document:
    """{mode, canEnterMaintenance, pendingTasks, runningTasks, modeChangedAt} over all tenants.

    `mode` is `running`, `waiting_for_maintenance` (nothing new is accepted, what is pending goes on) or
    `maintenance`.
    """
    row = tx.execute(_STATE).one()
    return {
        "mode": row.mode,
        "canEnterMaintenance": row.mode == WAITING and not row.is_busy,
        "pendingTasks": row.pending,
        "runningTasks": row.running,
        "modeChangedAt": iso(row.mode_changed_at),
    }


def refused(tx: Transaction) -> Unavailable:
    """The answer to new work while the mode is not `running`."""
    mode = str(tx.execute("SELECT mode FROM orchestrator_state").scalar_one())
    return Unavailable(
        "nothing new is accepted during maintenance", hint="try again later", maintenanceMode=mode
    )
