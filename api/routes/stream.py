"""Streams of changes: server-sent events and WebSockets."""

from __future__ import annotations

from flask import request

from pipeweave import ids
from pipeweave.api.contract.streams import LiveQuery, SocketQuery, StreamQuery
from pipeweave.api.http import Call, EventSink, Routes, SocketSink, Stream, Watching
from pipeweave.api.http.streaming import EVENT_STREAM
from pipeweave.errors import CursorExpired, FieldError, InvalidInput, NotFound, UpgradeRequired
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.feed import Place, feed
from pipeweave.orchestrator.stream import LiveWanted, WantedChanges, changes

routes = Routes("streams")
LAST_EVENT_ID = "Last-Event-ID"


@routes.add(
    "GET",
    "/api/stream",
    "Stream changes as server-sent events",
    query=StreamQuery,
    answers={200: (None, "Changes as they come, until the client leaves.")},
    streams=EVENT_STREAM,
    errors=(NotFound, CursorExpired),
)
def events(call: Call, query: StreamQuery) -> Stream:
    """Changes of runs and task runs from now on, each exactly once; with `Last-Event-ID`, also those since
    that event. The first event is `ready`; its id is a cursor, too. A comment comes every 15 s. `bye` says
    that the server stops, `error` holds a problem document: connect again with the last id.

    With `run` and `log` among `types`, changes of type `log` tell how many bytes an attempt has logged. They
    have no id, and are neither complete nor repeated: read the log itself.
    """
    return _stream(call, query, EventSink(_watching(call).check, _watching(call).holder))


@routes.add(
    "GET",
    "/api/ws",
    "Stream changes and send requests over a WebSocket",
    query=SocketQuery,
    answers={101: (None, "Messages follow: `ready`, `change`, `answer` and `error`.")},
    streams=EVENT_STREAM,
    errors=(NotFound, CursorExpired, UpgradeRequired),
)
def messages(call: Call, query: SocketQuery) -> Stream:
    """As `/api/stream`, one JSON object per message: `event`, `id` (null for a `log`) and `change`. The close
    has status 1001 when the server stops, 1008 when the client may not watch any more, and 1013 when it was
    too slow.

    A message of the client is a request: `{"id": 1, "operation": "runs.get_run", "params": {"id": "prun_…"}}`
    with the `operationId` of any operation here whose body and answer are JSON, its parameters of path and
    query together as `params`, and `body`. Its `headers` may be `Idempotency-Key`, `X-Reason`,
    `X-Request-Id`, `X-Tenant` and `traceparent`; else it has those of this request. The answer is
    `{"event": "answer", "id": 1, "status": 200, "headers": {…}, "body": …}`. Requests are answered one after
    another, in their order.
    """
    watching = _watching(call)
    sink = SocketSink(watching.check, watching.holder, watching.answer, watching.submit)
    if query.changes:
        return _stream(call, query, sink)
    _refuse_filters(query)
    watching.hub.check_room(sink.holder)
    nothing = WantedChanges(call.tenant, frozenset())
    return Stream(sink, lambda: watching.hub.watch(nothing, sink))


@routes.add(
    "GET",
    "/api/live",
    "Hear when to look again",
    query=LiveQuery,
    answers={200: (None, "Announcements as they come, until the client leaves.")},
    streams=EVENT_STREAM,
    errors=(NotFound,),
)
def live(call: Call, query: LiveQuery) -> Stream:
    """Server-sent events that say what has changed, never how: `{"runs": {id: number}}` and
    `{"views": {address: tag}}`. Numbers and tags change with what they stand for. A run is announced within
    a fraction of a second, a view at most four times a second, and less often the longer it takes to
    compute.
    """
    watching = _watching(call)
    runs = tuple(ids.read(ids.RUN, each) for each in dict.fromkeys(query.run))
    if runs:
        with call.reading() as tx:
            for each in runs:
                reading.require_run(tx, call.tenant, each)
    wanted = LiveWanted(runs, tuple(watching.view(each) for each in dict.fromkeys(query.view)))
    watching.live.check_room(watching.holder)
    sink = EventSink(watching.check, watching.holder)
    return Stream(sink, lambda: watching.live.watch(wanted, sink))


def _refuse_filters(query: SocketQuery) -> None:
    if filters := sorted(query.model_fields_set - {"changes"}):
        errors = [FieldError(each, "chooses among changes", "conflict", "changes=true") for each in filters]
        raise InvalidInput("without changes, nothing chooses among them", errors=errors)


def _stream(call: Call, query: StreamQuery, sink: EventSink | SocketSink) -> Stream:
    hub = _watching(call).hub
    wanted, place = _wanted(call, query)
    hub.check_room(sink.holder)
    return Stream(sink, lambda: hub.watch(wanted, sink, place))


def _watching(call: Call) -> Watching:
    assert call.watching is not None, "the endpoint streams"
    return call.watching


def _wanted(call: Call, query: StreamQuery) -> tuple[WantedChanges, Place | None]:
    """What the caller wants to see, and where it goes on.

    Raises:
        InvalidInput: a type or the cursor is wrong; all of it is told.
        NotFound: the tenant has no such run.
        CursorExpired: the cursor is of no use any more.
    """
    wrong: list[InvalidInput] = []
    types, place = None, None
    words = [] if query.types is None else query.types.split(",")
    try:
        if query.types is not None:
            types = changes.types_of(words, is_of_run=query.run is not None)
    except InvalidInput as error:
        wrong.append(error)
    run_id = None if query.run is None else ids.read(ids.RUN, query.run)
    cursor = query.cursor or request.headers.get(LAST_EVENT_ID)
    with call.reading() as tx:
        if cursor:
            field = "cursor" if query.cursor else LAST_EVENT_ID
            try:
                place = feed.resume(tx, cursor, call.tenant, field=field)
            except InvalidInput as error:
                wrong.append(error)
        if wrong:
            errors = [each for error in wrong for each in error.errors]
            raise InvalidInput("; ".join(error.detail for error in wrong), errors=errors, hint=wrong[0].hint)
        if run_id is not None:
            root = reading.root_of(tx, call.tenant, run_id)
            run_id = root if query.tree else run_id
    as_state = changes.STATE in words
    return WantedChanges(call.tenant, types, query.pipeline, run_id, query.tree, as_state), place
