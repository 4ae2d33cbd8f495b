"""Starts and cancels child runs: runs that belong to a step of another run, their parent.

A child is an ordinary run. It takes no run slot, because its parent has one; it goes on while maintenance
waits for its parent; and it has the trace of its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import InputValidationFailed, LimitExceeded, PipeWeaveError, Unavailable
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.places import BodyScope
from pipeweave.orchestrator.domain.run import Parent, RunHeader
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.triggered_by import PARENT, TriggeredBy
from pipeweave.orchestrator.registry import pipelines, snapshot
from pipeweave.orchestrator.registry.snapshot import CatalogSnapshot, SnapshotOutdated
from pipeweave.orchestrator.runs import creation, triggering
from pipeweave.orchestrator.runs.new_run import NewRun
from pipeweave.orchestrator.runs.pausing import PARENT_PAUSED
from pipeweave.orchestrator.runs.triggering import MAX_SNAPSHOTS
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import canonical, keep_inline
from pipeweave.schema import run_input_errors
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import MAX_DEPTH, ChildPipeline

# The code of a child that was cancelled because nothing waits for it any more.
PARENT_ENDED = "PARENT_ENDED"


class TooLargeForRow(Exception):
    """An input that must be stored before the child starts; nothing was written."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass(frozen=True, slots=True)
class NewChild:
    """A child run that starts.

    Args:
        id: its id, which the wait of its parent has.
        pipeline: what it runs; of a body, the version that the body is written in.
        parent: the run that it belongs to.
        task_run_id: the task run that waits for it.
        input: what the step gives it.
        kept: where its input is, if it was stored before.
        body: the place of the body in that version; None if it runs a pipeline.
        scope: what the body sees of the steps around it.
    """

    id: UUID
    pipeline: ChildPipeline
    parent: RunHeader
    task_run_id: UUID
    attempt: int
    input: Any
    kept: KeptValue | None = None
    body: str | None = None
    scope: BodyScope | None = None


# Why a child did not start: its input must be stored first, or it cannot start at all.
Refusal = TooLargeForRow | PipeWeaveError


def start(tx: Transaction, children: Sequence[NewChild]) -> dict[UUID, Refusal]:
    """Write child runs of one step and send their entry steps. The caller has locked their waits.

    Args:
        children: of one parent, which run the same.

    Returns:
        Why some of them did not start, by their ids: TooLargeForRow; LimitExceeded, as too many runs are
        above them; InputValidationFailed; UploadNotUsable; Conflict, as a task is no longer registered.

    Raises:
        NotFound: the tenant has no such pipeline or version.
        Unavailable: the catalog changed all the time, or maintenance has begun. Nothing was written.
    """
    for _ in range(MAX_SNAPSHOTS):
        catalog = _catalog(tx, children[0])
        new_runs, refused = _new_runs(children, catalog)
        try:
            if new_runs:
                creation.write(tx, new_runs, catalog)
            return refused
        except SnapshotOutdated:
            continue
        except PipeWeaveError as error:
            if error.status == 503:
                raise
            if len(new_runs) == 1:
                return {**refused, new_runs[0].header.id: error}
            # One of them is refused, and nothing is written: each by itself, so that the others start.
            alone = [start(tx, [each]) for each in children]
            return {child: why for each in alone for child, why in each.items()}
    id = children[0].pipeline.id
    raise Unavailable(f"pipeline {id!r} or its tasks changed {MAX_SNAPSHOTS} times meanwhile")


def _new_runs(
    children: Sequence[NewChild], catalog: CatalogSnapshot
) -> tuple[list[NewRun], dict[UUID, Refusal]]:
    new_runs: list[NewRun] = []
    refused: dict[UUID, Refusal] = {}
    for each in children:
        try:
            new_runs.append(_new_run(each, catalog))
        except (TooLargeForRow, PipeWeaveError) as error:
            refused[each.id] = error
    return new_runs, refused


def _catalog(tx: Transaction, child: NewChild) -> CatalogSnapshot:
    tenant, wanted = child.parent.tenant, child.pipeline
    if wanted.version is None:
        return snapshot.take_snapshot(tx, tenant, wanted.id)
    stored = pipelines.get(tx, tenant, wanted.id, wanted.version).of_body(child.body)
    return snapshot.take_snapshot_of(tx, tenant, stored)


def _new_run(child: NewChild, catalog: CatalogSnapshot) -> NewRun:
    stored, parent, kept = catalog.pipeline, child.parent, child.kept
    above = 0 if parent.parent is None else parent.parent.depth
    if above >= MAX_DEPTH:
        raise LimitExceeded(
            f"{above + 1} runs would be inside of each other; at most {MAX_DEPTH} may be",
            hint="let a pipeline not run itself without end",
        )
    tasks = triggering.runnable(catalog.tasks, stored.spec.tasks)
    value = stored.spec.input_with_defaults(child.input)
    if stored.spec.input_schema is not None and (errors := run_input_errors(stored.spec.input_schema, value)):
        raise InputValidationFailed(
            f"pipeline {stored.id!r} refuses the params of the step: {errors[0].sentence()}", errors=errors
        )
    if kept is None:
        if len(canonical(value)) > INLINE_BYTES:
            raise TooLargeForRow(value)
        kept = keep_inline(value)
    traceparent = tracing.traceparent_of(parent.id, parent.traceparent, child.task_run_id, child.attempt)
    actor = None if parent.triggered_by is None else parent.triggered_by.actor
    header = RunHeader(
        child.id,
        parent.tenant,
        stored.id,
        stored.version,
        stored.spec.failure_mode,
        parent.priority if stored.spec.priority is None else stored.spec.priority,
        value if kept.path is None else None,
        kept.path,
        stored.plan,
        TriggeredBy(PARENT, ids.show(ids.RUN, parent.id), actor, traceparent),
        parent=Parent(parent.id, child.task_run_id, parent.root_id, above + 1),
        body=child.body,
        scope=child.scope,
        queue=parent.queue,
        requires=parent.requires,
    )
    spec = stored.spec
    return NewRun(
        header,
        kept,
        tasks,
        timeout_ms=spec.timeout_ms,
        idle_timeout_ms=spec.idle_timeout_ms,
        value=value,
    )


# --- children that nothing waits for ----------------------------------------------------------------------

# SQL: whether no task run of its parent waits for the child `r`.
_IS_LEFT = """NOT EXISTS (SELECT 1 FROM waits AS w WHERE w.run_id = r.parent_run_id
    AND w.task_run_id = r.parent_task_run_id AND w.data ->> 'run' = CAST(r.id AS text))"""
_LEFT_BY = f"""
SELECT r.id, r.tenant_id FROM runs AS r
WHERE r.parent_run_id = :parent AND r.finished_at IS NULL AND {_IS_LEFT} ORDER BY r.id LIMIT :most
"""
# Children that one reaction cancels; the chore of the tick cancels the others.
MOST_AT_ONCE = 1_000


def cancel_left(tx: Transaction, parent: UUID) -> None:
    """Cancel the open children of a run that nothing waits for, each in a transaction of its own."""
    for row in tx.execute(_LEFT_BY, {"parent": parent, "most": MOST_AT_ONCE}).all():
        tx.afterwards(_cancels(row.tenant_id, row.id))


def _cancels(tenant: str, run_id: UUID) -> Any:
    return lambda tx: cancel(tx, tenant, run_id)


def cancel(tx: Transaction, tenant: str, run_id: UUID) -> bool:
    """Cancel a child because its parent does not wait for it any more. False when it has ended."""
    why = "the run that it belongs to does not wait for it any more"
    # Its ending, which a first cancel may have begun, goes on.
    return triggering.cancel_open(tx, tenant, run_id, why, code=PARENT_ENDED, stops_ending=False)


# SQL: whether the child `r` is paused because its parent was, which goes on.
_IS_HELD = """EXISTS (SELECT 1 FROM run_pauses AS p WHERE p.run_id = r.id AND p.reason = :reason
    AND NOT EXISTS (SELECT 1 FROM run_pauses AS o WHERE o.run_id = r.parent_run_id))"""
_LEFT = f"""
SELECT o.id, o.tenant_id, o.is_left, o.is_held FROM (
    SELECT r.id, r.tenant_id, {_IS_LEFT} AS is_left, {_IS_HELD} AS is_held FROM runs AS r
    WHERE r.parent_run_id IS NOT NULL AND r.finished_at IS NULL AND r.id > :after
    ORDER BY r.id LIMIT :batch) AS o
ORDER BY o.id
"""
# SQL: whether a child run is open.
ARE_OPEN = "EXISTS (SELECT 1 FROM runs AS r WHERE r.parent_run_id IS NOT NULL AND r.finished_at IS NULL)"


def some_left(tx: Transaction, after: UUID, batch: int) -> tuple[Sequence[Any], UUID | None]:
    """Of the next open children, those {id, tenant_id, is_left, is_held} that nothing waits for, or that are
    paused though their parent is not; and the last one that was looked at, None at the end.
    """
    parameters = {"after": after, "batch": batch, "reason": PARENT_PAUSED}
    rows = tx.execute(_LEFT, parameters).all()
    return [each for each in rows if each.is_left or each.is_held], rows[-1].id if len(
        rows
    ) == batch else None
