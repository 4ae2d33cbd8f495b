"""Compares two runs of one pipeline: their inputs, their versions, and step by step what took longer."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.documents.comparisons import (
    ComparedOutcome,
    ComparedStep,
    ComparisonCounts,
    InputComparison,
    InputDifference,
    RunComparison,
    VersionComparison,
)
from pipeweave.orchestrator.domain import json_differences, kind_sql, run_comparison
from pipeweave.orchestrator.domain.json_shapes import iso, run_took_ms
from pipeweave.orchestrator.domain.run_comparison import OutcomeInRun, StepComparison
from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.reading import enqueued_runs, map_items
from pipeweave.orchestrator.reading import steps as step_reading
from pipeweave.orchestrator.reading.runs import COLUMNS, FROM, listed_row
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import WITH_ITEMS

# Differences of the inputs that are listed.
DIFFERENCES_SHOWN = 200

_RUN = f"""
SELECT {COLUMNS}, r.input, r.input_path, r.inputs_hash, r.edits
{FROM} WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""

# A run's steps have its lowest ordinals: this bound keeps PostgreSQL from reading its map items.
_STEPS = f"""
SELECT t.id, t.step_id, t.task_id, t.kind, t.status, t.attempt, t.map_count, t.output_hash, t.code_version,
       t.error_code, t.started_at, t.finished_at
FROM task_runs AS t WHERE t.run_id = :id AND t.id <= :last AND {kind_sql.IS_STEP} ORDER BY t.id
"""


def compare_runs(
    tx: Transaction, tenant: str, left: UUID, right: UUID, *, limit: int = MAX_STEPS
) -> Document:
    """Two runs of a pipeline beside each other.

    Args:
        tx: a transaction of `Database.reading`; it becomes one snapshot.
        limit: steps in the answer: those that make most of the difference.

    Raises:
        NotFound: the tenant has no such run, or its month was dropped.
        InvalidInput: the runs are of different pipelines.
    """
    tx.hold()
    tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    one, other = (_run(tx, tenant, each) for each in (left, right))
    _require_one_pipeline(one, other)
    steps = run_comparison.compare(_outcomes(tx, left), _outcomes(tx, right))
    return RunComparison.of(
        left=listed_row(one),
        right=listed_row(other),
        delta_ms=_delta(one, other),
        input=_input(one, other),
        version=_version(tx, tenant, one, other),
        counts=ComparisonCounts.of(run_comparison.summary(steps)),
        steps=[_shown(each) for each in steps[:limit]],
        is_complete=len(steps) <= limit,
    )


def _run(tx: Transaction, tenant: str, id: UUID) -> Any:
    row = tx.execute(_RUN, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    return row


def _require_one_pipeline(left: Any, right: Any) -> None:
    if left.pipeline_id != right.pipeline_id:
        message = f"is a run of pipeline {right.pipeline_id}, the first is one of {left.pipeline_id}"
        raise InvalidInput(
            f"other {message}",
            errors=[FieldError("other", message, "invalid")],
            hint="compare two runs of the same pipeline, of whatever versions",
        )


def _delta(left: Any, right: Any) -> float | None:
    took = [run_took_ms(each) for each in (left, right)]
    return None if took[0] is None or took[1] is None else round(took[1] - took[0], 1)


# --- inputs and versions ----------------------------------------------------------------------------------


def _input(left: Any, right: Any) -> Document:
    """Whether the inputs are the same, which their hashes tell, and where they differ if both are at hand."""
    is_same = left.inputs_hash == right.inputs_hash
    is_stored = left.input_path is not None or right.input_path is not None
    if is_same or is_stored:
        return InputComparison.of(is_same=is_same, differences=None if is_stored else [], is_complete=is_same)
    places, is_complete = json_differences.differences(left.input, right.input, DIFFERENCES_SHOWN)
    shown = [InputDifference.of(each, left=each.before, right=each.after) for each in places]
    return InputComparison.of(is_same=False, differences=shown, is_complete=is_complete)


def _version(tx: Transaction, tenant: str, left: Any, right: Any) -> Document:
    """Which steps the version of the right run added, removed and changed, with what was edited for a run."""
    versions = {"left": left.pipeline_version, "right": right.pipeline_version}
    edits = [RunEdits.of_json(each.edits) for each in (left, right)]
    if left.pipeline_version == right.pipeline_version and edits[0].params == edits[1].params:
        return VersionComparison.of(**versions, added=[], removed=[], changed=[])
    before, after = (
        own.steps(pipelines.get(tx, tenant, each.pipeline_id, each.pipeline_version).spec.by_id)
        for each, own in zip((left, right), edits, strict=True)
    )
    return VersionComparison.of(
        **versions,
        added=[name for name in after if name not in before],
        removed=[name for name in before if name not in after],
        changed=[name for name in after if name in before and after[name] != before[name]],
    )


# --- steps ------------------------------------------------------------------------------------------------


def _outcomes(tx: Transaction, id: UUID) -> list[OutcomeInRun]:
    rows = tx.execute(_STEPS, {"id": id, "last": ids.task_run_id(id, MAX_STEPS)}).all()
    hashes: dict[int, str] = {}
    if any(each.kind in WITH_ITEMS and each.status == "completed" for each in rows):
        hash_rows = tx.execute(map_items.MAP_HASHES, {"id": id})
        hashes = {each.map_parent: each.hash for each in hash_rows if each.hash is not None}
    firsts = step_reading.first_starts(tx, id, [each.id for each in rows if each.attempt > 1])
    return [_outcome(each, hashes.get(ids.ordinal_of(each.id)), firsts) for each in rows]


def _outcome(row: Any, items_hash: str | None, firsts: dict[UUID, datetime]) -> OutcomeInRun:
    is_map = row.kind in WITH_ITEMS
    output_hash = items_hash if is_map else row.output_hash
    started = iso(firsts.get(row.id) or row.started_at)
    return OutcomeInRun(
        row.step_id,
        row.id,
        row.task_id,
        row.kind,
        row.status,
        row.attempt,
        step_reading.duration_between(started, iso(row.finished_at)),
        output_hash if row.status == "completed" else None,
        row.code_version,
        row.error_code,
        row.map_count if is_map else None,
    )


def _shown(step: StepComparison) -> Document:
    left, right = (each and ComparedOutcome.of(each) for each in (step.left, step.right))
    return ComparedStep.of(step, id=step.step_id, left=left, right=right)
