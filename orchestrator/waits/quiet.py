"""Marks runs of which nothing works: every open task run of a quiet run waits, or comes after one that does.

A quiet run costs its rows and nothing else. It holds no run slot, does not stop a drain, is not idle, and is
left out of the search for stuck joins. The mark is changed with the row of the run locked, so that of two
transactions one sees what the other did.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.facts import RunQuiet
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import ADMITTED_RUN, sql_in
from pipeweave.orchestrator.state import deployment_mode, run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# Runs whose marks one pass looks at.
BATCH = 1_000
_BEFORE_ALL = UUID(int=0)

_LOCK_LIVELY = f"""
SELECT 1 FROM runs AS r WHERE r.id = :id AND r.finished_at IS NULL AND r.quiet_since IS NULL
    AND r.status IN {sql_in(ADMITTED_RUN)} FOR UPDATE
"""
# Not the items of maps: a map that waits for its items is no wait, and keeps its run lively.
_OPEN_STEPS = """
SELECT t.id, t.status, t.due_at,
    w.task_run_id IS NOT NULL AND (w.kind <> 'child' OR EXISTS (SELECT 1 FROM runs AS c
        WHERE c.id = CAST(w.data ->> 'run' AS uuid) AND c.quiet_since IS NOT NULL)
        OR w.due_at > :now AND NOT EXISTS (SELECT 1 FROM runs AS c
            WHERE c.id = CAST(w.data ->> 'run' AS uuid))) AS has_wait FROM task_runs AS t
    LEFT JOIN waits AS w ON w.run_id = t.run_id AND w.task_run_id = t.id AND w.attempt = t.attempt
WHERE t.run_id = :id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL
"""
_MARK = f"""
WITH run AS (
    UPDATE runs AS r SET quiet_since = :now WHERE r.id = :id RETURNING r.id, r.tenant_id, r.pipeline_id
)
SELECT {deployment_mode.IS_AWAITED} AS is_awaited,
    (SELECT n.id FROM run JOIN tenants AS n ON n.id = run.tenant_id
     WHERE n.max_active_runs IS NOT NULL AND run.pipeline_id IS NOT NULL) AS limited_tenant
"""


def mark(tx: Transaction, run: RunHeader) -> bool:
    """Mark a run as quiet if nothing of it works. Call it before the transaction locks a wait of the run.

    Returns:
        Whether it was marked now.
    """
    if tx.execute(_LOCK_LIVELY, {"id": run.id}).first() is None:
        return False
    tx.catch_up()
    if not _is_quiet(tx, run):
        return False
    row: Any = tx.execute(_MARK, {"id": run.id, "now": tx.now}).one()
    above = None if run.parent is None else run.parent.task_run_id
    tx.announce(RunQuiet(run.id, row.is_awaited, row.limited_tenant, above))
    return True


def _is_quiet(tx: Transaction, run: RunHeader) -> bool:
    span = {
        "id": run.id,
        "first": ids.task_run_id(run.id, 1),
        "last": ids.task_run_id(run.id, len(run.plan.steps)),
        "now": tx.now,
    }
    return is_quiet(run.plan, {ids.ordinal_of(row.id): row for row in tx.execute(_OPEN_STEPS, span)})


def is_quiet(plan: Plan, open_steps: Mapping[int, Any]) -> bool:
    """Whether a run with these open steps has nothing to do until a wait ends.

    Args:
        open_steps: {status, due_at, has_wait} by ordinal.
    """
    return bool(open_steps) and all(
        _waits(plan, ordinal, row, open_steps) for ordinal, row in open_steps.items()
    )


def _waits(plan: Plan, ordinal: int, row: Any, open_steps: Mapping[int, Any]) -> bool:
    if row.status == "waiting":
        return bool(row.has_wait)
    if row.status != "pending" or row.due_at is not None:
        return False
    before = plan[ordinal].predecessors
    # A step that may run before all its predecessors are final may have to be decided already.
    needed = all if plan[ordinal].step.join.is_early else any
    return needed(each in open_steps for each in before)


_WAKE = """
WITH run AS (
    SELECT r.id, r.quiet_since FROM runs AS r WHERE r.id = :id AND r.finished_at IS NULL FOR UPDATE
), woken AS (
    UPDATE runs AS r SET quiet_since = NULL FROM run AS o WHERE r.id = o.id AND o.quiet_since IS NOT NULL
)
SELECT 1 FROM run
"""


def wake(tx: Transaction, run: RunHeader) -> bool:
    """Lock a run and take its mark away, because a wait of it ends. False when the run is final."""
    is_open = tx.execute(_WAKE, {"id": run.id}).first() is not None
    tx.catch_up()
    if is_open and run.parent is not None:
        # After the commit, because the row of a parent is never locked behind that of its child.
        tx.afterwards(functools.partial(_wake_run, run_id=run.parent.run_id))
    return is_open


def _wake_run(tx: Transaction, run_id: UUID) -> None:
    run = run_headers.load(tx, run_id)
    if run is not None:
        wake(tx, run)


# --- marks that are wrong ---------------------------------------------------------------------------------

_MARKED_OR_WAITING = """
SELECT o.id FROM (
    (SELECT r.id FROM runs AS r WHERE r.finished_at IS NULL AND r.quiet_since IS NOT NULL AND r.id > :after
     ORDER BY r.id LIMIT :batch)
    UNION
    (SELECT DISTINCT w.run_id FROM waits AS w WHERE w.run_id > :after ORDER BY w.run_id LIMIT :batch)) AS o
ORDER BY o.id LIMIT :batch
"""

# SQL: whether a run waits, or is marked.
MAY_BE_WRONG = """(EXISTS (SELECT 1 FROM waits) OR EXISTS (SELECT 1 FROM runs AS r
    WHERE r.finished_at IS NULL AND r.quiet_since IS NOT NULL))"""


class _Pass:
    """The pass of this process over a database: the last run that it looked at."""

    def __init__(self) -> None:
        self.after = _BEFORE_ALL


def check_marks(database: Database) -> int:
    """Look at the marks of up to BATCH runs, and correct them; the next call goes on behind those. Returns
    how many were wrong.

    A step that ends while another one waits leaves its run unmarked, and a process of an earlier version
    knows no marks.

    Raises:
        PartlyFailed: some runs could not be looked at.
        Unavailable: PostgreSQL cannot be reached.
    """
    under_way = database.caches.own(_Pass)
    with database.statements() as tx:
        parameters = {"after": under_way.after, "batch": BATCH}
        runs: Sequence[UUID] = list(tx.execute(_MARKED_OR_WAITING, parameters).scalars())
    under_way.after = runs[-1] if len(runs) == BATCH else _BEFORE_ALL
    isolation = Isolation(database)

    def check(run_id: UUID) -> int:
        return int(database.run(lambda tx: _check(tx, run_id)))

    return isolation.finish(
        sum(isolation.run(lambda each=each: check(each), run_id=each) for each in runs)  # type: ignore[misc]
    )


_LOCK_MARKED = """
SELECT 1 FROM runs AS r WHERE r.id = :id AND r.finished_at IS NULL AND r.quiet_since IS NOT NULL FOR UPDATE
"""


def _check(tx: Transaction, run_id: UUID) -> bool:
    run = run_headers.load(tx, run_id)
    if run is None:
        return False
    if tx.execute(_LOCK_MARKED, {"id": run_id}).first() is None:
        return mark(tx, run)
    if _is_quiet(tx, run):
        return False
    return wake(tx, run)
