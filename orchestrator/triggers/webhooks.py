"""Receives webhooks: checks who sent a delivery, and starts its run once.

Nothing is locked or stored before the signature was checked, and nothing but that says whether a trigger
exists. A delivery that comes again gets the run of the first one: a delivery is known by its id, and by its
signature, because the id is not signed.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import webhooks
from pipeweave.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    InvalidSetting,
    SignatureRefused,
    TooManyRequests,
)
from pipeweave.orchestrator.domain import gcra
from pipeweave.orchestrator.domain.triggered_by import WEBHOOK, TriggeredBy
from pipeweave.orchestrator.runs.triggering import CreatedRun
from pipeweave.orchestrator.security import sealed_texts
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.triggers import matching, row, starting, storing
from pipeweave.orchestrator.triggers.row import StoredTrigger
from pipeweave.rates import Rate

log = logging.getLogger(__name__)

# The largest body of a delivery (bytes).
MAX_BODY_BYTES = 256 * 1024

# Headers that a run gets without being asked for, by scheme: what the sender says about its event.
GIVEN_HEADERS = {"pipeweave": (), "github": ("x-github-event",), "stripe": ()}
# Headers that no run gets.
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", *webhooks.SCHEMES.values()})

_DELIVERY_HEADERS = {"pipeweave": webhooks.DELIVERY.lower(), "github": "x-github-delivery"}
_DELIVERY_ID = re.compile(r"[A-Za-z0-9._~:@-]{1,200}\Z")
# Stands for the secret of a trigger that does not exist, so that it takes as long to refuse.
_NOBODYS = secrets.token_hex(32)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery whose signature is right.

    Args:
        headers: by names in lower case.
        signature: the SHA-256 of its signature.
    """

    trigger: StoredTrigger
    headers: Mapping[str, str]
    signature: str


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a delivery.

    Args:
        delivery_id: the id that the sender gave it, or one made of its signature.
        run_id: its run; None when the filter of the trigger does not fit.
        status: of the run; None when it is not known any more.
        is_repeated: whether it came before.
    """

    delivery_id: str
    run_id: UUID | None
    status: str | None = None
    is_repeated: bool = False


def authenticate(
    tx: Transaction,
    secret_key: str | None,
    tenant: str,
    trigger_id: str,
    headers: Mapping[str, str],
    content: bytes,
) -> Delivery:
    """Check the signature of a delivery. Changes nothing.

    Args:
        headers: by names in lower case.
        content: the body, byte by byte as it was sent.

    Raises:
        SignatureRefused: it is not signed with a secret of this trigger, or the tenant has no such webhook.
    """
    trigger = row.find(tx, tenant, trigger_id)
    scheme = webhooks.DEFAULT_SCHEME if trigger is None else _scheme(trigger)
    known = [_NOBODYS] if trigger is None else _secrets(tx, secret_key, trigger)
    signature = webhooks.signature_of(scheme, headers) or webhooks.Signature(0, ("0" * 64,))
    found = webhooks.matching(signature, known, content, tx.now.timestamp())
    if trigger is None or found is None:
        raise SignatureRefused(
            hint="sign `<unix seconds>.<body>` with the secret of the trigger: docs/triggers.md"
        )
    return Delivery(trigger, headers, hashlib.sha256(found.encode()).hexdigest())


def _scheme(trigger: StoredTrigger) -> str:
    return trigger.scheme or webhooks.DEFAULT_SCHEME


def _secrets(tx: Transaction, secret_key: str | None, trigger: StoredTrigger) -> list[str]:
    if trigger.secret is None:
        return [_NOBODYS]
    sealed = [trigger.secret]
    if trigger.old_secret is not None and trigger.old_secret_until and trigger.old_secret_until > tx.now:
        sealed.append(trigger.old_secret)
    purpose = storing.purpose(trigger.tenant, trigger.id)
    try:
        return [sealed_texts.open_sealed(secret_key, purpose, each) for each in sealed]
    except InvalidSetting as error:
        # The sender may be anybody: only the log says it.
        names = {"tenant": trigger.tenant, "trigger": trigger.id, "reason": error.errors[0].message}
        log.error("webhook.secret_unreadable", extra=names)
        return [_NOBODYS]


def receive(tx: Transaction, values: Values, delivery: Delivery, body: Any) -> Received:
    """Start the run of a delivery, or give the one that it started before.

    Args:
        body: the JSON value of the body.

    Raises:
        SignatureRefused: the trigger was deleted meanwhile.
        InvalidInput: the id of the delivery is malformed.
        Conflict: the trigger is paused.
        TooManyRequests: more deliveries come than the trigger takes.
        PipeWeaveError: no run can start (see `triggering.trigger`).
    """
    trigger = row.lock(tx, delivery.trigger.tenant, delivery.trigger.id)
    if trigger is None:
        raise SignatureRefused()
    delivery_id = _delivery_id(_scheme(trigger), delivery, body)
    if (known := _known(tx, trigger, delivery_id, delivery.signature)) is not None:
        return known
    if not trigger.is_enabled:
        raise Conflict(f"trigger {trigger.id!r} is paused", hint="send the delivery again later")
    document = {"body": body, "headers": _headers(trigger, delivery.headers), "deliveryId": delivery_id}
    if not matching.fits(trigger.filter, document):
        return Received(delivery_id, None)
    on_time = _on_time(tx, trigger)
    metadata = {"triggerId": trigger.id, "deliveryId": delivery_id}
    by = TriggeredBy(WEBHOOK, trigger.id, delivery_id)
    given = matching.input_of(trigger.input, document)
    run = starting.start(tx, values, trigger.tenant, trigger.pipeline_id, given, metadata, by)
    _note(tx, trigger, delivery_id, delivery.signature, run, on_time)
    return Received(delivery_id, run.id, run.status)


def _delivery_id(scheme: str, delivery: Delivery, body: Any) -> str:
    if scheme == "stripe":
        found = body.get("id") if isinstance(body, Mapping) else None
    else:
        found = delivery.headers.get(_DELIVERY_HEADERS[scheme])
    if not found:
        return f"signature-{delivery.signature[:32]}"
    if not isinstance(found, str) or not _DELIVERY_ID.match(found):
        place = "id" if scheme == "stripe" else _DELIVERY_HEADERS[scheme]
        expected = "1 to 200 letters, digits and . _ ~ : @ -"
        raise InvalidInput(
            f"{place} is not the id of a delivery",
            errors=[FieldError(place, "is not the id of a delivery", "invalid_id", expected)],
        )
    return found


def _headers(trigger: StoredTrigger, sent: Mapping[str, str]) -> dict[str, str]:
    wanted = (*GIVEN_HEADERS[_scheme(trigger)], *trigger.headers)
    return {name: sent[name] for name in wanted if name in sent}


# Either the id or the signature makes it the same delivery.
_KNOWN = """
SELECT f.key, f.run_id, r.status FROM trigger_fires AS f LEFT JOIN runs AS r ON r.id = f.run_id
WHERE f.tenant_id = :tenant AND f.trigger_id = :id AND (f.key = :key OR f.signature = :signature) LIMIT 1
"""


def _known(tx: Transaction, trigger: StoredTrigger, delivery_id: str, signature: str) -> Received | None:
    key = {"tenant": trigger.tenant, "id": trigger.id, "key": delivery_id, "signature": signature}
    found = tx.execute(_KNOWN, key).one_or_none()
    return None if found is None else Received(found.key, found.run_id, found.status, is_repeated=True)


def _on_time(tx: Transaction, trigger: StoredTrigger) -> Any:
    """When the next delivery would be on time, with this one counted."""
    rate = Rate(trigger.max_per_minute or storing.DEFAULT_PER_MINUTE, 60)
    on_time = gcra.on_time(rate, trigger.on_time, tx.now, 0)
    if not gcra.room(rate, on_time, tx.now):
        raise TooManyRequests(
            f"trigger {trigger.id!r} takes {rate.limit:,} deliveries a minute",
            hint="send the delivery again in a moment",
        )
    return gcra.after(rate, on_time, 1)


_INSERT = """
INSERT INTO trigger_fires (tenant_id, trigger_id, key, signature, fired_at, run_id)
VALUES (:tenant, :id, :key, :signature, :now, :run_id)
"""
_MOVE = """
UPDATE triggers SET on_time = :on_time, last_fire_at = :now, last_error_at = NULL, last_error_code = NULL,
    last_error = NULL
WHERE tenant_id = :tenant AND id = :id
"""


def _note(
    tx: Transaction, trigger: StoredTrigger, key: str, signature: str, run: CreatedRun, on_time: Any
) -> None:
    named = {"tenant": trigger.tenant, "id": trigger.id, "now": tx.now}
    tx.execute(_INSERT, {**named, "key": key, "signature": signature, "run_id": run.id})
    tx.execute(_MOVE, {**named, "on_time": on_time})
