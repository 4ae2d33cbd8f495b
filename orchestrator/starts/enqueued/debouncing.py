"""Puts a run off until no other request of its key has come for some time; the newest input wins.

A put-off run is an enqueued row: whatever process dies, the tick starts it when it is due. Each further
request of its key replaces the input and moves the due time on, up to the latest time that the first one set.
Who starts the row compares how many requests it has seen (rows.lock), so no input is started that a newer one
has replaced; a request that comes while the run is being started waits for that, and puts off the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.starts.failures import refuse
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.schema import run_input_errors

MAX_KEY = 200
LONGEST = timedelta(hours=12)
DEFAULT_LONGEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Debounce:
    """How long a run is put off.

    Args:
        key: requests with the same key, of the same pipeline, are one run.
        wait: without another request, the run starts after this time.
        longest: it starts at the latest this long after the first request.
    """

    key: str
    wait: timedelta
    longest: timedelta = DEFAULT_LONGEST


# The id, and so the run, stays that of the first request: all who asked get the same one.
_PUT_OFF = """
INSERT INTO enqueued_runs AS e (id, tenant_id, pipeline_id, input, failure_mode, priority, metadata,
    traceparent, enqueued_by, enqueued_at, due_at, debounce_key, debounce_until)
VALUES (:id, :tenant, :pipeline, CAST(:input AS json), :failure_mode, :priority, CAST(:metadata AS json),
    :traceparent, :by, :now, :now + least(CAST(:wait AS interval), CAST(:longest AS interval)), :key,
    :now + CAST(:longest AS interval))
ON CONFLICT (tenant_id, pipeline_id, debounce_key) WHERE settled_at IS NULL AND debounce_key IS NOT NULL
DO UPDATE SET input = EXCLUDED.input, failure_mode = EXCLUDED.failure_mode, priority = EXCLUDED.priority,
    metadata = EXCLUDED.metadata, traceparent = EXCLUDED.traceparent, enqueued_by = EXCLUDED.enqueued_by,
    due_at = least(:now + CAST(:wait AS interval), e.debounce_until), requests = e.requests + 1, tries = 0,
    error_code = NULL, error = NULL
RETURNING e.id, e.pipeline_id, e.debounce_key AS key, e.due_at, e.debounce_until AS latest_at, e.requests
"""


def put_off(tx: Transaction, tenant: str, request: StartRequest, debounce: Debounce) -> Any:
    """Put a run off, or give one that is put off already this input.

    Returns:
        The row: `id` of the run, `key`, `due_at`, `latest_at`, and how many `requests` it stands for.

    Raises:
        NotFound: the tenant has no such pipeline.
        InputValidationFailed: the pipeline refuses the input.
        InvalidInput: the key, a time, the failure mode or the priority is not valid.
    """
    _check(debounce)
    spec = pipelines.get(tx, tenant, request.pipeline_id).spec
    refuse(spec.id, run_input_errors(spec.input_schema, request.input))
    cause = request.triggered_by
    parameters = {
        "id": tx.new_id(),
        "tenant": tenant,
        "pipeline": spec.id,
        "input": to_json(request.input),
        "failure_mode": request.failure_mode,
        "priority": triggering.checked_priority(request.priority),
        "metadata": to_json(request.metadata),
        "traceparent": cause.traceparent,
        "by": cause.actor or "",
        "now": tx.now,
        "key": debounce.key,
        "wait": debounce.wait,
        "longest": debounce.longest,
    }
    return tx.execute(_PUT_OFF, parameters).one()


def _check(debounce: Debounce) -> None:
    wrong = [
        FieldError(name, "is out of range", "out_of_range", f"1 to {LONGEST // _MS} ms")
        for name, time in (("waitMs", debounce.wait), ("longestMs", debounce.longest))
        if not _MS <= time <= LONGEST
    ]
    if not 1 <= len(debounce.key) <= MAX_KEY or "\0" in debounce.key:
        expected = f"1 to {MAX_KEY} characters"
        wrong.append(FieldError("key", f"must be {expected}", "invalid", expected))
    if wrong:
        raise InvalidInput(f"{wrong[0].field} {wrong[0].message}", errors=wrong)


_MS = timedelta(milliseconds=1)
