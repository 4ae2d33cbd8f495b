"""Pauses and resumes runs. What runs finishes and its result is stored; nothing of the run starts meanwhile.

The steps behind what finishes are decided as always, but what may start becomes `ready`, like the task runs
of a paused task. A failure ends a paused run where its failure mode says so, and a cancel always ends it; its
last step does not: `resume` looks whether the run is over.

A pending run can be paused, too: it keeps its place in line and its status, and is passed over.
"""

from __future__ import annotations

import functools
import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.release import as_released
from pipeweave.orchestrator.queueing import limits, paused_runs
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.state import run_headers, run_transitions, waits
from pipeweave.orchestrator.state.rows import COLUMNS, read
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

# Task runs of a task that one transaction releases at most, and how many transactions follow each other; the
# tick does the rest.
BATCH = limits.BATCH
BATCHES = 20

_OWNED = "SELECT 1 FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL"


def pause(
    tx: Transaction, tenant: str, run_id: UUID, *, reason: str | None = None, by: str | None = None
) -> bool:
    """Let nothing of an open run start until it is resumed. False when it is paused already; then its pause
    keeps its time, its reason and its author.

    Args:
        reason: shown wherever the run waits.
        by: who pauses it; stored with the pause.

    Raises:
        NotFound: the tenant has no such run.
        Conflict: the run is final already, or in a status that cannot be paused.
    """
    status = _lock(tx, tenant, run_id, "paused")
    if not run_transitions.pause(tx, run_id, by=by, reason=reason):
        if status not in (RunStatus.PAUSED, RunStatus.PENDING):
            raise Conflict(f"run {ids.show(ids.RUN, run_id)} is {status} and cannot be paused now")
        return False
    _log("run.paused", tx, tenant, run_id, by)
    # After the commit, because every later release sees the pause.
    tx.afterwards(lambda after: hold_all(after, run_id, by))
    return True


def hold_all(tx: Transaction, run_id: UUID, by: str | None = None) -> None:
    """Take back what is still queued of a paused run, and pause its children.

    Args:
        by: who paused the run.
    """
    paused_runs.take_back_all(tx, run_id)
    if _has_children(tx, run_id):
        tx.afterwards(functools.partial(_pause_children, run_id=run_id, by=by))


def resume(tx: Transaction, tenant: str, run_id: UUID, *, by: str | None = None) -> bool:
    """End the pause of a run: what is ready starts while limits have room, in the usual order. False when it
    is not paused.

    Args:
        by: who resumes it; stored with the event.

    Raises:
        NotFound: the tenant has no such run.
        Conflict: the run is final already.
    """
    status = _lock(tx, tenant, run_id, "resumed")
    if not run_transitions.resume(tx, run_id, by=by):
        return False
    _log("run.resumed", tx, tenant, run_id, by)
    if status is RunStatus.PENDING:
        tx.afterwards(lambda after: _admit(after, tenant))
    else:
        _go_on(tx, tenant, run_id)
    if _has_children(tx, run_id):
        waits.look_at_children(tx, run_id)
        tx.afterwards(functools.partial(_resume_children, run_id=run_id, by=by))
    return True


def _lock(tx: Transaction, tenant: str, run_id: UUID, what: str) -> RunStatus:
    owned = tx.execute(_OWNED, {"id": run_id, "tenant": tenant}).first()
    status = None if owned is None else run_transitions.lock_status(tx, run_id)
    shown = ids.show(ids.RUN, run_id)
    if status is None:
        raise NotFound(f"run {shown} not found", runId=shown)
    if status.is_final:
        raise Conflict(f"run {shown} is already {status}", hint=f"a run that has ended cannot be {what}")
    return status


def _log(event: str, tx: Transaction, tenant: str, run_id: UUID, by: str | None) -> None:
    names = {"tenant": tenant, "run_id": ids.show(ids.RUN, run_id), "by": by}
    tx.after_commit(lambda: log.info(event, extra=names))


def _admit(tx: Transaction, tenant: str) -> None:
    admission.admit_pending_runs(tx, tenant)


# --- the runs that belong to it ---------------------------------------------------------------------------

# The reason of a pause that came from above, and ends with the one there.
PARENT_PAUSED = "the run that it belongs to is paused"
_CHILDREN = """
SELECT r.id, r.tenant_id FROM runs AS r LEFT JOIN run_pauses AS p ON p.run_id = r.id
WHERE r.parent_run_id = :id AND r.finished_at IS NULL AND p.reason IS NOT DISTINCT FROM CAST(:reason AS text)
ORDER BY r.id
"""


def _has_children(tx: Transaction, run_id: UUID) -> bool:
    run = run_headers.load(tx, run_id)
    return run is not None and run.plan.has_children


def _pause_children(tx: Transaction, run_id: UUID, by: str | None) -> None:
    for row in tx.execute(_CHILDREN, {"id": run_id, "reason": None}).all():
        tx.afterwards(functools.partial(_pause_child, tenant=row.tenant_id, run_id=row.id, by=by))


def _pause_child(tx: Transaction, tenant: str, run_id: UUID, by: str | None) -> None:
    with suppress(Conflict):  # it has ended meanwhile
        pause(tx, tenant, run_id, reason=PARENT_PAUSED, by=by)


def _resume_children(tx: Transaction, run_id: UUID, by: str | None) -> None:
    for row in tx.execute(_CHILDREN, {"id": run_id, "reason": PARENT_PAUSED}).all():
        tx.afterwards(functools.partial(resume_child, tenant=row.tenant_id, run_id=row.id, by=by))


def resume_child(tx: Transaction, tenant: str, run_id: UUID, by: str | None = None) -> None:
    """End the pause of a run that came from its parent."""
    with suppress(Conflict):  # it has ended meanwhile
        resume(tx, tenant, run_id, by=by)


# --- what the run was kept from ---------------------------------------------------------------------------

_QUEUED = f"""
SELECT {COLUMNS} FROM task_runs AS t WHERE t.run_id = :run_id AND t.status || '' = 'queued'
ORDER BY t.id LIMIT :batch
"""
_READY_TASKS = """
SELECT DISTINCT t.task_id FROM task_runs AS t WHERE t.run_id = :run_id AND t.status || '' = 'ready'
"""


def _go_on(tx: Transaction, tenant: str, run_id: UUID) -> None:
    run = run_headers.load(tx, run_id)
    if run is None:
        return
    advance = Advance(tx, run)
    # The last step of a paused run has ended nothing.
    advance.check(END)
    advance.close()
    if advance.ended:
        return
    # Those that the pause did not take back yet: a worker may have dropped their messages.
    for each in read(tx.execute(_QUEUED, {"run_id": run_id, "batch": BATCH})):
        if not queue_names.is_parking(each.queue):
            tx.send(as_released(each))
    ready: list[Any] = list(tx.execute(_READY_TASKS, {"run_id": run_id}).scalars())
    _release_all(tx, tenant, ready, BATCHES)


def _release_all(tx: Transaction, tenant: str, tasks: list[str], batches: int) -> None:
    if limits.fill(tx, tenant, tasks) >= BATCH and batches > 1:
        tx.afterwards(lambda after: _release_all(after, tenant, tasks, batches - 1))
