"""The verbs that store, pause, resume and delete a trigger, and give it a new secret."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeweave import webhooks
from pipeweave.errors import Conflict, FieldError, LimitExceeded
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.security import sealed_texts
from pipeweave.orchestrator.starts.triggers import checking
from pipeweave.orchestrator.starts.triggers import row as rows
from pipeweave.orchestrator.starts.triggers.spec import TriggerSpec
from pipeweave.orchestrator.store.database import Transaction, to_json

MIN_SECRET_CHARS, MAX_SECRET_CHARS = 16, 500
DEFAULT_PER_MINUTE = 600
# Of one tenant: each event is held against all of its triggers.
MAX_TRIGGERS = 1_000
SECRET_PREFIX = "whsec_"


@dataclass(frozen=True, slots=True)
class Put:
    """What storing did.

    Args:
        is_new: whether the trigger was not there before.
        new_secret: the secret that was made; it can never be read again.
        warnings: why no run will start, as far as the pipeline's schema tells already.
    """

    is_new: bool
    new_secret: str | None
    warnings: tuple[FieldError, ...] = ()


_PUT = """
INSERT INTO triggers AS t (tenant_id, id, kind, pipeline_id, filter, input, enabled, scheme, secret, headers,
    max_per_minute, event, allows_self, signal, enabled_at, created_at, updated_at)
VALUES (:tenant, :id, :kind, :pipeline_id, CAST(:filter AS jsonb), CAST(:input AS jsonb),
    coalesce(CAST(:enabled AS boolean), true), :scheme, :secret, CAST(:headers AS text[]), :max_per_minute,
    :event, :allows_self, CAST(:signal AS jsonb), CAST(:enabled_at AS timestamptz), :now, :now)
ON CONFLICT (tenant_id, id) DO UPDATE SET pipeline_id = EXCLUDED.pipeline_id, filter = EXCLUDED.filter,
    input = EXCLUDED.input, enabled = coalesce(CAST(:enabled AS boolean), t.enabled),
    scheme = EXCLUDED.scheme, secret = EXCLUDED.secret, headers = EXCLUDED.headers,
    max_per_minute = EXCLUDED.max_per_minute, event = EXCLUDED.event, allows_self = EXCLUDED.allows_self,
    signal = EXCLUDED.signal,
    enabled_at = CASE WHEN t.enabled AND t.event = EXCLUDED.event THEN t.enabled_at
        ELSE EXCLUDED.enabled_at END,
    updated_at = EXCLUDED.updated_at,
    last_error_at = NULL, last_error_code = NULL, last_error = NULL
WHERE t.kind = EXCLUDED.kind
"""


def put(tx: Transaction, secret_key: str | None, tenant: str, trigger_id: str, spec: TriggerSpec) -> Put:
    """Store a trigger, or change it to be exactly this. Its secret stays, unless one is given.

    Raises:
        NotFound: the tenant has no such pipeline.
        InvalidInput: one FieldError for each mistake.
        Conflict: the trigger is of another kind.
        LimitExceeded: the tenant has MAX_TRIGGERS.
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set, and it is a webhook.
    """
    started = pipelines.get(tx, tenant, spec.pipeline_id)
    checking.check(spec)
    before = rows.lock(tx, tenant, trigger_id)
    if before is not None and before.kind != spec.kind:
        raise Conflict(
            f"trigger {trigger_id!r} is of the kind {before.kind}",
            hint="delete it first, or choose another id",
        )
    if before is None:
        _check_number(tx, tenant)
    is_in_need = spec.kind == rows.WEBHOOK and before is None
    secret = spec.secret or (new_secret() if is_in_need else None)
    sealed = None if before is None else before.secret
    if secret is not None:
        sealed = _sealed(secret_key, tenant, trigger_id, secret)
    tx.execute(_PUT, _columns(tx, tenant, trigger_id, spec, sealed))
    warnings = checking.sure_refusals(spec, started.spec.input_schema)
    return Put(before is None, None if spec.secret is not None else secret, tuple(warnings))


_COUNT = "SELECT count(*) FROM triggers AS t WHERE t.tenant_id = :tenant"


def _check_number(tx: Transaction, tenant: str) -> None:
    if tx.execute(_COUNT, {"tenant": tenant}).scalar_one() >= MAX_TRIGGERS:
        raise LimitExceeded(
            f"the tenant has {MAX_TRIGGERS:,} triggers, and may have no more",
            hint="delete one that is not needed, or let one trigger start a pipeline for several cases",
        )


def new_secret() -> str:
    """A secret for a webhook."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def purpose(tenant: str, trigger_id: str) -> str:
    """What the secrets of a trigger are encrypted for."""
    return f"trigger/{tenant}/{trigger_id}"


def _sealed(secret_key: str | None, tenant: str, trigger_id: str, secret: str) -> str:
    return sealed_texts.seal(secret_key, purpose(tenant, trigger_id), secret)


def _columns(
    tx: Transaction, tenant: str, trigger_id: str, spec: TriggerSpec, sealed: str | None
) -> dict[str, Any]:
    is_webhook = spec.kind == rows.WEBHOOK
    return {
        "tenant": tenant,
        "id": trigger_id,
        "kind": spec.kind,
        "pipeline_id": spec.pipeline_id,
        "filter": to_json(spec.filter),
        "input": to_json(spec.input),
        "enabled": None if spec.paused is None else not spec.paused,
        "scheme": spec.scheme or (webhooks.DEFAULT_SCHEME if is_webhook else None),
        "secret": sealed,
        "headers": list(spec.headers),
        "max_per_minute": spec.max_per_minute or (DEFAULT_PER_MINUTE if is_webhook else None),
        "event": spec.event,
        "allows_self": spec.allows_self,
        "signal": None if spec.signal is None else to_json(spec.signal.to_json()),
        "enabled_at": None if is_webhook else tx.now,
        "now": tx.now,
    }


_ROTATE = """
UPDATE triggers SET old_secret = CASE WHEN :has_overlap THEN secret END,
    old_secret_until = CASE WHEN :has_overlap THEN CAST(:until AS timestamptz) END,
    secret = :secret, updated_at = :now
WHERE tenant_id = :tenant AND id = :id AND kind = 'webhook'
"""


def rotate(
    tx: Transaction,
    secret_key: str | None,
    tenant: str,
    trigger_id: str,
    overlap: timedelta,
    secret: str | None = None,
) -> str:
    """Give a webhook a new secret. The one before it stays valid for a while; an older one does not.

    Args:
        overlap: for how long.
        secret: the new one; None to make one.

    Raises:
        NotFound: the tenant has no such webhook.
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    chosen = secret or new_secret()
    parameters = {
        "tenant": tenant,
        "id": trigger_id,
        "secret": _sealed(secret_key, tenant, trigger_id, chosen),
        "has_overlap": bool(overlap),
        "until": tx.now + overlap,
        "now": tx.now,
    }
    if not tx.execute(_ROTATE, parameters).rowcount:
        raise rows.not_found(tx, tenant, trigger_id)
    return chosen


_DELETE = "DELETE FROM triggers WHERE tenant_id = :tenant AND id = :id"
_DELETE_FIRES = "DELETE FROM event_fires WHERE tenant_id = :tenant AND trigger_id = :id"


def delete(tx: Transaction, tenant: str, trigger_id: str) -> None:
    """Delete a trigger and the list of its fires. Its runs go on.

    Raises:
        NotFound: the tenant has no such trigger.
    """
    if not tx.execute(_DELETE, {"tenant": tenant, "id": trigger_id}).rowcount:
        raise rows.not_found(tx, tenant, trigger_id)
    tx.execute(_DELETE_FIRES, {"tenant": tenant, "id": trigger_id})


_ENABLE = """
UPDATE triggers SET enabled = :enabled,
    enabled_at = CASE WHEN kind = 'event' AND NOT enabled THEN CAST(:now AS timestamptz) ELSE enabled_at END,
    updated_at = CASE WHEN enabled = :enabled THEN updated_at ELSE :now END
WHERE tenant_id = :tenant AND id = :id
"""


def pause(tx: Transaction, tenant: str, trigger_id: str) -> None:
    """Let a trigger start nothing until `resume`. The runs that have started go on.

    Raises:
        NotFound: the tenant has no such trigger.
    """
    _enable(tx, tenant, trigger_id, is_enabled=False)


def resume(tx: Transaction, tenant: str, trigger_id: str) -> None:
    """End a pause. What happened during the pause is not made up for.

    Raises:
        NotFound: the tenant has no such trigger.
    """
    _enable(tx, tenant, trigger_id, is_enabled=True)


def _enable(tx: Transaction, tenant: str, trigger_id: str, *, is_enabled: bool) -> None:
    parameters = {"tenant": tenant, "id": trigger_id, "enabled": is_enabled, "now": tx.now}
    if not tx.execute(_ENABLE, parameters).rowcount:
        raise rows.not_found(tx, tenant, trigger_id)
