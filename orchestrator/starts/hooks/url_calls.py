"""The chore of the tick that calls the URLs of hooks, each until it answers with success.

A try is claimed before the call, in a transaction of its own, which says when the next one is due: a process
that dies meanwhile leaves the call to that one. So a call arrives at least once, and its id is the same each
time. The calls are made by threads beside the tick, which waits for them only in a serverless deployment.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pipeweave import webhooks
from pipeweave.errors import InvalidSetting, PipeWeaveError
from pipeweave.orchestrator.dispatch.beside_tick import (
    ALL_FREE,
    HAS_PLACES,
    IS_IN_SHARE,
    CallsBesideTick,
    Shares,
)
from pipeweave.orchestrator.dispatch.tokens import secret_of
from pipeweave.orchestrator.starts.failures import MAX_ERROR_CHARS
from pipeweave.orchestrator.starts.hooks import repeated_ends
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.sending import Networks, NoReply, Sender, path_of
from pipeweave.settings import Settings

log = logging.getLogger(__name__)

# Tries in all; the next one is due after 1, 2, 4, 8 and 16 minutes.
TRIES = 6
REFUSED, UNANSWERED = "HOOK_REFUSED", "HOOK_UNANSWERED"

# SQL: whether there is anything for this chore.
IS_DUE = "EXISTS (SELECT 1 FROM hook_fires AS f WHERE f.due_at <= now() AND f.url IS NOT NULL)"


class _Calls(CallsBesideTick):
    """The calls of hooks that this process makes for a database just now."""

    def __init__(self) -> None:
        super().__init__(Sender(cuts=True))


# Tenants take turns, each as far as it has places left.
_CLAIM = f"""
UPDATE hook_fires AS f SET attempts = f.attempts + 1,
    due_at = CAST(:now AS timestamptz) + power(2, least(f.attempts, 10)) * interval '1 minute'
WHERE f.due_at <= :now AND f.url IS NOT NULL AND f.id = ANY(ARRAY(
    SELECT w.id FROM (
        SELECT o.id, o.tenant_id, o.due_at,
            {turn("o.tenant_id", "o.due_at, o.id")} AS turn
        FROM (SELECT d.id, d.tenant_id, d.due_at FROM hook_fires AS d
              WHERE d.due_at <= :now AND d.url IS NOT NULL AND {HAS_PLACES}
              ORDER BY d.due_at LIMIT :window) AS o) AS w
    WHERE {IS_IN_SHARE}
    ORDER BY w.turn, w.due_at, w.id LIMIT :most))
RETURNING f.id, f.tenant_id, f.pipeline_id, f.hook, f.url, f.secret, f.event, f.attempts
"""


def run_once(database: Database, settings: Settings) -> int:
    """Make the calls that are due, a few at a time.

    Returns:
        How many calls began.
    """
    calls = database.caches.own(_Calls)

    def claim_some(most: int, shares: Shares) -> Sequence[Any]:
        database.run(lambda tx: repeated_ends.settle(tx, "hook_fires"))
        return database.run(lambda tx: claim(tx, most, shares))

    return calls.begin(
        claim_some,
        lambda claimed: call(database, settings, calls.sender, claimed),
        waits=settings.mode == "serverless",
    )


def claim(tx: Transaction, most: int, shares: Shares = ALL_FREE) -> Sequence[Any]:
    """Claim tries that are due, and say when the next ones are.

    Args:
        shares: how many each tenant may have.
    """
    return tx.execute(_CLAIM, {"now": tx.now, "most": most, **shares.parameters()}).all()


@dataclass(frozen=True, slots=True)
class _FailedCall:
    code: str
    reason: str


# Only the try that was claimed last may end a call: an earlier one may answer late.
_NOTE = """
UPDATE hook_fires SET outcome = :outcome, error_code = :code, error = :error,
    due_at = CASE WHEN :outcome = 'waiting' THEN due_at END,
    fired_at = CASE WHEN :outcome <> 'waiting' THEN CAST(:now AS timestamptz) END
WHERE id = :id AND due_at IS NOT NULL AND attempts = :attempts
"""


def call(database: Database, settings: Settings, sender: Sender, claimed: Any) -> None:
    """Make one call, and note how it ended.

    Args:
        claimed: a row of `claim`.
    """
    failed = _sent(sender, settings, claimed, int(database.now().timestamp()))
    outcome = "fired" if failed is None else "failed" if claimed.attempts >= TRIES else "waiting"
    if failed is not None:
        names = {"tenant": claimed.tenant_id, "pipeline_id": claimed.pipeline_id, "hook": claimed.hook}
        event = "hook.given_up" if outcome == "failed" else "hook.refused"
        log.warning(event, extra={**names, "reason": failed.reason})
    parameters = {
        "id": claimed.id,
        "attempts": claimed.attempts,
        "outcome": outcome,
        "code": failed and failed.code,
        "error": failed and failed.reason[:MAX_ERROR_CHARS],
    }
    database.run(lambda tx: tx.execute(_NOTE, {**parameters, "now": tx.now}))


def _sent(sender: Sender, settings: Settings, claimed: Any, at: int) -> _FailedCall | None:
    """Send one call; None when it was answered with success."""
    body = body_of(claimed, settings.orchestrator_url)
    try:
        key = secret_of(settings)
        target = Networks(settings.dispatch_networks).resolve(claimed.url, claimed.tenant_id)
    except InvalidSetting as error:
        return _FailedCall(error.code, error.errors[0].field + " " + error.errors[0].message)
    except PipeWeaveError as error:
        return _FailedCall(error.code, error.detail)
    except (OSError, UnicodeError) as error:
        return _FailedCall(UNANSWERED, f"its host cannot be resolved: {error}")
    secret = webhooks.hook_secret(key, claimed.tenant_id, claimed.secret)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "PipeWeave",
        "Idempotency-Key": str(claimed.id),
        webhooks.DELIVERY: str(claimed.id),
        webhooks.HEADER: webhooks.sign(secret, at, body),
    }
    reply = sender.post(target, path_of(claimed.url), body, headers)
    if isinstance(reply, NoReply):
        return _FailedCall(UNANSWERED, reply.reason)
    if 200 <= reply.status < 300:
        return None
    return _FailedCall(REFUSED, f"it answered {reply.status}: {reply.text[:200]}".replace("\0", ""))


# Parts of the event that a call leaves out: they may be anybody's data, and the link leads to them.
_KEPT_BACK = ("input", "inputRef", "output", "outputRefs", "outputIsLarge")


def body_of(claimed: Any, url: str | None) -> bytes:
    """The body of a call.

    Args:
        url: of the API; None where it is not known, so that the link is a path.
    """
    event = {name: value for name, value in claimed.event.items() if name not in _KEPT_BACK}
    page = f"/ui/waits/{event['waitId']}" if "waitId" in event else f"/api/runs/{event['runId']}"
    link = f"{(url or '').rstrip('/')}{page}"
    return orjson.dumps({"id": str(claimed.id), "hook": claimed.hook, **event, "link": link})
