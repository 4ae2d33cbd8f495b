"""Endpoints of triggers: store, show, pause and delete them, and give a webhook a new secret."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pipeweave.api.contract.triggers import (
    PutTriggerRequest,
    RotateRequest,
    TriggersQuery,
    TriggerVerbRequest,
)
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.triggers import (
    DeletedTrigger,
    TriggerDetail,
    TriggerList,
    TriggerStored,
)
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.security import WRITE
from pipeweave.orchestrator.starts.triggers import storing

routes = Routes("triggers")
TRIGGER = {"id": PathId(None, "The trigger's id.")}

_VERB: dict[str, Any] = {
    "scopes": (WRITE,),
    "ids": TRIGGER,
    "errors": (NotFound,),
    "body": TriggerVerbRequest,
    "is_body_optional": True,
    "example": {},
}


@routes.add("GET", "/api/triggers", "List the triggers", query=TriggersQuery, answer=TriggerList)
def list_triggers(call: Call, query: TriggersQuery) -> dict[str, Any]:
    """Triggers in the order of their ids."""
    with call.reading() as tx:
        page = reading.triggers(tx, call.tenant, query.page(), pipeline_id=query.pipeline_id, kind=query.kind)
        if not page["items"] and query.cursor is None and query.pipeline_id is not None:
            unknown_names.require(tx, call.tenant, "pipeline", query.pipeline_id)
        return query.named("triggers", page)


@routes.add(
    "GET", "/api/triggers/{id}", "Show a trigger", ids=TRIGGER, answer=TriggerDetail, errors=(NotFound,)
)
def get_trigger(call: Call, id: str) -> dict[str, Any]:
    """One trigger with its last ten fires. Its secret is never shown."""
    with call.reading() as tx:
        return reading.trigger(tx, call.tenant, id)


@routes.add(
    "PUT",
    "/api/triggers/{id}",
    "Store a trigger",
    scopes=(WRITE,),
    ids=TRIGGER,
    body=PutTriggerRequest,
    answers={
        200: (TriggerStored, "The trigger was changed."),
        201: (TriggerStored, "The trigger is new."),
    },
    errors=(NotFound, Conflict),
    example={
        "kind": "webhook",
        "pipelineId": "files",
        "filter": {"body.kind": ["created", "moved"]},
        "input": {"folder": "${input.body.folder}"},
    },
)
def put_trigger(call: Call, id: str, body: PutTriggerRequest) -> Answer:
    """Store a trigger, or replace all of it but its secret. A new webhook without a secret gets one, which
    this answer shows once.
    """
    secret_key = call.deployment.settings.secret_key
    done = call.change(lambda tx: storing.put(tx, secret_key, call.tenant, id, body.spec()))
    shown = {
        **get_trigger(call, id),
        "secret": done.new_secret,
        "warnings": [each.to_json() for each in done.warnings],
    }
    return Answer(shown, 201 if done.is_new else 200)


@routes.add(
    "DELETE",
    "/api/triggers/{id}",
    "Delete a trigger",
    scopes=(WRITE,),
    ids=TRIGGER,
    answer=DeletedTrigger,
    errors=(NotFound,),
)
def delete_trigger(call: Call, id: str) -> dict[str, Any]:
    """Delete a trigger and the list of its fires. Runs that it started go on."""
    call.change(lambda tx: storing.delete(tx, call.tenant, id))
    return DeletedTrigger.of(id=id, deleted=True)


@routes.add("POST", "/api/triggers/{id}/pause", "Pause a trigger", answer=TriggerDetail, **_VERB)
def pause(call: Call, id: str, body: TriggerVerbRequest) -> dict[str, Any]:
    """Start nothing until it is resumed; deliveries of a webhook answer 409 meanwhile."""
    return _changed(call, id, storing.pause)


@routes.add("POST", "/api/triggers/{id}/resume", "Resume a trigger", answer=TriggerDetail, **_VERB)
def resume(call: Call, id: str, body: TriggerVerbRequest) -> dict[str, Any]:
    """End a pause. What happened meanwhile is not made up for."""
    return _changed(call, id, storing.resume)


def _changed(call: Call, id: str, verb: Callable[..., None]) -> dict[str, Any]:
    call.change(lambda tx: verb(tx, call.tenant, id))
    return get_trigger(call, id)


@routes.add(
    "POST",
    "/api/triggers/{id}/rotate",
    "Give a webhook a new secret",
    answer=TriggerStored,
    **{**_VERB, "body": RotateRequest, "example": {"overlapSeconds": 3_600}},
)
def rotate(call: Call, id: str, body: RotateRequest) -> dict[str, Any]:
    """Give a webhook a new secret, which this answer shows once unless the request gave it. The secret before
    it stays valid for `overlapSeconds`; an older one does not.
    """
    secret_key = call.deployment.settings.secret_key
    overlap = timedelta(seconds=body.overlap_seconds)
    secret = call.change(lambda tx: storing.rotate(tx, secret_key, call.tenant, id, overlap, body.secret))
    return {**get_trigger(call, id), "secret": None if body.secret is not None else secret}
