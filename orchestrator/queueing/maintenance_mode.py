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
# Paused runs have no index over all tenants: they are looked for tenant by tenant.
ACTIVE_RUNS = f"FROM runs AS r WHERE r.status IN {sql_in(ACTIVE_RUN)}"
PAUSED_RUNS = "FROM runs AS r WHERE r.tenant_id = t.id AND r.status = 'paused'"

# While many runs end, each asks whether it was the last one: that must not cost what counting does.
_IS_DRAINED = f"""NOT EXISTS (SELECT 1 {ACTIVE_RUNS})
    AND NOT EXISTS (SELECT 1 FROM tenants AS t CROSS JOIN LATERAL (SELECT 1 {PAUSED_RUNS} LIMIT 1) AS p)"""


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
