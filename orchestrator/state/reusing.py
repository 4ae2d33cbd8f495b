"""Takes over results of a run that ended: the steps that a rerun does not run again.

The row of a reused step is completed without an attempt. It has the output, or its path, and the assets of
the task run that made them, and names that task run in `cached_from`: housekeeping of storage keeps its files
as long as the row is there. The items of a reused map are written as completed rows. A step whose condition
was false is skipped again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.reuse import OldStep
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import FINAL_RUN, sql_in
from pipeweave.orchestrator.domain.states import TaskStatus as T
from pipeweave.orchestrator.state import cancelling, completing
from pipeweave.orchestrator.state.cancelling import CONDITION_FALSE
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, move
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class ReusedStep:
    """One step to take over.

    Args:
        ordinal: its ordinal in the new run.
        old: its task run in the run before.
        origin: the task run that made the result: `old`, or the one whose result `old` had taken.
        old_first: of a map with items, the ordinal of its first item in the run before.
        count: of a map, the number of its items; 0 for any other step.
    """

    ordinal: int
    old: UUID
    origin: UUID
    old_first: int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Reused:
    """The steps that a new run takes over from a run before.

    Args:
        passed_over: those whose conditions were false, by their ordinals in the new run: their task runs in
            the run before.
    """

    old_run: UUID
    steps: Sequence[ReusedStep]
    passed_over: Mapping[int, UUID] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """How many items its maps have together."""
        return sum(each.count for each in self.steps)


_STEPS = f"""
SELECT t.id, t.step_id, t.status, t.selected_next, t.cached_from, t.map_first, t.error_code,
    coalesce(t.map_count, 0) AS items
FROM task_runs AS t WHERE t.run_id = :run_id AND {kind_sql.IS_STEP} ORDER BY t.id
"""
_BROKEN_MAPS = f"""
SELECT DISTINCT t.map_parent FROM task_runs AS t
WHERE t.run_id = :run_id AND {kind_sql.IS_ITEM} AND t.status <> 'completed'
"""


def old_steps(tx: Transaction, run_id: UUID) -> tuple[Mapping[str, OldStep], Mapping[str, ReusedStep]]:
    """How the steps of a run ended, and what there is to take over, by step id.

    The ordinals are those of this run.
    """
    broken = set(tx.execute(_BROKEN_MAPS, {"run_id": run_id}).scalars())
    ended: dict[str, OldStep] = {}
    reusable_steps: dict[str, ReusedStep] = {}
    for row in tx.execute(_STEPS, {"run_id": run_id}):
        ordinal = ids.ordinal_of(row.id)
        is_completed = row.status == T.COMPLETED and ordinal not in broken
        chosen = None if row.selected_next is None else frozenset(row.selected_next)
        is_passed_over = row.status == T.SKIPPED and row.error_code == CONDITION_FALSE
        ended[row.step_id] = OldStep(is_completed, chosen, is_passed_over)
        origin = row.cached_from or row.id
        reusable_steps[row.step_id] = ReusedStep(ordinal, row.id, origin, row.map_first, row.items)
    return ended, reusable_steps


_LOCK = f"SELECT r.id FROM runs AS r WHERE r.id = :id AND r.status IN {sql_in(FINAL_RUN)} FOR SHARE"


def reuse(tx: Transaction, run: RunHeader, reused: Reused) -> None:
    """Complete the reused steps of a run that this transaction has written, with the results of before.

    Raises:
        Conflict: the run before was continued or deleted since it was looked at; nothing was changed.
    """
    # A dead letter's retry would open the run and move steps back: it waits, or this does and finds no row.
    if tx.execute(_LOCK, {"id": reused.old_run}).first() is None:
        raise _changed(reused)
    tx.catch_up()
    first = len(run.plan.steps) + 1
    for each in reused.steps:
        if each.old_first is not None and each.count:
            completing.lay_out(tx, run.id, each.ordinal, first=first, count=each.count)
            _take_items(tx, run, reused, each, first)
            first += each.count
    if reused.steps and len(_take_steps(tx, run, reused)) < len(reused.steps):
        raise _changed(reused)
    if reused.passed_over:
        _pass_over(tx, run, reused)


_PASSED_OVER = f"""
SELECT count(*) FROM {NAMED} JOIN task_runs AS t ON {by_key()}
WHERE t.status = 'skipped' AND t.error_code = '{CONDITION_FALSE}'
"""


def _pass_over(tx: Transaction, run: RunHeader, reused: Reused) -> None:
    there = {"run_id": reused.old_run, "ids": sorted(reused.passed_over.values())}
    if tx.execute(_PASSED_OVER, there).scalar_one() < len(reused.passed_over):
        raise _changed(reused)
    cancelling.skip(tx, run.id, sorted(reused.passed_over), code=CONDITION_FALSE)


def _changed(reused: Reused) -> Conflict:
    shown = ids.show(ids.RUN, reused.old_run)
    return Conflict(
        f"run {shown} was continued or deleted a moment ago, so its results cannot be reused",
        hint="wait until it has ended, and try again",
        runId=shown,
    )


# Each item completes with its result; the ids are the new run's, with the item's ordinal in the last 24 bits.
_TAKE_ITEMS = """
WITH taken AS (
    INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, map_index, map_parent, status,
        max_attempts, priority, queue, is_limited, code_version, code_hash, item, output, output_path,
        output_size, output_hash, assets, cached_from, created_at, finished_at)
    SELECT p.run_id, CAST(left(CAST(p.run_id AS text), 30)
            || lpad(to_hex(CAST(:first AS integer) + o.map_index), 6, '0') AS uuid),
        p.tenant_id, p.step_id, p.task_id, 'item', o.map_index, :parent, 'completed',
        p.max_attempts, p.priority, p.queue, p.is_limited, o.code_version, o.code_hash, o.item, o.output,
        o.output_path, o.output_size, o.output_hash, o.assets, coalesce(o.cached_from, o.id), :now, :now
    FROM task_runs AS p, task_runs AS o
    WHERE p.run_id = :run_id AND p.id = :parent_id
        AND o.run_id = :old_run AND o.id BETWEEN :old_first AND :old_last AND o.status = 'completed'
    RETURNING run_id, id, output_hash
)
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT n.run_id, :now, 'task_run.completed', n.id, 1,
    jsonb_strip_nulls(jsonb_build_object('outputHash', n.output_hash, 'cached', true))
FROM taken AS n ORDER BY n.id
"""


def _take_items(tx: Transaction, run: RunHeader, reused: Reused, each: ReusedStep, first: int) -> None:
    old_first = each.old_first or 0
    parameters = {
        "run_id": run.id,
        "parent": each.ordinal,
        "parent_id": ids.task_run_id(run.id, each.ordinal),
        "first": first,
        "old_run": reused.old_run,
        "old_first": ids.task_run_id(reused.old_run, old_first),
        "old_last": ids.task_run_id(reused.old_run, old_first + each.count - 1),
        "now": tx.now,
    }
    if tx.execute(_TAKE_ITEMS, parameters).rowcount < each.count:
        raise _changed(reused)


_TAKE_STEPS = Move(
    to=T.COMPLETED,
    changes=""", started_at = NULL, finished_at = :now, output = o.output, output_path = o.output_path,
    output_size = o.output_size, output_hash = o.output_hash, selected_next = o.selected_next,
    assets = o.assets, cached_from = g.origin, map_count = o.map_count, code_version = o.code_version,
    code_hash = o.code_hash""",
    source="""FROM unnest(CAST(:ids AS uuid[]), CAST(:olds AS uuid[]), CAST(:origins AS uuid[]),
        CAST(:shown AS text[])) AS g(id, old, origin, shown) JOIN task_runs AS o
            ON o.run_id = :old_run AND o.id = g.old AND o.status = 'completed'""",
    rows=by_key("g.id"),
    where="t.kind = o.kind",
    returning=", t.map_count, g.shown",
    event=MoveEvent(
        "'task_run.completed'",
        """jsonb_strip_nulls(jsonb_build_object('outputHash', m.output_hash, 'selectedNext',
            to_jsonb(m.selected_next), 'count', m.map_count, 'cached', true, 'cachedFrom', m.shown))""",
    ),
)


def _take_steps(tx: Transaction, run: RunHeader, reused: Reused) -> Sequence[Any]:
    steps = sorted(reused.steps, key=lambda each: each.ordinal)
    parameters = {
        "ids": [ids.task_run_id(run.id, each.ordinal) for each in steps],
        "olds": [each.old for each in steps],
        "origins": [each.origin for each in steps],
        "shown": [ids.show(ids.TASK_RUN, each.origin) for each in steps],
        "old_run": reused.old_run,
    }
    return move(tx, run.id, _TAKE_STEPS, parameters)


_TAKEN_OVER = f"""
SELECT t.step_id FROM task_runs AS t
WHERE t.run_id = :run_id AND {kind_sql.IS_STEP} AND t.started_at IS NULL AND t.cached_from IS NOT NULL
ORDER BY t.id
"""


def taken_over(tx: Transaction, run_id: UUID) -> Sequence[str]:
    """The ids of the steps that a run has taken over from the run before it."""
    return list(tx.execute(_TAKEN_OVER, {"run_id": run_id}).scalars())


_REUSED = f"""
SELECT t.id FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last
    AND (t.status = 'completed' OR t.error_code = '{CONDITION_FALSE}')
"""


def reused_steps(tx: Transaction, run: RunHeader) -> frozenset[int]:
    """The ordinals of the steps that a run had taken over when it was written, those that are passed over
    among them. No step of it has run yet.
    """
    span = {"first": ids.task_run_id(run.id, 1), "last": ids.task_run_id(run.id, len(run.plan.steps))}
    rows = tx.execute(_REUSED, {"run_id": run.id, **span}).scalars()
    return frozenset(ids.ordinal_of(each) for each in rows)
