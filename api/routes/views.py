"""Endpoints of named views: filters of a screen of the dashboard that a tenant shares."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.views import DeletedView, ViewRequest, ViewsQuery
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.views import NamedView, ViewList
from pipeweave.orchestrator.registry import VIEW_ID, views
from pipeweave.orchestrator.security import WRITE

routes = Routes("views")


@routes.add("GET", "/api/views", "List the views", query=ViewsQuery, answer=ViewList)
def list_views(call: Call, query: ViewsQuery) -> dict[str, Any]:
    """The named views of the tenant, by name: filters of a screen of the dashboard. There are 50 at most."""
    with call.reading() as tx:
        return {"views": reading.views(tx, call.tenant, query.screen)}


@routes.add(
    "POST",
    "/api/views",
    "Save a view",
    scopes=(WRITE,),
    body=ViewRequest,
    answers={
        200: (NamedView, "The view. It took the place of one with the same name."),
        201: (NamedView, "The view."),
    },
    errors=(LimitExceeded,),
    example={"screen": "runs", "name": "Failed today", "query": "status=failed&window=24h"},
)
def save_view(call: Call, body: ViewRequest) -> Answer:
    """Save the filters of a screen under a name, for all who may enter the tenant."""
    id, is_new = call.change(
        lambda tx: views.save(tx, call.tenant, body.screen, body.name, body.query, saved_by=call.token_name)
    )
    shown = ids.show(VIEW_ID, id)
    with call.reading() as tx:
        matches = [each for each in reading.views(tx, call.tenant, body.screen) if each["id"] == shown]
    if not matches:  # somebody has deleted it since
        raise NotFound(f"view {shown!r} not found")
    return Answer(matches[0], 201 if is_new else 200)


@routes.add(
    "DELETE",
    "/api/views/{id}",
    "Delete a view",
    scopes=(WRITE,),
    ids={"id": PathId(VIEW_ID, "The view's id.")},
    answer=DeletedView,
    errors=(NotFound,),
)
def delete_view(call: Call, id: str) -> dict[str, Any]:
    """Delete a view for everybody."""
    call.change(lambda tx: views.delete(tx, call.tenant, id))
    return {"id": id, "deleted": True}
