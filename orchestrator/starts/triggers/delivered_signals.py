"""Sends what a webhook delivers as a signal: to the run that a token in the delivery names.

With `orStart`, the delivery starts that run first if there is none: two deliveries with the same token, of
whichever triggers, start one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.starts import new_runs
from pipeweave.orchestrator.starts.triggers import matching
from pipeweave.orchestrator.starts.triggers.spec import TriggerSignal
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits import sending

MAX_TOKEN_CHARS = 200


@dataclass(frozen=True, slots=True)
class SignalledRun:
    """The run that a delivery has signalled. `status`: of the run, when it was started; None for another."""

    run_id: UUID
    signal_id: UUID | None
    status: str | None = None


def send(
    tx: Transaction,
    values: Values,
    tenant: str,
    signal: TriggerSignal,
    document: Mapping[str, Any],
    request: StartRequest,
) -> SignalledRun:
    """Send a signal.

    Args:
        document: what was delivered.
        request: of the run that is started if there is none, and the trigger says so. Its input is the
            payload, if the trigger makes none.

    Raises:
        NotFound: the pipeline has no run with this token, and none is started.
        InvalidInput: no name, token or payload can be made of what was delivered.
        RunHasEnded, TooManySignals, Unavailable: as `sending.send`.
        PipeWeaveError: no run can start (see `new_runs.start`).
    """
    name = _text(signal.name, document, "signal.name", sending.MAX_NAME_CHARS)
    token = _text(signal.run_token, document, "signal.runToken", MAX_TOKEN_CHARS)
    payload = request.input
    if signal.payload is not None:
        payload = matching.value_of(signal.payload, document, "signal.payload")
    kept = values.keep(payload)
    sending.check(name, kept)
    run_id, status = _run(tx, values, tenant, token, request, starts=signal.or_start)
    by = f"trigger:{request.triggered_by.id}" if request.triggered_by is not None else None
    sent = sending.send(tx, tenant, run_id, name, kept, by=by)
    return SignalledRun(run_id, sent.id, status)


def _run(
    tx: Transaction, values: Values, tenant: str, token: str, request: StartRequest, *, starts: bool
) -> tuple[UUID, str | None]:
    """The run of a token, and its status if it was started now."""
    if not starts:
        return sending.run_of_token(tx, tenant, request.pipeline_id, token), None
    # A token starts another run for another input, and two deliveries differ: so they come one by one.
    name = f"{tenant}/{request.pipeline_id}/{token}"
    advisory_locks.hold_named_until_commit(tx, advisory_locks.RUN_TOKEN, name)
    run_id = sending.find_run_of_token(tx, tenant, request.pipeline_id, token)
    if run_id is not None:
        return run_id, None
    (run,) = new_runs.start(tx, values, tenant, [request._replace(run_token=token)])
    return run.id, run.status


def _text(template: str, document: Mapping[str, Any], place: str, longest: int) -> str:
    """The text that a template makes; a whole number is one, too."""
    value = matching.value_of(template, document, place)
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not 1 <= len(text) <= longest or "\0" in text:
        expected = f"a text of 1 to {longest} characters, or a whole number"
        message = f"must be {expected}"
        raise InvalidInput(f"{place} {message}", errors=[FieldError(place, message, "invalid", expected)])
    return text
