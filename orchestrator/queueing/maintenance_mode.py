"""Changes the maintenance mode: the deployment refuses new runs, open runs end, and then it stays empty.

    running --request--> waiting_for_maintenance --the last open run ends, or enter--> maintenance
    running <----------------------------- leave, from either ----------------------------

One row holds the mode, and every process reads it there.

No run slips in. A transaction that writes a run locks the row with KEY SHARE until its commit; the lock is
part of the statement that writes (ACCEPTING), and its cost is too small to measure. `request` does not wait
for such a transaction. `enter` does: it locks the row FOR UPDATE, and only then looks for open runs. A later
writer waits for that lock, and PostgreSQL reads the mode again when the writer has it. As with a foreign key,
KEY SHARE locks do not block each other, nor the tick, which writes its time into the row.

The end of the last run enters maintenance. The statement that ends a run reads whether maintenance waits
(IS_AWAITED: 4 µs for each run, nothing for a step). If it does, `enter_if_drained` follows the commit in its
own transaction. Of runs that end at the same moment, the transaction that looks last sees all of them final.
The mode is not cached in processes: a cached mode is out of date, and API processes and the tick end runs,
too. The next tick repairs an end that was missed: the run was just ending when maintenance was requested, or
its process died.
"""

from __future__ import annotations

import logging

from pipeweave.errors import Conflict, Unavailable
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, sql_in
from pipeweave.orchestrator.state.deployment_mode import (
    ACCEPTING,
    IS_AWAITED,
    MAINTENANCE,
    RUNNING,
    WAITING,
    mode,
)
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)
# Quiet runs stop nothing: what they wait for may take months, and they go on after the maintenance.
_LIVELY = "r.finished_at IS NULL AND r.quiet_since IS NULL"
# No index has the paused runs of all tenants: they are searched tenant by tenant.
ACTIVE_RUNS = f"FROM runs AS r WHERE r.status IN {sql_in(ACTIVE_RUN)} AND {_LIVELY}"
PAUSED_RUNS = f"FROM runs AS r WHERE r.tenant_id = t.id AND r.status = 'paused' AND {_LIVELY}"

# EXISTS, not a count: while many runs end, each of them asks whether it was the last.
_IS_DRAINED = f"""NOT EXISTS (SELECT 1 {ACTIVE_RUNS})
    AND NOT EXISTS (SELECT 1 FROM tenants AS t CROSS JOIN LATERAL (SELECT 1 {PAUSED_RUNS} LIMIT 1) AS p)"""


def admit(tx: Transaction) -> None:
    """Check that new work is accepted, for a verb that opens runs by several statements. Maintenance does not
    begin before the commit.

    Raises:
        Unavailable: nothing new is accepted now.
    """
    tx.hold()
    if tx.execute(ACCEPTING).first() is None:
        raise refused(tx)


def check_open(tx: Transaction) -> None:
    """Check that open runs may go on, for a verb that lets one do so.

    Raises:
        Unavailable: maintenance has begun.
    """
    if mode(tx) == MAINTENANCE:
        raise refused(tx)


def refused(tx: Transaction) -> Unavailable:
    """The error that refuses new work while the mode is not `running`."""
    row = tx.execute("SELECT mode, reason FROM orchestrator_state").one()
    detail = "the deployment is in maintenance and accepts no new work"
    return Unavailable(
        detail if row.reason is None else f"{detail}: {row.reason}",
        hint="try again later",
        maintenanceMode=row.mode,
    )


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
    """Refuse new work from now on. Changes nothing if new work is refused already.

    Args:
        tx: the transaction.
        reason: shown in the status and in refusals until the mode is `running` again.
    """
    if _move(tx, WAITING, [RUNNING], reason):
        log.info("maintenance.requested", extra={"reason": reason})


def enter(tx: Transaction, reason: str | None = None) -> None:
    """Begin maintenance if no run is open; else nothing changes, and `reading.maintenance.state` says why.

    Raises:
        Conflict: it was never requested.
    """
    if mode(tx) == RUNNING:
        raise _not_requested()
    enter_if_drained(tx, reason)


def enter_if_drained(tx: Transaction, reason: str | None = None) -> bool:
    """Begin maintenance if it was requested and no run is open; returns whether it began."""
    if not tx.execute(f"SELECT {IS_AWAITED} AND {_IS_DRAINED}").scalar_one():
        return False
    tx.execute("SELECT 1 FROM orchestrator_state FOR UPDATE")
    tx.catch_up()
    # A separate statement, so that it sees the commits that the lock waited for.
    has_entered = _move(tx, MAINTENANCE, [WAITING], reason, keeps=True, where=f"AND {_IS_DRAINED}")
    if has_entered:
        log.info("maintenance.entered", extra={"reason": reason})
    return has_entered


def leave(tx: Transaction, reason: str | None = None) -> None:
    """Accept new work again, whether maintenance had begun or was only requested.

    Raises:
        Conflict: it was never requested.
    """
    if not _move(tx, RUNNING, [WAITING, MAINTENANCE], None):
        raise _not_requested()
    log.info("maintenance.left", extra={"reason": reason})


def _not_requested() -> Conflict:
    return Conflict(
        "maintenance was not requested: new work is accepted",
        hint="`pipeweave maintenance request` requests it",
        maintenanceMode=RUNNING,
    )
