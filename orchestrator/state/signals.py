"""Stores signals, and reads and locks those that a wait may take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.facts import SignalSent
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import Signal, Wait
from pipeweave.orchestrator.store.database import Transaction

# Of a run that nobody has taken.
MAX_UNTAKEN = 1_000


@dataclass(frozen=True, slots=True)
class NewSignal:
    """A signal to store.

    Args:
        run_id: the root run.
        once: another signal of this run and name with the same text is the same signal.
        by: the name of the token; None if that is not known.
        event: the type of the event: `run.signalled`, or that of a vote.
        task_run_id: the task run that the event is about; None for one of the whole run.
        data: of the event, beside `name` and `signal`.
    """

    run_id: UUID
    tenant: str
    name: str
    payload: KeptValue
    once: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of a send.

    Args:
        id: of the signal; None when it was refused.
        is_repeated: it was stored before.
        is_taken: a wait has taken it.
        has_ended: the run is final, or not there.
    """

    id: UUID | None
    is_repeated: bool = False
    is_taken: bool = False
    has_ended: bool = False


# The INSERT comes first: who waits here for a doubled signal has no wait locked.
def _send_to(whom: str) -> str:
    """SQL that stores a signal, and lets the waits `whom` be looked at."""
    return f"""
WITH run AS (
    SELECT r.id FROM runs AS r WHERE r.id = :run_id AND r.tenant_id = :tenant AND r.finished_at IS NULL
), room AS (
    SELECT count(*) < :most AS is_left FROM (
        SELECT 1 FROM signals AS s WHERE s.run_id = :run_id AND s.taken_at IS NULL LIMIT :most) AS u
), sent AS (
    INSERT INTO signals (run_id, id, tenant_id, name, payload, payload_path, size, sent_by, sent_at, once)
    SELECT r.id, :id, :tenant, :name, CAST(:payload AS jsonb), :path, :size, :by, :now, :once
    FROM run AS r, room WHERE room.is_left
    ON CONFLICT (run_id, name, once) DO NOTHING RETURNING run_id, id
), woken AS (
    UPDATE waits AS w SET due_at = :now FROM sent AS s
    WHERE {whom} AND CAST(:name AS text) = ANY(w.names)
), logged AS (
    INSERT INTO events (run_id, at, type, task_run_id, data)
    SELECT s.run_id, :now, :type, CAST(:about AS uuid), jsonb_strip_nulls(CAST(:data AS jsonb)) FROM sent AS s
)
SELECT (SELECT s.id FROM sent AS s) AS id, EXISTS (SELECT 1 FROM run) AS is_open
"""


_SEND = _send_to("w.root_run_id = s.run_id")
# One wait alone may take it: a run may have thousands of others. It may be one of a run below.
_SEND_TO_ONE = _send_to("w.run_id = CAST(:waiting_run AS uuid) AND w.task_run_id = CAST(:about AS uuid)")
_BEFORE = """
SELECT s.id, s.taken_at IS NOT NULL AS is_taken FROM signals AS s
WHERE s.run_id = :run_id AND s.name = :name AND s.once = :once AND s.tenant_id = :tenant
"""


def send(
    tx: Transaction,
    signal: NewSignal,
    *,
    event: str,
    data: str,
    about: UUID | None = None,
) -> Sent:
    """Store a signal of an open run, and let the waits for it be looked at. One that was stored before stays
    as it is.

    Args:
        event: the type of the event.
        data: of the event, as JSON.
        about: the task run that the event is about, the only one whose wait may take it; None for a signal of
            the run.
    """
    id = tx.new_id()
    once = str(id) if signal.once is None else signal.once
    key = {"run_id": signal.run_id, "tenant": signal.tenant, "name": signal.name, "once": once}
    stored = {
        **key,
        "id": id,
        "payload": signal.payload.inline,
        "path": signal.payload.path,
        "size": signal.payload.size,
        "by": signal.by,
        "now": tx.now,
        "most": MAX_UNTAKEN,
        "type": event,
        "data": data,
        "about": about,
    }
    row = _sent(tx, about, stored)
    if row.id is not None:
        tx.announce(SignalSent(signal.run_id, signal.name, about))
        return Sent(row.id)
    before: Any = tx.execute(_BEFORE, key).one_or_none()
    if before is not None:
        return Sent(before.id, is_repeated=True, is_taken=before.is_taken, has_ended=not row.is_open)
    return Sent(None, has_ended=not row.is_open)


def _sent(tx: Transaction, about: UUID | None, stored: dict[str, Any]) -> Any:
    if about is None:
        return tx.execute(_SEND, stored).one()
    return tx.execute(_SEND_TO_ONE, stored | {"waiting_run": ids.run_id_of(about)}).one()


_COLUMNS = "s.id, s.name, s.payload, s.payload_path, s.sent_by, s.sent_at, s.once"
# The oldest of each name.
_OLDEST = f"""
SELECT n.place, {_COLUMNS} FROM unnest(CAST(:roots AS uuid[]), CAST(:names AS text[])) WITH ORDINALITY
        AS n(run_id, name, place)
    CROSS JOIN LATERAL (
        SELECT s.* FROM signals AS s WHERE s.run_id = n.run_id AND s.name = n.name AND s.taken_at IS NULL
        ORDER BY s.id LIMIT :most) AS s
ORDER BY s.id
"""


def untaken(tx: Transaction, waits: Collection[Wait], most: int) -> dict[UUID, list[Signal]]:
    """The oldest signals that these waits may take, by task run, oldest first.

    Args:
        most: of each name of each wait.
    """
    wanted = [(each, name) for each in waits for name in each.names or ()]
    if not wanted:
        return {}
    parameters = {
        "roots": [each.root_run_id for each, _ in wanted],
        "names": [name for _, name in wanted],
        "most": most,
    }
    by_wait: dict[UUID, list[Signal]] = {}
    for place, *values in tx.execute(_OLDEST, parameters):
        by_wait.setdefault(wanted[place - 1][0].task_run_id, []).append(Signal(*values))
    return by_wait


_LOCK = """
SELECT s.id FROM signals AS s
WHERE s.run_id = :root AND s.id = ANY(CAST(:ids AS uuid[])) AND s.taken_at IS NULL FOR UPDATE SKIP LOCKED
"""


def lock(tx: Transaction, wait: Wait, ids: Sequence[UUID]) -> bool:
    """Lock signals that a wait takes. False when another wait takes or has taken some of them."""
    if not ids:
        return True
    locked = tx.execute(_LOCK, {"root": wait.root_run_id, "ids": list(ids)}).scalars()
    return len(list(locked)) == len(ids)
