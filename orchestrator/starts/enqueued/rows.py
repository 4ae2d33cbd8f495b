"""Reads the rows of enqueued runs, and notes what became of those that did not start."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from pipeweave.errors import PipeWeaveError
from pipeweave.json_values import json_faults
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.triggered_by import API, TRANSACTION, TriggeredBy
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.starts.failures import MAX_ERROR_CHARS
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.size_limits import MAX_JSON_DEPTH

# Rows that one look takes, and the JSON of their inputs (bytes), which this process then holds in memory. The
# first is taken whatever its size.
BATCH = 200
BATCH_BYTES = 16_000_000
# Tenants take turns among so many of the rows that are due.
WINDOW = 2_000

# The id that a caller gives may be of a clock that differs so much.
ID_MAY_DIFFER = timedelta(days=1)
_MS_OF_ID = 80
# orjson makes another number of one that takes more than 64 bits; Python's own reader keeps it.
_LONG_NUMBER = re.compile("[0-9]{17}")

# A run whose pipeline is unknown may be earlier than a deploy: for so long it is tried again.
PATIENCE = timedelta(hours=1)
# Between two tries (s): twice as long each time, up to the second number.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A row that is due.

    Args:
        input: the value; None where `fault` says why it cannot be read.
        by: the database role that wrote it.
        tries: how often it could not be started.
        requests: for how many requests of its key it stands; without a key 1.
        is_debounced: a request of the API has put it off (debouncing.py), not a transaction.
        fault: why this row can never start, whatever its pipeline says.
    """

    id: UUID
    tenant: str
    pipeline_id: str
    input: Any
    run_token: str | None
    failure_mode: str | None
    priority: int | None
    metadata: Mapping[str, Any] | None
    traceparent: str | None
    by: str
    at: datetime
    tries: int
    fault: str | None = None
    requests: int = 1
    is_debounced: bool = False

    @property
    def trigger(self) -> StartRequest:
        """The request that it stands for."""
        return StartRequest(
            self.pipeline_id,
            {} if self.input is None else self.input,
            self.failure_mode,
            self.priority,
            self.metadata,
            self.run_token,
            TriggeredBy(
                API if self.is_debounced else TRANSACTION,
                None,
                self.by or None,
                tracing.read(self.traceparent),
            ),
            self.id,
        )


# Whoever may INSERT writes the JSON: it is read as text, so that a row which no reader of JSON takes holds up
# no other. The order is that of the due times within a tenant. What commits late is found whenever that is:
# nothing remembers how far it came. Sizes are summed up last, so that only inputs of this batch are read.
_DUE = f"""
WITH due AS MATERIALIZED (
    SELECT w.id, w.turn, w.due_at FROM (
        SELECT o.id, o.due_at,
            {turn("o.tenant_id", "o.due_at, o.id")} AS turn
        FROM (SELECT e.id, e.tenant_id, e.due_at FROM enqueued_runs AS e
              WHERE e.settled_at IS NULL AND e.due_at <= greatest(CAST(:now AS timestamptz), now())
                AND e.is_large = CAST(:is_large AS boolean)
              ORDER BY e.due_at LIMIT :window) AS o) AS w
    ORDER BY w.turn, w.due_at, w.id LIMIT :batch
), sized AS (
    SELECT e.id, e.tenant_id, e.pipeline_id, CAST(e.input AS text) AS input, e.run_token, e.failure_mode,
        e.priority, CAST(e.metadata AS text) AS metadata, e.traceparent, e.enqueued_by, e.enqueued_at,
        e.tries, e.requests, e.debounce_key IS NOT NULL AS is_debounced, d.turn, d.due_at,
        sum(octet_length(CAST(e.input AS text))) OVER (ORDER BY d.turn, d.due_at, e.id) AS bytes,
        row_number() OVER (ORDER BY d.turn, d.due_at, e.id) AS number
    FROM due AS d JOIN enqueued_runs AS e ON e.id = d.id
)
SELECT * FROM sized AS s WHERE s.number = 1 OR s.bytes <= :bytes OR s.bytes IS NULL ORDER BY s.number
"""


def due(tx: Transaction, *, is_large: bool = False) -> list[Enqueued]:
    """The rows to start next.

    Args:
        is_large: those whose inputs go to storage; else the others.
    """
    parameters = {"now": tx.now, "window": WINDOW, "batch": BATCH, "bytes": BATCH_BYTES, "is_large": is_large}
    return [_of_row(each) for each in tx.execute(_DUE, parameters)]


def _of_row(row: Any) -> Enqueued:
    input, of_input = _read(row.input, "input")
    metadata, of_metadata = _read(row.metadata, "metadata")
    return Enqueued(
        row.id,
        row.tenant_id,
        row.pipeline_id,
        input,
        row.run_token,
        row.failure_mode,
        row.priority,
        metadata,
        row.traceparent,
        row.enqueued_by,
        row.enqueued_at,
        row.tries,
        _fault_of_id(row.id, row.enqueued_at) or of_input or of_metadata,
        row.requests,
        row.is_debounced,
    )


def _read(text: str | None, name: str) -> tuple[Any, str | None]:
    """The value of a JSON text, or why nobody can read or store it."""
    if text is None:
        return None, None
    try:
        value = json.loads(text) if _LONG_NUMBER.search(text) else orjson.loads(text)
    except (ValueError, RecursionError) as error:
        return None, f"{name} is not JSON that can be read: {error}"
    faults = json_faults(value, name, max_depth=MAX_JSON_DEPTH)
    return (value, None) if not faults else (None, f"{faults[0].field} {faults[0].message}")


def _fault_of_id(id: UUID, enqueued_at: datetime) -> str | None:
    """An id says when it was made, and its run goes into the tables of that month: no caller makes months."""
    made_at = id.int >> _MS_OF_ID
    if abs(made_at - enqueued_at.timestamp() * 1000) <= ID_MAY_DIFFER / timedelta(milliseconds=1):
        return None
    return "id is of another time than the row: leave it out, or make a UUIDv7 of now"


# A request that came since the row was read has another input: the row is read again then.
_LOCK = """
SELECT e.id FROM enqueued_runs AS e
    JOIN unnest(CAST(:ids AS uuid[]), CAST(:requests AS integer[])) AS r(id, requests) ON r.id = e.id
WHERE e.id = ANY(CAST(:ids AS uuid[])) AND e.settled_at IS NULL AND e.requests = r.requests
FOR UPDATE OF e SKIP LOCKED
"""


def lock(tx: Transaction, batch: Sequence[Enqueued]) -> set[UUID]:
    """Lock those of the rows that nobody started or changed meanwhile, and that nobody else has locked."""
    parameters = {"ids": [each.id for each in batch], "requests": [each.requests for each in batch]}
    return set(tx.execute(_LOCK, parameters).scalars())


_DELETE = "DELETE FROM enqueued_runs WHERE id = ANY(CAST(:ids AS uuid[]))"


def delete(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Delete rows, in the transaction that writes their runs."""
    tx.execute(_DELETE, {"ids": list(ids)})


_POINT = """
UPDATE enqueued_runs AS e SET settled_at = :now, first_run_id = f.run_id, error_code = NULL, error = NULL
FROM unnest(CAST(:ids AS uuid[]), CAST(:runs AS uuid[])) AS f(id, run_id) WHERE e.id = f.id
"""


def point_to(tx: Transaction, first: Mapping[UUID, UUID]) -> None:
    """Mark rows as duplicates: each names the earlier run that has its token."""
    tx.execute(_POINT, {"ids": list(first), "runs": list(first.values()), "now": tx.now})


_REFUSE = """
UPDATE enqueued_runs AS e SET settled_at = :now, error_code = :code, error = left(f.error, :most)
FROM unnest(CAST(:ids AS uuid[]), CAST(:errors AS text[])) AS f(id, error)
WHERE e.id = f.id AND e.settled_at IS NULL
"""


def refuse_each(tx: Transaction, code: str, errors: Mapping[UUID, str]) -> int:
    """Mark rows as refused, with the reason: their runs never start. Returns the number of rows."""
    parameters = {"ids": list(errors), "code": code, "errors": list(errors.values()), "now": tx.now}
    return tx.execute(_REFUSE, parameters | {"most": MAX_ERROR_CHARS}).rowcount


def refuse(tx: Transaction, ids: Sequence[UUID], code: str, error: str) -> int:
    """Note that these runs will never start, all for the same reason; the number of rows."""
    return refuse_each(tx, code, dict.fromkeys(ids, error))


# What another process has locked is being started.
_POSTPONE = """
UPDATE enqueued_runs AS e SET tries = e.tries + 1, error_code = :code, error = :error,
    due_at = CAST(:now AS timestamptz) + least(:longest, :first * power(2, least(e.tries, 20)))
        * interval '1 second'
WHERE e.id = ANY(ARRAY(SELECT o.id FROM enqueued_runs AS o
    WHERE o.id = ANY(CAST(:ids AS uuid[])) AND o.settled_at IS NULL FOR UPDATE SKIP LOCKED))
"""


def postpone(tx: Transaction, ids: Sequence[UUID], code: str, error: str) -> int:
    """Try these again later; the number of rows."""
    parameters = {
        "ids": list(ids),
        "code": code,
        "error": error[:MAX_ERROR_CHARS],
        "now": tx.now,
        "first": FIRST_PAUSE_S,
        "longest": LONGEST_PAUSE_S,
    }
    return tx.execute(_POSTPONE, parameters).rowcount


def code_and_text(error: Exception) -> tuple[str, str]:
    """The code and the text of an error, as rows keep them and tenants read them."""
    if isinstance(error, PipeWeaveError):
        return error.code, error.detail
    return "INTERNAL_ERROR", "it could not be started because of an unexpected error; the log of beat has it"
