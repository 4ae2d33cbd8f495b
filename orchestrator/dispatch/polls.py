"""The chore of the tick that asks the URLs of suspended calls, by GET, until one gives a final answer.

A try is claimed before the request, in a transaction of its own, which says when the next one is due: a
process that dies meanwhile costs one try. A final answer is stored as a signal, and the look at the wait that
follows ends it. What is no final answer is noted for people, and asked again: the other system may be away
for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson

from pipeweave import async_reports
from pipeweave.errors import InvalidInput, PipeWeaveError
from pipeweave.orchestrator.dispatch.beside_tick import (
    ALL_FREE,
    HAS_PLACES,
    IS_IN_SHARE,
    CallsBesideTick,
    Shares,
)
from pipeweave.orchestrator.domain.waits import POLL
from pipeweave.orchestrator.state import signals
from pipeweave.orchestrator.state.signals import NewSignal
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits import due
from pipeweave.safe_text import storable
from pipeweave.sending import Networks, NoReply, Reply, Sender, path_of
from pipeweave.settings import Settings

log = logging.getLogger(__name__)

# Requests that a process makes at the same time, and of them for one tenant.
AT_ONCE = 32
OF_A_TENANT = 16
ANSWER_WITHIN_S = 10.0
MAX_ANSWER_BYTES = 1_000_000
MAX_NOTE_CHARS = 300
_HEADERS = {"Accept": "application/json", "User-Agent": "PipeWeave"}

# SQL: whether there is anything for this chore.
IS_DUE = f"""EXISTS (
    SELECT 1 FROM waits AS w WHERE w.due_at <= now() AND w.kind = '{POLL}' AND NOT w.needs_storage)"""


class _PollsUnderWay(CallsBesideTick):
    """The polls that this process makes for a database just now."""

    def __init__(self) -> None:
        super().__init__(Sender(True, ANSWER_WITHIN_S, MAX_ANSWER_BYTES), AT_ONCE, OF_A_TENANT)


_DUE = f"""
SELECT w.run_id, w.task_run_id FROM waits AS w
WHERE w.due_at <= :now AND w.kind = '{POLL}' AND NOT w.needs_storage ORDER BY w.due_at LIMIT :most
"""
# Tenants take turns, each as far as it has places left. A wait that somebody ends now is left alone, and one
# whose answer is in storage.
_CLAIM = f"""
WITH picked AS MATERIALIZED (
    SELECT p.run_id, p.task_run_id FROM waits AS p
    WHERE p.due_at <= :now AND p.kind = '{POLL}' AND (p.run_id, p.task_run_id) IN (
        SELECT w.run_id, w.task_run_id FROM (
            SELECT o.*, {turn("o.tenant_id", "o.due_at, o.task_run_id")} AS turn
            FROM (SELECT d.run_id, d.task_run_id, d.tenant_id, d.due_at FROM waits AS d
                  WHERE d.due_at <= :now AND d.kind = '{POLL}' AND d.timeout_at > :now
                      AND CAST(d.data ->> 'tries' AS integer) < CAST(d.data ->> 'maxTries' AS integer)
                      AND NOT d.needs_storage AND {HAS_PLACES}
                  ORDER BY d.due_at LIMIT :window) AS o) AS w
        WHERE {IS_IN_SHARE}
        ORDER BY w.turn, w.due_at, w.task_run_id LIMIT :most)
    ORDER BY p.run_id, p.task_run_id FOR UPDATE SKIP LOCKED
)
UPDATE waits AS w SET data = w.data || jsonb_build_object('tries', CAST(w.data ->> 'tries' AS integer) + 1),
    due_at = least(w.timeout_at, CAST(:now AS timestamptz)
        + CAST(w.data ->> 'intervalMs' AS bigint) * interval '1 millisecond')
FROM picked AS p WHERE w.run_id = p.run_id AND w.task_run_id = p.task_run_id
RETURNING w.run_id, w.task_run_id, w.tenant_id, w.root_run_id, w.attempt, w.names, w.data
"""


def run_once(database: Database, values: Values, settings: Settings) -> int:
    """End the polls that are over, and ask the URLs of the others that are due, a few at a time.

    Returns:
        How many requests began.

    Raises:
        PartlyFailed: some runs could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        keys = [(row.run_id, row.task_run_id) for row in tx.execute(_DUE, {"now": tx.now, "most": due.BATCH})]
    due.look_at_all(database, keys)
    calls = database.caches.own(_PollsUnderWay)
    return calls.begin(
        lambda most, shares: database.run(lambda tx: claim(tx, most, shares)),
        lambda claimed: ask(database, values, settings, calls.sender, claimed),
        waits=settings.mode == "serverless",
    )


def claim(tx: Transaction, most: int, shares: Shares = ALL_FREE) -> Sequence[Any]:
    """Claim tries that are due, and say when the next ones are.

    Args:
        shares: how many each tenant may have.
    """
    return tx.execute(_CLAIM, {"now": tx.now, "most": most, **shares.parameters()}).all()


def ask(database: Database, values: Values, settings: Settings, sender: Sender, claimed: Any) -> None:
    """Ask one URL; store its answer if it is final, and note it otherwise.

    Args:
        claimed: a row of `claim`.
    """
    answer = read_answer(_reply(sender, settings, claimed))
    if isinstance(answer, str):
        database.run(lambda tx: _note(tx, claimed, answer))
        return
    try:
        payload = values.keep(answer)
    except InvalidInput as error:
        refused = str(error.detail)
        database.run(lambda tx: _note(tx, claimed, refused))
        return
    signal = NewSignal(claimed.root_run_id, claimed.tenant_id, claimed.names[0], payload, POLL)
    data = orjson.dumps({"name": signal.name}).decode()
    database.run(
        lambda tx: signals.send(tx, signal, event="run.signalled", data=data, about=claimed.task_run_id)
    )


def _reply(sender: Sender, settings: Settings, claimed: Any) -> Reply | NoReply:
    url = claimed.data["url"]
    try:
        target = Networks(settings.dispatch_networks).resolve(url, claimed.tenant_id)
    except PipeWeaveError as error:
        return NoReply(str(error.detail), is_certain=True)
    except (OSError, UnicodeError) as error:
        return NoReply(f"its host cannot be resolved: {error}", is_certain=True)
    return sender.get(target, path_of(url), _HEADERS)


def read_answer(reply: Reply | NoReply) -> dict[str, Any] | str:
    """What is stored of a final answer; of any other, what it was, for people."""
    if isinstance(reply, NoReply):
        return _said(reply.reason)
    if not 200 <= reply.status < 300:
        return _said(f"{reply.status}: {' '.join(reply.text.split())}")
    if not reply.is_whole:
        return f"{reply.status}: more than {MAX_ANSWER_BYTES:,} bytes"
    try:
        answer = orjson.loads(reply.text)
    except orjson.JSONDecodeError:
        return f"{reply.status}: no JSON"
    if (final := async_reports.of_poll(answer)) is not None:
        return final
    status = answer.get("status") if isinstance(answer, dict) else None
    return _said(f"{reply.status}: {status}" if isinstance(status, str) else f"{reply.status}: no status")


def _said(text: str) -> str:
    return storable(text[:MAX_NOTE_CHARS])


# Only of the try that was claimed last: an earlier one may answer late.
_NOTE = """
UPDATE waits AS w SET data = w.data || jsonb_build_object('lastAnswer', CAST(:answer AS text))
WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.attempt = :attempt
    AND CAST(w.data ->> 'tries' AS integer) = :tries
"""


def _note(tx: Transaction, claimed: Any, answer: str) -> None:
    log.info("poll.unanswered", extra={"tenant": claimed.tenant_id, "reason": answer})
    key = {"run_id": claimed.run_id, "id": claimed.task_run_id, "attempt": claimed.attempt}
    tx.execute(_NOTE, {**key, "tries": claimed.data["tries"], "answer": answer})
