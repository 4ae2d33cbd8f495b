"""Endpoints of exports: runs, task runs, attempts, events and logs as lines of JSON."""

from __future__ import annotations

from pipeweave.api.contract.exports import ExportQuery
from pipeweave.api.http import Call, Lines, Routes
from pipeweave.errors import NotFound, TooManyRequests, Unavailable
from pipeweave.orchestrator.export import Export, Position, Stores

routes = Routes("exports")


def _lines(call: Call, kind: str, query: ExportQuery) -> Lines:
    deployment = call.deployment
    stores = Stores(deployment.values.backends, deployment.settings.secret_key)
    export = Export(deployment.database, stores, call.tenant, kind, query.chosen())
    position = Position() if query.after is None else export.position(query.after)
    return Lines(export.parts(position))


@routes.add(
    "GET",
    "/api/export/runs",
    "Export runs",
    query=ExportQuery,
    gives_lines=True,
    errors=(NotFound, TooManyRequests, Unavailable),
)
def export_runs(call: Call, query: ExportQuery) -> Lines:
    """The chosen runs as records, one a line, the oldest first, with their inputs. The filters are those of
    the list of runs.

    After each page of lines comes a line `{"cursor": …, "rows": …}`. The last one has `isComplete`: if that
    is false, or if the answer broke off, ask again with the last cursor as `after`, and drop what came behind
    it. With `Accept-Encoding: gzip` the answer is compressed.
    """
    return _lines(call, "runs", query)


@routes.add(
    "GET",
    "/api/export/task-runs",
    "Export task runs",
    query=ExportQuery,
    gives_lines=True,
    errors=(NotFound, TooManyRequests, Unavailable),
)
def export_task_runs(call: Call, query: ExportQuery) -> Lines:
    """The task runs of the chosen runs, steps and items of maps, as `GET /api/export/runs` does with runs."""
    return _lines(call, "task-runs", query)


@routes.add(
    "GET",
    "/api/export/attempts",
    "Export attempts",
    query=ExportQuery,
    gives_lines=True,
    errors=(NotFound, TooManyRequests, Unavailable),
)
def export_attempts(call: Call, query: ExportQuery) -> Lines:
    """All attempts that began of the chosen runs, as `GET /api/export/runs` does with runs."""
    return _lines(call, "attempts", query)


@routes.add(
    "GET",
    "/api/export/events",
    "Export events",
    query=ExportQuery,
    gives_lines=True,
    errors=(NotFound, TooManyRequests, Unavailable),
)
def export_events(call: Call, query: ExportQuery) -> Lines:
    """The events of the chosen runs, as `GET /api/export/runs` does with runs. An export does not come
    back to a run that it has passed.
    """
    return _lines(call, "events", query)


@routes.add(
    "GET",
    "/api/export/logs",
    "Export logs",
    query=ExportQuery,
    gives_lines=True,
    errors=(NotFound, TooManyRequests, Unavailable),
)
def export_logs(call: Call, query: ExportQuery) -> Lines:
    """What the task runs of the chosen runs logged and printed, attempt by attempt, as `GET /api/export/runs`
    does with runs.
    """
    return _lines(call, "logs", query)
