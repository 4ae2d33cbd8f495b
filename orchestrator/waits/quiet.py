"""Marks runs of which nothing works: every open task run of a quiet run waits, or comes after one that does.

A quiet run costs its rows and nothing else. It holds no run slot, does not stop a drain, is not idle, and is
left out of the search for stuck joins. The mark is changed with the row of the run locked, so that of two
transactions one sees what the other did.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.facts import RunQuiet
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import ADMITTED_RUN, OPEN_RUN, sql_in
from pipeweave.orchestrator.state import deployment_mode, run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# Runs whose marks one pass looks at, and of them those that are read together, with so many steps in all.
BATCH = 1_000
PIECE = 100
MOST_STEPS = 10_000
_BEFORE_ALL = UUID(int=0)

_LOCK_LIVELY = f"""
SELECT 1 FROM runs AS r WHERE r.id = :id AND r.finished_at IS NULL AND r.quiet_since IS NULL
    AND r.status IN {sql_in(ADMITTED_RUN)} FOR UPDATE
"""
# Not the items of maps: a map that waits for its items is no wait, and keeps its run lively. Each run is read
# by its own span of ids (OFFSET 0), however many runs there are.
_OPEN_STEPS = """
SELECT n.id AS run_id, o.* FROM unnest(CAST(:ids AS uuid[]), CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[]))
    AS n(id, first, last) CROSS JOIN LATERAL (
        SELECT t.id, t.status, t.due_at,
            w.task_run_id IS NOT NULL AND (w.kind <> 'child' OR EXISTS (SELECT 1 FROM runs AS c
                WHERE c.id = CAST(w.data ->> 'run' AS uuid) AND c.quiet_since IS NOT NULL)
                OR w.due_at > :now AND NOT EXISTS (SELECT 1 FROM runs AS c
                    WHERE c.id = CAST(w.data ->> 'run' AS uuid))) AS has_wait FROM task_runs AS t
            LEFT JOIN waits AS w ON w.run_id = t.run_id AND w.task_run_id = t.id AND w.attempt = t.attempt
        WHERE t.run_id = n.id AND t.id BETWEEN n.first AND n.last AND t.finished_at IS NULL OFFSET 0) AS o
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
    return is_quiet(run.plan, _open_steps(tx, {run.id: run.plan}).get(run.id, {}))


def _open_steps(tx: Transaction, plans: Mapping[UUID, Plan]) -> dict[UUID, dict[int, Any]]:
    """The open steps of each run, by ordinal, as `is_quiet` takes them."""
    spans = {
        "ids": list(plans),
        "firsts": [ids.task_run_id(run_id, 1) for run_id in plans],
        "lasts": [ids.task_run_id(run_id, len(plan.steps)) for run_id, plan in plans.items()],
        "now": tx.now,
    }
    open_steps: dict[UUID, dict[int, Any]] = {}
    for row in tx.execute(_OPEN_STEPS, spans):
        open_steps.setdefault(row.run_id, {})[ids.ordinal_of(row.id)] = row
    return open_steps


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

_MARKED_OR_WAITING = f"""
SELECT {run_headers.PLAN_COLUMNS}, r.quiet_since, r.status FROM (
    (SELECT r.id FROM runs AS r WHERE r.finished_at IS NULL AND r.quiet_since IS NOT NULL AND r.id > :after
     ORDER BY r.id LIMIT :batch)
    UNION
    (SELECT DISTINCT w.run_id FROM waits AS w WHERE w.run_id > :after ORDER BY w.run_id LIMIT :batch)) AS o
    JOIN runs AS r ON r.id = o.id
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
    under_way, isolation = database.caches.own(_Pass), Isolation(database)
    with database.statements() as tx:
        rows = tx.execute(_MARKED_OR_WAITING, {"after": under_way.after, "batch": BATCH}).all()
    under_way.after = rows[-1].id if len(rows) == BATCH else _BEFORE_ALL
    doubtful: list[UUID] = []

    def compare(some: Sequence[Any]) -> int:
        doubtful.extend(_doubtful(database, some))
        return 0

    def check(run_id: UUID) -> int:
        return int(database.run(lambda tx: _check(tx, run_id)))

    for start in range(0, len(rows), PIECE):
        isolation.run_together(rows[start : start + PIECE], compare, "run")
    return isolation.finish(
        sum(isolation.run(lambda each=each: check(each), run_id=each) for each in doubtful)  # type: ignore[misc]
    )


def _doubtful(database: Database, rows: Sequence[Any]) -> list[UUID]:
    """The runs of which the mark does not fit what is read now, without a lock: most marks are right."""
    marks = {row.id: row.quiet_since is not None for row in rows if row.status in OPEN_RUN}
    with database.statements() as tx:
        plans = {row.id: run_headers.plan_of(tx, row) for row in rows if row.id in marks}
        steps: dict[UUID, dict[int, Any]] = {}
        for some in _pieces(plans):
            steps |= _open_steps(tx, some)
    return [
        each for each, is_marked in marks.items() if is_quiet(plans[each], steps.get(each, {})) != is_marked
    ]


def _pieces(plans: Mapping[UUID, Plan]) -> Iterator[dict[UUID, Plan]]:
    """The plans, so many at a time that they have MOST_STEPS steps in all, or a single one has more."""
    piece: dict[UUID, Plan] = {}
    count = 0
    for run_id, plan in plans.items():
        if piece and count + len(plan.steps) > MOST_STEPS:
            yield piece
            piece, count = {}, 0
        piece[run_id] = plan
        count += len(plan.steps)
    if piece:
        yield piece


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
