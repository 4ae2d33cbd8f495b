"""Reads what the audit tells of an object before and after a change, by the kind of object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.security.access_tokens import TOKEN_ID
from pipeweave.orchestrator.security.sessions import SESSION_ID
from pipeweave.orchestrator.store.database import Transaction

# Kind -> the state of the object, as one JSON object. `:object` is its name, or `:id` its id.
_TASK = """
SELECT jsonb_build_object('serviceId', t.service_id, 'pausedAt', p.paused_at, 'pauseReason', p.reason,
    'concurrencyOverride', t.concurrency_override, 'rateOverride', t.rate_override)
FROM tasks AS t LEFT JOIN pauses AS p ON p.tenant_id = t.tenant_id AND p.task_id = t.id
WHERE t.tenant_id = :tenant AND t.id = :object
"""
_TENANT = """
SELECT jsonb_build_object('maxActiveRuns', t.max_active_runs, 'pausedAt', p.paused_at,
    'pauseReason', p.reason)
FROM tenants AS t LEFT JOIN pauses AS p ON p.tenant_id = t.id AND p.task_id = ''
WHERE t.id = :tenant
"""
_PIPELINE = """
SELECT jsonb_build_object('version', max(version)) FROM pipeline_versions
WHERE tenant_id = :tenant AND pipeline_id = :object
"""
_SCHEDULE = """
SELECT to_jsonb(s) - '{tenant_id, id, created_at, updated_at}'::text[] FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.id = :object
"""
# Its secrets are sealed; that they changed is told by when, not by what.
_TRIGGER = """
SELECT (to_jsonb(t) - '{tenant_id, id, created_at, secret, old_secret, on_time}'::text[])
FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :object
"""
_SERVICE = """
SELECT to_jsonb(s) - '{tenant_id, id, last_heartbeat}'::text[] FROM services AS s
WHERE s.tenant_id = :tenant AND s.id = :object
"""
_WORKER = """
SELECT jsonb_build_object('drainRequestedAt', w.drain_requested_at, 'drainReason', w.drain_reason)
FROM workers AS w WHERE w.tenant_id = :tenant AND w.id = :object
"""
_RUN = """
SELECT jsonb_build_object('status', r.status, 'errorCode', r.error_code, 'finishedAt', r.finished_at)
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant
"""
_TASK_RUN = """
SELECT jsonb_build_object('status', r.status, 'attempt', r.attempt)
FROM task_runs AS r WHERE r.run_id = :run_id AND r.id = :id AND r.tenant_id = :tenant
"""
_DEAD_LETTER = """
SELECT jsonb_build_object('retriedAt', d.retried_at, 'discardedAt', d.discarded_at)
FROM dead_letters AS d WHERE d.id = :id AND d.tenant_id = :tenant
"""
_REDRIVE = """
SELECT jsonb_build_object('status', r.status, 'retried', r.retried, 'skipped', r.skipped)
FROM redrives AS r WHERE r.id = :id AND r.tenant_id = :tenant
"""
_BULK_CHANGE = """
SELECT jsonb_build_object('status', b.status, 'changed', b.changed, 'skipped', b.skipped)
FROM bulk_changes AS b WHERE b.id = :id AND b.tenant_id = :tenant
"""
_UPLOAD = """
SELECT jsonb_build_object('deletedAt', u.deleted_at) FROM temp_uploads AS u
WHERE u.id = :id AND u.tenant_id = :tenant
"""
_DEPLOYMENT = "SELECT jsonb_build_object('mode', s.mode, 'reason', s.reason) FROM orchestrator_state AS s"
_TOKEN = """
SELECT jsonb_object_agg(CAST(t.id AS text), jsonb_build_object('tenants', t.tenants, 'scopes', t.scopes,
    'expiresAt', t.expires_at))
FROM access_tokens AS t WHERE t.name = :object AND t.revoked_at IS NULL
"""
_TOKEN_BY_ID = """
SELECT jsonb_build_object('name', t.name, 'revokedAt', t.revoked_at) FROM access_tokens AS t WHERE t.id = :id
"""
_VIEW = """
SELECT jsonb_object_agg(v.screen, v.query) FROM views AS v WHERE v.tenant_id = :tenant AND v.name = :object
"""
_VIEW_BY_ID = """
SELECT jsonb_build_object('screen', v.screen, 'name', v.name, 'query', v.query)
FROM views AS v WHERE v.id = :id AND v.tenant_id = :tenant
"""
_SESSION = """
SELECT jsonb_build_object('tokenName', t.name, 'agent', s.agent)
FROM ui_sessions AS s JOIN access_tokens AS t ON t.id = s.token_id WHERE s.id = :id
"""

_BY_NAME: Mapping[str, str] = {
    "task": _TASK,
    "tenant": _TENANT,
    "pipeline": _PIPELINE,
    "schedule": _SCHEDULE,
    "trigger": _TRIGGER,
    "service": _SERVICE,
    "worker": _WORKER,
    "deployment": _DEPLOYMENT,
}
# Kind -> the prefix of its ids, and its state.
_BY_ID: Mapping[str, tuple[str, str]] = {
    "run": (ids.RUN, _RUN),
    "task run": (ids.TASK_RUN, _TASK_RUN),
    "dead letter": (ids.DEAD_LETTER, _DEAD_LETTER),
    "redrive": (ids.REDRIVE, _REDRIVE),
    "bulk change": (ids.BULK, _BULK_CHANGE),
    "upload": (ids.UPLOAD, _UPLOAD),
    "session": (SESSION_ID, _SESSION),
}
# Kind -> the prefix of its ids, and its state by its name and by its id.
_BY_NAME_OR_ID: Mapping[str, tuple[str, str, str]] = {
    "token": (TOKEN_ID, _TOKEN, _TOKEN_BY_ID),
    "view": ("view", _VIEW, _VIEW_BY_ID),
}
# Kinds of which a verb changes many at once, or that have no row.
_WITHOUT_STATE = frozenset({"runs", "dead letters", "objects", "file", "months", "link"})

KINDS = frozenset({*_BY_NAME, *_BY_ID, *_BY_NAME_OR_ID, *_WITHOUT_STATE})


def state_of(tx: Transaction, kind: str, tenant: str | None, object: str) -> dict[str, Any]:
    """What the audit tells of an object now; empty when there is none, or its id cannot be read.

    Args:
        kind: one of KINDS.
        tenant: whose object it is; None for one of the whole deployment.
        object: its id as a request has it.
    """
    reads = _reader(kind, object)
    if reads is None:
        return {}
    text, more = reads
    parameters = {"tenant": tenant, "object": object.replace("\0", ""), **more}
    row = tx.execute(f"SELECT state FROM ({text}) AS found (state)", parameters).first()
    state: dict[str, Any] = (row.state if row else None) or {}
    return state


def _reader(kind: str, object: str) -> tuple[str, dict[str, UUID]] | None:
    if kind in _BY_NAME:
        return _BY_NAME[kind], {}
    if kind in _BY_NAME_OR_ID:
        prefix, by_name, by_id = _BY_NAME_OR_ID[kind]
        id = _read(prefix, object)
        return (by_name, {}) if id is None else (by_id, {"id": id})
    if kind in _BY_ID:
        prefix, statement = _BY_ID[kind]
        id = _read(prefix, object)
        if id is not None:
            more = {"run_id": ids.run_id_of(id)} if kind == "task run" else {}
            return statement, {"id": id, **more}
    return None


def _read(prefix: str, object: str) -> UUID | None:
    try:
        return ids.read(prefix, object)
    except PipeWeaveError:
        return None
