"""Decides joins: whether a step runs, is skipped or waits, and whether the run ends (`End`).

The rule is pure (pipeweave/spec/rules.py). This module gives it the statuses of all predecessors. Those that
the transaction does not know are read after the rows of the joins are locked. So of two transactions that end
the last two predecessors of a join, the second one sees the change of the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.plan import END, Plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state import cancelling, releasing
from pipeweave.orchestrator.state.cancelling import CONDITION_FALSE, PREDECESSOR_FAILED
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import rules
from pipeweave.spec.rules import Decision, Predecessor


@dataclass(frozen=True, slots=True)
class End:
    """The decision that a run ends, before anything of its end is written.

    Args:
        failed: the task run whose failure ends the run at once, whatever is open. None if all is final that
            the run waits for: then the statuses of its task runs say how it ended.
        cause: why `failed` failed; None where that is not known.
    """

    failed: TaskRun | None = None
    cause: Failure | None = None


_OVER = End()
# A step whose condition is false.
PASSED_OVER = Predecessor("skipped", is_passed_over=True)


def end_by_failure(
    mode: str, plan: Plan, finished: Sequence[TaskRun], causes: Mapping[UUID, Failure]
) -> End | None:
    """The end of a run of which these task runs are final now, if a failure among them ends it at once. One
    that is tolerated, that a gather tells of, or that is of an item of a map of which the error is taken care
    of, does not.

    Args:
        mode: the failure mode of the run.
        plan: of the run.
        causes: why task runs failed, by their ids.
    """
    if mode != rules.FAIL_FAST:
        return None
    failed = [each for each in finished if each.status in rules.FAILED]
    if failed and (plan.excused or plan.settling or plan.handled_maps):
        failed = [each for each in failed if not _is_excused(plan, each)]
    return End(failed[0], causes.get(failed[0].id)) if failed else None


def _is_excused(plan: Plan, task_run: TaskRun) -> bool:
    is_item, ordinal = task_run.map_parent is not None, task_run.map_parent or task_run.ordinal
    return plan.is_excused(ordinal, task_run.status, is_item=is_item)


def end_by_decisions(decisions: Mapping[int, Decision]) -> End | None:
    """The end of a run about which this was decided, if all is final that it waits for."""
    return _OVER if decisions.get(END) is Decision.RUN else None


def decide_or_end(
    tx: Transaction, run: RunHeader, joins: Sequence[int], known: Mapping[int, Predecessor]
) -> dict[int, Decision]:
    """Decide joins, and the end of the run as well when a join was decided before: in a reopened run a step
    may end after the join behind it, as the last step of the run.
    """
    decisions = decide(tx, run, joins, known)
    if END not in joins and len(decisions) < len(joins):
        decisions |= decide(tx, run, [END], {})
    return decisions


def decide(
    tx: Transaction, run: RunHeader, joins: Sequence[int], known: Mapping[int, Predecessor]
) -> dict[int, Decision]:
    """Decide joins. Joins that another transaction has decided are left out.

    Args:
        known: predecessors that this transaction knows to be final; the other predecessors are read, with the
            joins locked.
    """
    # A step with a rule of its own may have run before predecessors that were retried since: its row says so.
    ruled = run.plan.ruled
    unknown = [j for j in joins if j in ruled or any(p not in known for p in run.plan.predecessors(j))]
    predecessors = known
    if unknown:
        undecided = _lock_joins(tx, run, unknown)
        missing = {p for j in unknown if j in undecided for p in run.plan.predecessors(j)} - known.keys()
        predecessors = {**_read_predecessors(tx, run, missing), **known}
        joins = [j for j in joins if j not in unknown or j in undecided]
    return {join: _decision(run, join, predecessors) for join in joins}


def _decision(run: RunHeader, join: int, predecessors: Mapping[int, Predecessor]) -> Decision:
    before = {run.plan[p].id: predecessors[p] for p in run.plan.predecessors(join)}
    if join == END:
        waits = any(each.status not in rules.FINAL for each in before.values())
        return Decision.WAIT if waits else Decision.RUN
    step = run.plan[join].step
    return rules.decide_step(run.failure_mode, before, step.id, step.join)


def skip(
    tx: Transaction, run: RunHeader, decisions: Mapping[int, Decision], known: dict[int, Predecessor]
) -> list[int]:
    """Skip the steps whose decision is SKIP. Adds them to `known` and returns their ordinals."""
    by_cause: dict[bool, list[int]] = {True: [], False: []}
    for join in [j for j, decision in decisions.items() if decision is Decision.SKIP]:
        ordinals = run.plan.predecessors(join)
        before = [known[p] for p in ordinals if p in known]
        if len(before) < len(ordinals):
            before = list(_read_predecessors(tx, run, ordinals).values())
        by_cause[rules.follows_failure(before)].append(join)
    skipped: list[int] = []
    for is_after_failure, steps in by_cause.items():
        code = PREDECESSOR_FAILED if is_after_failure else None
        for task_run in cancelling.skip(tx, run.id, steps, code=code):
            known[task_run.ordinal] = Predecessor("skipped", None, is_after_failure)
            skipped.append(task_run.ordinal)
    return skipped


_LOCK_STEPS = f"""
SELECT t.id FROM {NAMED} JOIN task_runs AS t ON {by_key()} WHERE {releasing.UNDECIDED}
ORDER BY t.id FOR UPDATE OF t
"""
_LOCK_RUN = "SELECT r.id FROM runs AS r WHERE r.id = :run_id AND r.finished_at IS NULL FOR UPDATE"


def _lock_joins(tx: Transaction, run: RunHeader, joins: Sequence[int]) -> set[int]:
    """Lock the joins that are still undecided: steps in the order of their ids, the run itself last."""
    locked: set[int] = set()
    steps = [ids.task_run_id(run.id, join) for join in joins if join != END]
    if steps:
        rows = tx.execute(_LOCK_STEPS, {"run_id": run.id, "ids": steps})
        locked |= {ids.ordinal_of(row.id) for row in rows}
    if END in joins and tx.execute(_LOCK_RUN, {"run_id": run.id}).first() is not None:
        locked.add(END)
    tx.catch_up()
    return locked


_PREDECESSORS = f"""
SELECT t.id, t.status, t.selected_next, t.error_code, t.finished_at
FROM {NAMED} JOIN task_runs AS t ON {by_key()}
"""


def _read_predecessors(tx: Transaction, run: RunHeader, ordinals: Collection[int]) -> dict[int, Predecessor]:
    """Read predecessors, by a statement after the lock: it sees the changes that the lock waited for.

    What the transaction does from then on happens after they ended.
    """
    if not ordinals:
        return {}
    task_run_ids = [ids.task_run_id(run.id, ordinal) for ordinal in ordinals]
    rows: Sequence[Any] = tx.execute(_PREDECESSORS, {"run_id": run.id, "ids": task_run_ids}).all()
    for row in rows:
        if row.finished_at is not None:
            tx.go_on_after(row.finished_at)
    return {ids.ordinal_of(row.id): _of_row(run, row) for row in rows}


def _of_row(run: RunHeader, row: Any) -> Predecessor:
    is_skipped = row.status == "skipped"
    return Predecessor(
        row.status,
        None if row.selected_next is None else frozenset(row.selected_next),
        is_skipped and row.error_code == PREDECESSOR_FAILED,
        (is_skipped and row.error_code == CONDITION_FALSE)
        or run.plan.passes_over(ids.ordinal_of(row.id), row.status),
    )


def as_predecessor(run: RunHeader, task_run: TaskRun, chosen: Collection[str] | None) -> Predecessor:
    """A step that ended in this transaction, as the steps behind it see it.

    Args:
        chosen: the ids of the successors that it chose; None for all.
    """
    is_passed_over = run.plan.passes_over(task_run.ordinal, task_run.status)
    return Predecessor(task_run.status.value, chosen, is_passed_over=is_passed_over)
