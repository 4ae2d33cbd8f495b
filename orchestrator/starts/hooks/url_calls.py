"""The chore of the tick that calls the URLs of hooks, each until it answers with success.

A try is claimed before the call, in a transaction of its own, which says when the next one is due: a process
that dies meanwhile leaves the call to that one. So a call arrives at least once, and its id is the same each
time. The calls are made by threads beside the tick, which waits for them only in a serverless deployment.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from pipeweave import webhooks
from pipeweave.errors import InvalidSetting, PipeWeaveError
from pipeweave.orchestrator.dispatch.sender import ANSWER_WITHIN_S, NoReply, Sender
from pipeweave.orchestrator.dispatch.targets import Networks
from pipeweave.orchestrator.dispatch.tokens import secret_of
from pipeweave.orchestrator.starts.failures import MAX_ERROR_CHARS
from pipeweave.orchestrator.starts.hooks import repeated_ends
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.settings import Settings

log = logging.getLogger(__name__)

# Calls that a process makes at the same time, and of them for one tenant, whose receivers may all hang.
AT_ONCE = 8
OF_A_TENANT = 4
# Tries in all; the next one is due after 1, 2, 4, 8 and 16 minutes.
TRIES = 6
REFUSED, UNANSWERED = "HOOK_REFUSED", "HOOK_UNANSWERED"

# SQL: whether there is anything for this chore.
IS_DUE = "EXISTS (SELECT 1 FROM hook_fires AS f WHERE f.due_at <= now() AND f.url IS NOT NULL)"


class _Calls:
    """What this process calls for a database just now."""

    def __init__(self) -> None:
        self.places = threading.Semaphore(AT_ONCE)
        self.lock = threading.Lock()
        self.by_tenant: Counter[str] = Counter()
        self.sender = Sender(cuts=True)
        self.close = self.sender.close


# Tenants take turns, each as far as it has places left.
_CLAIM = """
UPDATE hook_fires AS f SET attempts = f.attempts + 1,
    due_at = CAST(:now AS timestamptz) + power(2, least(f.attempts, 10)) * interval '1 minute'
WHERE f.due_at <= :now AND f.url IS NOT NULL AND f.id = ANY(ARRAY(
    SELECT w.id FROM (
        SELECT o.id, o.tenant_id, o.due_at,
            row_number() OVER (PARTITION BY o.tenant_id ORDER BY o.due_at, o.id) AS turn
        FROM (SELECT d.id, d.tenant_id, d.due_at FROM hook_fires AS d
              WHERE d.due_at <= :now AND d.url IS NOT NULL AND d.tenant_id <> ALL(CAST(:full AS text[]))
              ORDER BY d.due_at LIMIT :window) AS o) AS w
    WHERE w.turn <= coalesce((SELECT b.places FROM unnest(CAST(:busy AS text[]), CAST(:places AS integer[]))
        AS b (tenant_id, places) WHERE b.tenant_id = w.tenant_id), :share)
    ORDER BY w.turn, w.due_at, w.id LIMIT :most))
RETURNING f.id, f.tenant_id, f.pipeline_id, f.hook, f.url, f.secret, f.event, f.attempts
"""


def run_once(database: Database, settings: Settings) -> int:
    """Make the calls that are due, at most AT_ONCE at a time.

    Returns:
        How many calls began.
    """
    calls = database.caches.own(_Calls)
    free = _take_free(calls.places)
    if not free:
        return 0
    try:
        with calls.lock:
            busy = dict(calls.by_tenant)
        database.run(lambda tx: repeated_ends.settle(tx, "hook_fires"))
        claimed = database.run(lambda tx: claim(tx, free, busy))
    except BaseException:
        calls.places.release(free)
        raise
    if len(claimed) < free:
        calls.places.release(free - len(claimed))
    with calls.lock:
        calls.by_tenant.update(each.tenant_id for each in claimed)
    begun = [
        threading.Thread(target=_made, args=(database, settings, calls, each), daemon=True)
        for each in claimed
    ]
    for each in begun:
        each.start()
    if settings.mode == "serverless":
        for each in begun:
            each.join(2 * ANSWER_WITHIN_S)
    return len(begun)


def _take_free(places: threading.Semaphore) -> int:
    free = 0
    while free < AT_ONCE and places.acquire(blocking=False):
        free += 1
    return free


def claim(tx: Transaction, most: int, busy: Mapping[str, int] | None = None) -> Sequence[Any]:
    """Claim tries that are due, and say when the next ones are.

    Args:
        busy: by tenant: how many calls this process is making.
    """
    left = {tenant: max(0, OF_A_TENANT - count) for tenant, count in (busy or {}).items()}
    parameters = {"now": tx.now, "most": most, "window": 100 * AT_ONCE, "share": OF_A_TENANT}
    parameters |= {"full": [each for each, places in left.items() if not places]}
    return tx.execute(_CLAIM, {**parameters, "busy": list(left), "places": list(left.values())}).all()


def _made(database: Database, settings: Settings, calls: _Calls, claimed: Any) -> None:
    try:
        call(database, settings, calls.sender, claimed)
    except Exception as error:
        # The next try comes when it is due.
        log.warning("hook.call_failed", extra={"hook": str(claimed.id)}, exc_info=error)
    finally:
        with calls.lock:
            # A counter that is subtracted from forgets who has nothing left.
            calls.by_tenant -= Counter([claimed.tenant_id])
        calls.places.release()


@dataclass(frozen=True, slots=True)
class _Failed:
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


def _sent(sender: Sender, settings: Settings, claimed: Any, at: int) -> _Failed | None:
    """Send one call; None when it was answered with success."""
    body = body_of(claimed, settings.orchestrator_url)
    try:
        key = secret_of(settings)
        target = Networks(settings.dispatch_networks).resolve(claimed.url, claimed.tenant_id)
    except InvalidSetting as error:
        return _Failed(error.code, error.errors[0].field + " " + error.errors[0].message)
    except PipeWeaveError as error:
        return _Failed(error.code, error.detail)
    except (OSError, UnicodeError) as error:
        return _Failed(UNANSWERED, f"its host cannot be resolved: {error}")
    secret = webhooks.hook_secret(key, claimed.tenant_id, claimed.secret)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "PipeWeave",
        "Idempotency-Key": str(claimed.id),
        webhooks.DELIVERY: str(claimed.id),
        webhooks.HEADER: webhooks.sign(secret, at, body),
    }
    reply = sender.post(target, _path(claimed.url), body, headers)
    if isinstance(reply, NoReply):
        return _Failed(UNANSWERED, reply.reason)
    if 200 <= reply.status < 300:
        return None
    return _Failed(REFUSED, f"it answered {reply.status}: {reply.text[:200]}".replace("\0", ""))


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


# Parts of the event that a call leaves out: they may be anybody's data, and the link leads to them.
_KEPT_BACK = ("input", "inputRef", "output", "outputRefs", "outputIsLarge")


def body_of(claimed: Any, url: str | None) -> bytes:
    """The body of a call.

    Args:
        url: of the API; None where it is not known, so that the link is a path.
    """
    event = {name: value for name, value in claimed.event.items() if name not in _KEPT_BACK}
    link = f"{(url or '').rstrip('/')}/api/runs/{event['runId']}"
    return orjson.dumps({"id": str(claimed.id), "hook": claimed.hook, **event, "link": link})
