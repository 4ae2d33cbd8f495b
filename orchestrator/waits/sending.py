"""Takes signals in: of a run, or of the run that a token names. What is waiting for one goes on at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput, NotFound, RunHasEnded, TooManySignals
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import OWN_NAMES
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.state import signals
from pipeweave.orchestrator.state.signals import MAX_UNTAKEN, NewSignal, Sent
from pipeweave.orchestrator.store.database import Transaction

# The largest payload, bytes of JSON.
MAX_PAYLOAD_BYTES = 256 * 1024
MAX_NAME_CHARS = 200

_OWNED = """
SELECT o.id, o.status FROM runs AS r JOIN runs AS o ON o.id = coalesce(r.root_run_id, r.id)
WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""


def send(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    name: str,
    payload: KeptValue,
    *,
    once: str | None = None,
    by: str | None = None,
) -> Sent:
    """Store a signal of an open run; one for a child run is one of its root.

    A wait takes it at once, or later: it may come before its wait.

    Args:
        once: another signal of this name with the same text is the same one; None: each is a new one.
        by: who sends it; None if that is not known.

    Raises:
        NotFound: the tenant has no such run.
        InvalidInput: the payload is too large, or the name is one of the engine's.
        RunHasEnded: the run is final.
        TooManySignals: nothing has taken MAX_UNTAKEN signals of the run.
        Unavailable: maintenance has begun.
    """
    check(name, payload)
    maintenance_mode.check_open(tx)
    shown = ids.show(ids.RUN, run_id)
    root: Any = tx.execute(_OWNED, {"id": run_id, "tenant": tenant}).one_or_none()
    if root is None:
        raise NotFound(f"run {shown} not found", runId=shown)
    data: dict[str, Any] = {"name": name, "by": by}
    sent = signals.send(
        tx,
        NewSignal(root.id, tenant, name, payload, once, by),
        event="run.signalled",
        data=orjson.dumps(data).decode(),
    )
    if sent.id is None and sent.has_ended:
        raise RunHasEnded(f"run {shown} is {root.status}: nothing of it waits any more", runId=shown)
    if sent.id is None:
        raise TooManySignals(
            f"run {shown} has {MAX_UNTAKEN:,} signals that nothing has taken",
            hint="send the names that its pipeline waits for",
            runId=shown,
        )
    return sent


def check(name: str, payload: KeptValue) -> None:
    """Refuse a name of the engine, and a payload that is too large.

    Raises:
        InvalidInput: one of both.
    """
    if not 1 <= len(name) <= MAX_NAME_CHARS or "\0" in name:
        expected = f"a text of 1 to {MAX_NAME_CHARS} characters"
        raise InvalidInput(
            f"the name of a signal is {expected}",
            errors=[FieldError("name", "is invalid", "invalid", expected)],
        )
    if name.startswith(OWN_NAMES):
        raise InvalidInput(
            f"{name!r} is no name of a signal",
            errors=[FieldError("name", "begins like a name of the engine", "invalid_value")],
            hint="`pipeweave approve` decides an approval",
        )
    if payload.size > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"the payload has {payload.size:,} bytes; a signal takes at most {MAX_PAYLOAD_BYTES:,}",
            errors=[FieldError("", "is too large", "too_big", f"at most {MAX_PAYLOAD_BYTES} bytes")],
        )


# A token starts a run for each input: the newest is meant.
_BY_TOKEN = """
SELECT o.run_id FROM run_tokens AS o JOIN runs AS r ON r.id = o.run_id
WHERE o.tenant_id = :tenant AND o.pipeline_id = :pipeline AND o.run_token = :token
ORDER BY r.created_at DESC, r.id DESC LIMIT 1
"""


def find_run_of_token(tx: Transaction, tenant: str, pipeline_id: str, token: str) -> UUID | None:
    """The run of a pipeline that was triggered last with this run token; None without any."""
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "token": token}
    run_id: UUID | None = tx.execute(_BY_TOKEN, parameters).scalar_one_or_none()
    return run_id


def run_of_token(tx: Transaction, tenant: str, pipeline_id: str, token: str) -> UUID:
    """As `find_run_of_token`.

    Raises:
        NotFound: there is none.
    """
    run_id = find_run_of_token(tx, tenant, pipeline_id, token)
    if run_id is None:
        raise NotFound(f"pipeline {pipeline_id!r} has no run with the token {token[:100]!r}")
    return run_id


_IS_TAKEN = """
SELECT s.taken_at IS NOT NULL FROM signals AS s WHERE s.run_id = :run_id AND s.id = :id
"""


def is_taken(tx: Transaction, run_id: UUID, signal_id: UUID) -> bool:
    """Whether a wait has taken a signal."""
    return bool(tx.execute(_IS_TAKEN, {"run_id": run_id, "id": signal_id}).scalar_one_or_none())
