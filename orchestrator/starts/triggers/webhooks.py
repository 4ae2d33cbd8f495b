"""Receives webhooks: checks who sent a delivery, and starts its run, or sends its signal, once.

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
    DeliveryIdReused,
    FieldError,
    InvalidInput,
    InvalidSetting,
    SignatureRefused,
    TooManyRequests,
)
from pipeweave.orchestrator.domain import gcra
from pipeweave.orchestrator.domain.triggered_by import WEBHOOK, TriggeredBy
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.security import sealed_texts
from pipeweave.orchestrator.starts import new_runs
from pipeweave.orchestrator.starts.triggers import delivered_signals, last_fire, matching, row, storing
from pipeweave.orchestrator.starts.triggers.delivered_signals import SignalledRun
from pipeweave.orchestrator.starts.triggers.row import StoredTrigger
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values, canonical
from pipeweave.rates import Rate

log = logging.getLogger(__name__)

# The largest body of a delivery (bytes).
MAX_BODY_BYTES = 256 * 1024

# What GitHub sends when a webhook was made there, to see whether it is answered.
_PING = "ping"
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
class ReceivedDelivery:
    """What became of a delivery.

    Args:
        delivery_id: the id that the sender gave it, or one made of its signature.
        run_id: the run that it started or signalled; None when the filter of the trigger does not fit, or it
            is a ping.
        status: of the run; None when it is not known any more.
        is_repeated: whether it came before.
        is_ping: the sender only asks whether somebody answers.
        signal_id: the signal that it sent; None when it started a run alone.
    """

    delivery_id: str
    run_id: UUID | None
    status: str | None = None
    is_repeated: bool = False
    is_ping: bool = False
    signal_id: UUID | None = None


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
    secret = webhooks.matching(signature, known, content, tx.now.timestamp())
    if trigger is None or secret is None:
        raise SignatureRefused(
            hint="sign `<unix seconds>.<body>` with the secret of the trigger: docs/triggers.md"
        )
    return Delivery(trigger, headers, hashlib.sha256(secret.encode()).hexdigest())


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


def receive(tx: Transaction, values: Values, delivery: Delivery, body: Any) -> ReceivedDelivery:
    """Start the run of a delivery, or send its signal, or give what it did before.

    Args:
        body: the JSON value of the body.

    Raises:
        SignatureRefused: the trigger was deleted meanwhile.
        InvalidInput: the id of the delivery is malformed.
        DeliveryIdReused: its id is that of a delivery with another body.
        Conflict: the trigger is paused.
        TooManyRequests: more deliveries come than the trigger takes.
        PipeWeaveError: no run can start (see `triggering.trigger`), or the signal is refused (see
            `delivered_signals.send`).
    """
    trigger = row.lock(tx, delivery.trigger.tenant, delivery.trigger.id)
    if trigger is None:
        raise SignatureRefused()
    delivery_id = _delivery_id(_scheme(trigger), delivery, body)
    fire = {
        "tenant": trigger.tenant,
        "id": trigger.id,
        "key": delivery_id,
        "signature": delivery.signature,
        "body_hash": _body_hash(_scheme(trigger), body),
    }
    if (known := _known(tx, fire)) is not None:
        return known
    if _is_ping(trigger, delivery.headers):
        return ReceivedDelivery(delivery_id, None, is_ping=True)
    if not trigger.is_enabled:
        raise Conflict(f"trigger {trigger.id!r} is paused", hint="send the delivery again later")
    document = {"body": body, "headers": _headers(trigger, delivery.headers), "deliveryId": delivery_id}
    if not matching.fits(trigger.filter, document):
        return ReceivedDelivery(delivery_id, None)
    on_time = _on_time(tx, trigger)
    metadata = {"triggerId": trigger.id, "deliveryId": delivery_id}
    by = TriggeredBy(WEBHOOK, trigger.id, delivery_id)
    input = matching.input_of(trigger.input, document)
    request = StartRequest(trigger.pipeline_id, input, metadata=metadata, triggered_by=by)
    done = _fired(tx, values, trigger, document, request)
    received = ReceivedDelivery(delivery_id, done.run_id, done.status, signal_id=done.signal_id)
    tx.execute(_INSERT, {**fire, "run_id": done.run_id, "signal_id": done.signal_id, "now": tx.now})
    last_fire.record(tx, trigger.tenant, trigger.id, on_time=on_time)
    return received


def _fired(
    tx: Transaction,
    values: Values,
    trigger: StoredTrigger,
    document: Mapping[str, Any],
    request: StartRequest,
) -> SignalledRun:
    if trigger.signal is not None:
        return delivered_signals.send(tx, values, trigger.tenant, trigger.signal, document, request)
    (run,) = new_runs.start(tx, values, trigger.tenant, [request])
    return SignalledRun(run.id, None, run.status)


def _delivery_id(scheme: str, delivery: Delivery, body: Any) -> str:
    if scheme == "stripe":
        delivery_id = body.get("id") if isinstance(body, Mapping) else None
    else:
        delivery_id = delivery.headers.get(_DELIVERY_HEADERS[scheme])
    if not delivery_id:
        return f"signature-{delivery.signature[:32]}"
    if not isinstance(delivery_id, str) or not _DELIVERY_ID.match(delivery_id):
        place = "id" if scheme == "stripe" else _DELIVERY_HEADERS[scheme]
        expected = "1 to 200 letters, digits and . _ ~ : @ -"
        raise InvalidInput(
            f"{place} is not the id of a delivery",
            errors=[FieldError(place, "is not the id of a delivery", "invalid_id", expected)],
        )
    return delivery_id


def _headers(trigger: StoredTrigger, sent: Mapping[str, str]) -> dict[str, str]:
    wanted = (*row.GIVEN_HEADERS[_scheme(trigger)], *trigger.headers)
    return {name: sent[name] for name in wanted if name in sent}


def _is_ping(trigger: StoredTrigger, sent: Mapping[str, str]) -> bool:
    """Whether it is GitHub's question whether somebody answers, which no filter asks for."""
    if _scheme(trigger) != "github" or sent.get(row.GITHUB_EVENT) != _PING:
        return False
    wanted = trigger.filter.get(f"headers.{row.GITHUB_EVENT}")
    return _PING not in (wanted if isinstance(wanted, list) else [wanted])


def _body_hash(scheme: str, body: Any) -> str | None:
    """What tells bodies with one id apart; None where the id is part of the body, which the sender may send
    again with newer details.
    """
    return None if scheme == "stripe" else hashlib.sha256(canonical(body)).hexdigest()


# Either the id or the signature makes it the same delivery; the signature is of this very body.
_KNOWN = """
SELECT f.key, f.run_id, f.signal_id, r.status, f.signature = :signature OR f.body_hash IS NULL
    OR f.body_hash = CAST(:body_hash AS text) AS is_same
FROM trigger_fires AS f LEFT JOIN runs AS r ON r.id = f.run_id
WHERE f.tenant_id = :tenant AND f.trigger_id = :id AND (f.key = :key OR f.signature = :signature)
ORDER BY f.signature = :signature DESC LIMIT 1
"""


_INSERT = """
INSERT INTO trigger_fires (tenant_id, trigger_id, key, signature, body_hash, fired_at, run_id, signal_id)
VALUES (:tenant, :id, :key, :signature, :body_hash, :now, :run_id, :signal_id)
"""


def _known(tx: Transaction, fire: Mapping[str, Any]) -> ReceivedDelivery | None:
    first = tx.execute(_KNOWN, fire).one_or_none()
    if first is None:
        return None
    if fire["body_hash"] is not None and not first.is_same:
        raise DeliveryIdReused(
            f"delivery {fire['key']!r} came before with another body, so this one does nothing",
            hint="give each delivery an id of its own; send one again with the body that it had",
        )
    return ReceivedDelivery(
        first.key, first.run_id, first.status, is_repeated=True, signal_id=first.signal_id
    )


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
