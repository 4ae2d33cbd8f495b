"""Says which endpoints are audited, and makes the note of a request for the audit.

A test holds this table against the route table: an endpoint that writes is in one of the two lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel
from werkzeug.datastructures import Headers

from pipeweave.api.http.auth import Identity
from pipeweave.api.http.endpoint import Answer, Endpoint
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.security import EVERY_TENANT, CallerAccess, audit
from pipeweave.orchestrator.store import Database

REASON = "X-Reason"

# Operation id -> the kind of object that it changes, as the `audited_objects` of its room declares it.
KINDS: Mapping[str, str] = {
    "services.remove_instance": "service",
    "services.change_settings": "service",
    "workers.drain": "worker",
    "workers.resume": "worker",
    "tasks.pause": "task",
    "tasks.resume": "task",
    "tasks.remove": "task",
    "tasks.put_limits": "task",
    "pipelines.put_pipeline": "pipeline",
    "pipelines.promote": "pipeline",
    "pipelines.roll_back": "pipeline",
    "bundles.install": "bundle",
    "bundles.revoke_bundle": "bundle",
    "bundles.add_key": "bundle key",
    "bundles.revoke_key": "bundle key",
    "bundles.put_only_signed": "tenant",
    "queue.pause": "tenant",
    "queue.resume": "tenant",
    "queue.put_limits": "tenant",
    "runs.cancel": "run",
    "runs.pause": "run",
    "runs.resume": "run",
    "runs.cancel_task_run": "task run",
    "waits.approve": "task run",
    "waits.reject": "task run",
    "waits.resolve": "task run",
    "waits.wake": "task run",
    "waits.extend": "task run",
    "reruns.rerun": "run",
    "bulk.start": "runs",
    "bulk.cancel": "bulk change",
    "schedules.put_schedule": "schedule",
    "schedules.delete_schedule": "schedule",
    "schedules.pause": "schedule",
    "schedules.resume": "schedule",
    "schedules.fire": "schedule",
    "triggers.put_trigger": "trigger",
    "triggers.delete_trigger": "trigger",
    "triggers.pause": "trigger",
    "triggers.resume": "trigger",
    "triggers.rotate": "trigger",
    "dead_letters.retry": "dead letter",
    "dead_letters.discard": "dead letter",
    "dead_letters.retry_all": "dead letters",
    "dead_letters.cancel_redrive": "redrive",
    "uploads.delete_upload": "upload",
    "maintenance.request_maintenance": "deployment",
    "maintenance.enter_maintenance": "deployment",
    "maintenance.exit_maintenance": "deployment",
    "deployment.put_limit": "deployment",
    "access.create_token": "token",
    "access.revoke_token": "token",
    "access.make_link": "link",
    "access.end_session": "session",
    "tenants.put_tenant": "tenant",
    "tenants.put_limits": "tenant",
    "tenants.disable": "tenant",
    "tenants.enable": "tenant",
    "tenants.delete": "tenant",
    "views.save_view": "view",
    "views.delete_view": "view",
}

# They change many objects in many transactions: one row, written before the first.
MANY: Mapping[str, str] = {
    "runs.change_runs": "runs",
    "reruns.rerun_all": "runs",
    "schedules.backfill": "schedule",
    "dead_letters.discard_matching": "dead letters",
    "dead_letters.purge": "dead letters",
    "storage.sweep": "objects",
}

# What browsers do, written by the dashboard.
OF_BROWSERS = ("sessions.log_in", "sessions.log_out", "sessions.login_failed")
VERBS = (*KINDS, *MANY, *OF_BROWSERS)

_PROGRAM = "programs do it, and its own row says who: `triggeredBy`"
_SIGNAL = "programs do it, and its own row says who: `sentBy`"
_WORKER = "a worker's report, and its event says what"
_READS = "it changes nothing"

# Operation id -> why it has no row.
NOT_AUDITED: Mapping[str, str] = {
    "pipelines.trigger": _PROGRAM,
    "pipelines.trigger_batch": _PROGRAM,
    "enqueued.debounce": _PROGRAM,
    "waits.send_signal": _SIGNAL,
    "waits.send_signal_by_token": _SIGNAL,
    "queue.queue_task": _PROGRAM,
    "queue.queue_batch": _PROGRAM,
    "uploads.upload": "programs do it, and its own row says who: `uploadedBy`",
    "callbacks.report": "a program does it, and the step's events and output say what",
    "webhooks.deliver": "programs do it, and the list of fires says what",
    "system.run_tick": "a clock does it",
    "services.register": "workers do it at each start; the code history says what",
    "services.register_alias": "workers do it at each start; the code history says what",
    "worker_reports.heartbeat": _WORKER,
    "worker_reports.heartbeat_alias": _WORKER,
    "worker_reports.progress_alias": _WORKER,
    "worker_reports.complete": _WORKER,
    "worker_reports.complete_alias": _WORKER,
    "worker_reports.make_urls": _WORKER,
    "objects.write_object": _WORKER,
    "deployment.run_doctor": _READS,
    "deployment.verify_history": _READS,
    "tasks.validate_input": _READS,
    "pipelines.dry_run": _READS,
    "pipelines.validate": _READS,
    "expressions.evaluate": _READS,
    "run_questions.verify": _READS,
    "schedules.preview": _READS,
}


def note_of(
    endpoint: Endpoint,
    tenant: str,
    identity: Identity | None,
    ids: Mapping[str, str],
    body: Any,
    headers: Headers,
    request_id: str | None,
) -> audit.Note | None:
    """The note of a request; None for one that is not audited.

    The reason is the body's `reason`, or the header X-Reason.
    """
    name = endpoint.operation_id
    kind = KINDS.get(name) or MANY.get(name)
    if kind is None or identity is None:
        return None
    content = (
        body.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(body, BaseModel) else {}
    )
    if content.get("dryRun") is True:
        return None
    reason = content.pop("reason", None) or headers.get(REASON)
    return audit.Note(
        actor_of(identity),
        endpoint.operation_id,
        kind,
        _tenant(endpoint, kind, tenant, identity, ids),
        "/".join(ids.values()) or str(content.get("name", "")),
        content,
        reason,
        request_id,
    )


def _tenant(
    endpoint: Endpoint, kind: str, tenant: str, identity: Identity, ids: Mapping[str, str]
) -> str | None:
    if kind == "tenant" and ids:
        return ids["id"]
    if endpoint.is_for_all:
        return None
    return tenant or only_tenant(identity.access)


def only_tenant(access: CallerAccess) -> str | None:
    """The tenant of a row about a token; None: the whole deployment, for a token of several tenants."""
    return access.tenants[0] if len(access.tenants) == 1 and access.tenants[0] != EVERY_TENANT else None


def actor_of(identity: Identity) -> audit.Actor:
    """Who sends the request, as the audit tells it."""
    access = identity.access
    source: Literal["session", "token"] = "session" if identity.session_id else "token"
    return audit.Actor(source, access.name, access.token_id, identity.session_id)


def handled(database: Database, note: audit.Note | None, handle: Callable[[], Any]) -> Any:
    """Call the handler of an endpoint. The row of a verb that changes many objects is written before the
    first change, and gets the numbers of the answer, or the code of the error.

    Raises:
        PipeWeaveError: as the handler.
    """
    if note is None or note.verb not in MANY:
        return handle()
    audit.begin_many(database, note)
    try:
        result = handle()
    except PipeWeaveError as error:
        audit.end_many(database, note, {"refused": error.code})
        raise
    audit.end_many(database, note, audit.counts_of(result.value if isinstance(result, Answer) else result))
    return result


def written_by_change(note: audit.Note | None) -> audit.Note | None:
    """The note, if `Call.change` writes its row."""
    return note if note is not None and note.verb in KINDS else None
