"""Reads the row of a trigger, and locks it for the verbs that change it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.errors import NotFound
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.starts.triggers.spec import TriggerSignal
from pipeweave.orchestrator.store.database import Transaction

WEBHOOK, EVENT = "webhook", "event"
KINDS = (WEBHOOK, EVENT)

# What a trigger of events may fire for: the end of a run of a pipeline, or of a task run.
PIPELINE_COMPLETED, TASK_COMPLETED = "pipeline-completed", "task-completed"
EVENTS = (PIPELINE_COMPLETED, TASK_COMPLETED)
# The statuses in which these end.
STATUSES = {
    PIPELINE_COMPLETED: ("completed", "partial", "failed", "cancelled"),
    TASK_COMPLETED: ("completed", "failed", "timeout"),
}

GITHUB_EVENT = "x-github-event"
# Headers that a run gets without being asked for, by scheme: what the sender says about its event.
GIVEN_HEADERS: dict[str, tuple[str, ...]] = {"pipeweave": (), "github": (GITHUB_EVENT,), "stripe": ()}

# SQL: the columns that `of_row` reads, of triggers `t`.
COLUMNS = """t.tenant_id, t.id, t.kind, t.pipeline_id, t.filter, t.input, t.enabled, t.scheme, t.secret,
    t.old_secret, t.old_secret_until, t.headers, t.max_per_minute, t.on_time, t.last_fire_at,
    t.last_error_at, t.last_error_code, t.last_error, t.event, t.allows_self, t.enabled_at, t.created_at,
    t.updated_at, t.reused_ids, t.signal"""


@dataclass(frozen=True, slots=True)
class StoredTrigger:
    """A stored trigger.

    Args:
        filter: path -> the value, or the list of values, that lets it fire.
        input: the template of its runs' input; None for all that is known.
        secret: encrypted, as `old_secret` is, which is valid until `old_secret_until`.
        on_time: when its next start would be on time (domain/gcra.py).
        event: one of EVENTS; None for a webhook, which has what comes before.
        allows_self: whether runs of its own pipeline fire it.
        enabled_at: what happened before does not fire it.
        signal: what its deliveries are sent as; None: each starts a run.
    """

    tenant: str
    id: str
    kind: str
    pipeline_id: str
    filter: dict[str, Any]
    input: Any
    is_enabled: bool
    scheme: str | None
    secret: str | None
    old_secret: str | None
    old_secret_until: datetime | None
    headers: tuple[str, ...]
    max_per_minute: int | None
    on_time: datetime | None
    event: str | None = None
    allows_self: bool = False
    enabled_at: datetime | None = None
    signal: TriggerSignal | None = None


def of_row(row: Any) -> StoredTrigger:
    """The trigger of a row with COLUMNS."""
    return StoredTrigger(
        row.tenant_id,
        row.id,
        row.kind,
        row.pipeline_id,
        row.filter,
        row.input,
        row.enabled,
        row.scheme,
        row.secret,
        row.old_secret,
        row.old_secret_until,
        tuple(row.headers),
        row.max_per_minute,
        row.on_time,
        row.event,
        row.allows_self,
        row.enabled_at,
        None if row.signal is None else TriggerSignal.of_json(row.signal),
    )


_FIND = f"SELECT {COLUMNS} FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :id"


def find(tx: Transaction, tenant: str, trigger_id: str) -> StoredTrigger | None:
    """A trigger; None when the tenant has no such trigger."""
    row = tx.execute(_FIND, {"tenant": tenant, "id": trigger_id}).one_or_none()
    return None if row is None else of_row(row)


_LOCK = f"{_FIND} FOR UPDATE"


def lock(tx: Transaction, tenant: str, trigger_id: str) -> StoredTrigger | None:
    """Lock a trigger until the commit; None when the tenant has no such trigger."""
    row = tx.execute(_LOCK, {"tenant": tenant, "id": trigger_id}).one_or_none()
    tx.catch_up()
    return None if row is None else of_row(row)


def not_found(tx: Transaction, tenant: str, trigger_id: str) -> NotFound:
    """The error for a trigger that the tenant does not have."""
    return unknown_names.not_found(tx, tenant, "trigger", trigger_id)
