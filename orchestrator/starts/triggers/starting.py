"""Starts the run of a trigger, and notes on the trigger why none could start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.errors import DeliveryIdReused, PipeWeaveError
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import CreatedRun, Trigger
from pipeweave.orchestrator.starts.schedules.storing import refuse
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.schema import run_input_errors
from pipeweave.spec import PipelineSpec

MAX_ERROR_CHARS = 1_000


def start(
    tx: Transaction,
    values: Values,
    tenant: str,
    pipeline_id: str,
    given: Any,
    metadata: Mapping[str, Any],
    by: TriggeredBy,
) -> CreatedRun:
    """Start a run of a pipeline.

    Args:
        given: its input.

    Raises:
        PipeWeaveError: as `triggering.trigger`, and InputValidationFailed when the pipeline refuses the
            input.
    """

    def check(spec: PipelineSpec, _: Mapping[str, TaskRow]) -> None:
        refuse(spec.id, run_input_errors(spec.input_schema, given))

    request = Trigger(pipeline_id, given, metadata=metadata, triggered_by=by)
    return triggering.trigger(tx, values, tenant, request, check=check)


_FAILED = """
UPDATE triggers SET last_fire_at = :now, last_error_at = :now, last_error_code = :code, last_error = :error,
    reused_ids = reused_ids + CASE WHEN :is_reused THEN 1 ELSE 0 END
WHERE tenant_id = :tenant AND id = :id AND enabled
"""


def note_failure(tx: Transaction, tenant: str, trigger_id: str, error: PipeWeaveError) -> None:
    """Note on a trigger that its run could not start. A paused one starts none, which is no failure."""
    is_reused = isinstance(error, DeliveryIdReused)
    named = {"tenant": tenant, "id": trigger_id, "now": tx.now, "is_reused": is_reused}
    tx.execute(_FAILED, {**named, "code": error.code, "error": error.detail[:MAX_ERROR_CHARS]})
