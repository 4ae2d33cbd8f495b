"""Maintenance: nothing new is accepted, what is open goes on, and with the last run's end all is quiet.

    running --request--> waiting_for_maintenance --the last open run ends, or enter--> maintenance
    running <----------------------------- leave, from either ----------------------------

One row holds the mode, and every process reads it there.

Nothing slips in. Whoever writes a run keeps the row locked with KEY SHARE until its commit; the lock is part
of the statement that writes (ACCEPTING) and costs too little to be measured there. `request` does not wait
for such a transaction; entering does (FOR UPDATE), and looks for open runs only then. Who comes later waits
for that lock, and PostgreSQL looks at the mode again once it has it. As with a foreign key, lockers do not
hinder each other, nor the tick that writes its time into the row.

The last run brings maintenance about. The statement that ends a run says whether anyone waits for that
(IS_AWAITED: 4 µs a run, and nothing a step); only then does `enter_if_drained` follow the commit, in a
transaction of its own. Of runs that end at the same moment, the one that looks last sees all of them. A mode
that each process remembers would be cheaper still, but as old as its last look, and not only workers end
runs: so do cancelling and the tick. What is missed, because a run was just ending when maintenance was
requested or because its process died, the next tick finds.
"""

from __future__ import annotations

import logging

from pipeweave import ids
from pipeweave.errors import Conflict, Unavailable
from pipeweave.orchestrator.domain.json_shapes import iso, run_id, task_run_id
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, sql_in
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

log = logging.getLogger(__name__)

RUNNING, WAITING, MAINTENANCE = "running", "waiting_for_maintenance", "maintenance"

# The blocking runs that are shown, oldest first.
SHOWN = 20

# SQL for a statement that writes runs: no row while nothing new is accepted.
ACCEPTING = f"SELECT 1 FROM orchestrator_state WHERE mode = '{RUNNING}' FOR KEY SHARE"
# SQL for a statement that ends a run.
IS_AWAITED = f"EXISTS (SELECT 1 FROM orchestrator_state WHERE mode = '{WAITING}')"

# Paused runs have no index over all tenants: they are looked for tenant by tenant.
_ACTIVE = f"FROM runs AS r WHERE r.status IN {sql_in(ACTIVE_RUN)}"
_PAUSED = "FROM runs AS r WHERE r.tenant_id = t.id AND r.status = 'paused'"

# While many runs end, each asks whether it was the last one: that must not cost what counting does.
_IS_DRAINED = f"""NOT EXISTS (SELECT 1 {_ACTIVE})
    AND NOT EXISTS (SELECT 1 FROM tenants AS t CROSS JOIN LATERAL (SELECT 1 {_PAUSED} LIMIT 1) AS p)"""
_OPEN_RUNS = f"""(SELECT count(*) {_ACTIVE})
    + (SELECT coalesce(sum(p.number), 0)
       FROM tenants AS t CROSS JOIN LATERAL (SELECT count(*) AS number {_PAUSED} LIMIT 1) AS p)"""


# --- what others ask --------------------------------------------------------------------------------------


def mode(tx: Transaction) -> str:
    """`running`, `waiting_for_maintenance` or `maintenance`."""
    return str(tx.execute("SELECT mode FROM orchestrator_state").scalar_one())


def admit(tx: Transaction) -> None:
    """Let a verb go on that opens runs by several statements: until its commit the mode stays `running`, or
    at least no maintenance begins.

    Raises:
        Unavailable: nothing new is accepted now.
    """
    tx.hold()
    if tx.execute(ACCEPTING).first() is None:
        raise refused(tx)


def refused(tx: Transaction) -> Unavailable:
    """The answer to new work while the mode is not `running`."""
    row = tx.execute("SELECT mode, reason FROM orchestrator_state").one()
    detail = "nothing new is accepted during maintenance"
    return Unavailable(
        detail if row.reason is None else f"{detail}: {row.reason}",
        hint="try again later",
        maintenanceMode=row.mode,
    )


# --- the state --------------------------------------------------------------------------------------------

# Each count reads a partial index: what is over costs nothing.
_STATE = f"""
SELECT s.mode, s.mode_changed_at, s.reason,
       (SELECT count(*) FROM task_runs WHERE status = 'queued')
           + (SELECT count(*) FROM task_runs WHERE status = 'ready')
           + (SELECT count(*) FROM task_runs WHERE status = 'pending' AND due_at IS NOT NULL)
           + (SELECT count(*) FROM task_runs WHERE status = 'waiting' AND kind <> 'map') AS pending,
       (SELECT count(*) FROM task_runs WHERE status = 'running') AS running,
       CASE WHEN s.mode = '{WAITING}' THEN {_OPEN_RUNS} END AS open_runs
FROM orchestrator_state AS s
"""


def state(tx: Transaction) -> Document:
    """{mode, canEnterMaintenance, pendingTasks, runningTasks, modeChangedAt, reason, message} over all
    tenants.

    `pendingTasks` wait for a worker, a limit, their next attempt or the world outside; `runningTasks` are
    with a worker. Maintenance can be entered once no run is open, whatever it waits for.
    """
    row = tx.execute(_STATE).one()
    return {
        "mode": row.mode,
        "canEnterMaintenance": row.open_runs == 0,
        "pendingTasks": row.pending,
        "runningTasks": row.running,
        "modeChangedAt": iso(row.mode_changed_at),
        "reason": row.reason,
        "message": _message(row.mode, row.open_runs),
    }


def _message(mode: str, open_runs: int | None) -> str:
    if mode == RUNNING:
        return "Everything is accepted."
    if mode == MAINTENANCE:
        return "Nothing is pending or running, nothing is accepted."
    if not open_runs:
        return "Nothing new is accepted and nothing is left: maintenance can be entered."
    runs = f"{open_runs:,} open run{'s' if open_runs > 1 else ''}"
    return f"Nothing new is accepted; maintenance begins when {runs} ended."


_SHOWN = "r.id, r.tenant_id, r.pipeline_id, r.status, r.created_at"
_OLDEST = f"ORDER BY r.id LIMIT {SHOWN}"
_BLOCKING = f"""
WITH blocking AS (
    SELECT o.* FROM (
        (SELECT {_SHOWN} {_ACTIVE} {_OLDEST})
        UNION ALL
        (SELECT p.* FROM tenants AS t CROSS JOIN LATERAL (SELECT {_SHOWN} {_PAUSED} {_OLDEST}) AS p)) AS o
    ORDER BY o.id LIMIT {SHOWN}
)
SELECT b.*, c.*, greatest(extract(epoch FROM now() - b.created_at), 0) AS age,
       CASE WHEN b.pipeline_id IS NULL
            THEN (SELECT s.task_id FROM task_runs AS s WHERE s.run_id = b.id LIMIT 1) END AS task_id
FROM blocking AS b CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE t.status = 'running') AS running,
           count(*) FILTER (WHERE t.status = 'queued') AS queued,
           count(*) FILTER (WHERE t.status = 'ready') AS ready,
           count(*) FILTER (WHERE t.status = 'waiting') AS waiting,
           count(*) FILTER (WHERE t.status = 'pending') AS pending
    FROM task_runs AS t WHERE t.run_id = b.id AND t.kind <> 'map' AND t.finished_at IS NULL) AS c
ORDER BY b.id
"""


def detailed_state(tx: Transaction) -> Document:
    """`state` with `blocking`, the oldest SHOWN open runs of all tenants, and `blockingTotal`.

    For administrators: the runs of every tenant are shown with their ids. Ages are in seconds.
    """
    total = tx.execute(f"SELECT {_OPEN_RUNS}").scalar_one()
    blocking = [
        {
            # What to cancel: a standalone task is known by its task run alone.
            "id": run_id(row.id) if row.task_id is None else task_run_id(ids.task_run_id(row.id, 1)),
            "tenant": row.tenant_id,
            "pipelineId": row.pipeline_id,
            "taskId": row.task_id,
            "status": row.status,
            "createdAt": iso(row.created_at),
            "age": round(float(row.age), 1),
            "taskRuns": {each: getattr(row, each) for each in _COUNTED},
        }
        for row in tx.execute(_BLOCKING)
    ]
    return {**state(tx), "blocking": blocking, "blockingTotal": int(total)}


_COUNTED = ("running", "queued", "ready", "waiting", "pending")


# --- verbs ------------------------------------------------------------------------------------------------

_MOVE = """
UPDATE orchestrator_state SET mode = :to, mode_changed_at = :now, reason = {reason}
WHERE mode = ANY(CAST(:before AS text[])) {where} RETURNING mode
"""


def _move(
    tx: Transaction, to: str, before: list[str], reason: str | None, *, keeps: bool = False, where: str = ""
) -> bool:
    kept = "coalesce(CAST(:reason AS text), reason)" if keeps else "CAST(:reason AS text)"
    parameters = {"to": to, "before": before, "reason": reason, "now": tx.now}
    return tx.execute(_MOVE.format(reason=kept, where=where), parameters).first() is not None


def request(tx: Transaction, reason: str | None = None) -> None:
    """Accept nothing new from now on. Changes nothing where that is so already.

    Args:
        tx: the transaction.
        reason: told to everyone who asks or is refused, until the mode is `running` again.
    """
    if _move(tx, WAITING, [RUNNING], reason):
        log.info("maintenance.requested", extra={"reason": reason})


def enter(tx: Transaction, reason: str | None = None) -> None:
    """Begin maintenance if no run is open; else everything stays as it is, and `state` says why.

    Raises:
        Conflict: it was never requested.
    """
    if mode(tx) == RUNNING:
        raise _not_requested()
    enter_if_drained(tx, reason)


def enter_if_drained(tx: Transaction, reason: str | None = None) -> bool:
    """Begin maintenance if someone waits for it and no run is open."""
    if not tx.execute(f"SELECT {IS_AWAITED} AND {_IS_DRAINED}").scalar_one():
        return False
    tx.execute("SELECT 1 FROM orchestrator_state FOR UPDATE")
    tx.catch_up()
    # A statement of its own: it sees what the lock waited for.
    has_entered = _move(tx, MAINTENANCE, [WAITING], reason, keeps=True, where=f"AND {_IS_DRAINED}")
    if has_entered:
        log.info("maintenance.entered", extra={"reason": reason})
    return has_entered


def leave(tx: Transaction, reason: str | None = None) -> None:
    """Accept everything again, whether maintenance had begun or was only waited for.

    Raises:
        Conflict: it was never requested.
    """
    if not _move(tx, RUNNING, [WAITING, MAINTENANCE], None):
        raise _not_requested()
    log.info("maintenance.left", extra={"reason": reason})


def _not_requested() -> Conflict:
    return Conflict(
        "maintenance was not requested: the mode is running",
        hint="`pipeweave maintenance request` comes first",
        maintenanceMode=RUNNING,
    )


def run_ended(tx: Transaction) -> None:
    """A run ended, and IS_AWAITED held: after the commit, see whether it was the last one."""
    tx.afterwards(enter_if_drained)
