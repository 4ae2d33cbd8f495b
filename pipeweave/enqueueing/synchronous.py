"""Define enqueue and enqueue_many: start runs with the commit of the caller's own transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.enqueueing import callers, checked, requests
from pipeweave.enqueueing.callers import ConnectionKind
from pipeweave.enqueueing.requests import RunOptions


def enqueue(
    connection: Any,
    pipeline_id: str,
    input: Any = None,
    *,
    tenant: str = "default",
    failure_mode: str | None = None,
    priority: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    run_token: str | None = None,
    traceparent: str | None = None,
    schema: str = "public",
) -> str:
    """Enqueue a run of a pipeline's newest version in the caller's transaction.

    The run starts when the caller's transaction is committed, and never if it is rolled back. Nothing is
    committed or rolled back here. The caller uses the database that PipeWeave uses; the API is not needed.

    Args:
        connection: a connection or cursor of psycopg2 or psycopg 3, or a Connection or Session of SQLAlchemy.
        pipeline_id: the pipeline. It is looked up when the run starts.
        input: any JSON value, or what a task may return (a model, a date, …); None stands for {}.
        tenant: whose run it is.
        failure_mode: `fail-fast`, `continue` or `partial-merge`; None for the pipeline's failure mode.
        priority: lower runs first; None for the pipeline's priority.
        metadata: stored with the run, for people and filters.
        run_token: if a run was started with the same token and input before, no other one starts.
        traceparent: the trace context of the caller (W3C), for the runs' trace ids.
        schema: of PipeWeave's tables.

    Returns:
        The id of the run.

    Raises:
        InvalidInput: an argument is wrong; no statement was sent.
        SchemaOutdated: the database is not PipeWeave's, or of an older version; nothing was changed.
        Forbidden: the role of the connection may not enqueue runs; nothing was changed.
        Exception: what the driver raises, because a statement failed.
    """
    options = RunOptions(tenant, failure_mode, priority, metadata, traceparent, schema)
    document = requests.document_of_one(pipeline_id, input, run_token, options)
    return _send(connection, document, schema)[0]


def enqueue_many(
    connection: Any,
    pipeline_id: str,
    inputs: Iterable[Any],
    *,
    tenant: str = "default",
    failure_mode: str | None = None,
    priority: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    run_tokens: Iterable[str] | None = None,
    traceparent: str | None = None,
    schema: str = "public",
) -> list[str]:
    """Enqueue up to 10,000 runs of a pipeline with one statement; see `enqueue`.

    Args:
        connection: as of `enqueue`.
        pipeline_id: the pipeline.
        inputs: the input of each run; together up to 50 MB of JSON.
        tenant: whose runs they are.
        failure_mode: of each run.
        priority: of each run.
        metadata: of each run.
        run_tokens: one for each input; None for none.
        traceparent: the trace context of the caller (W3C), for the runs' trace ids.
        schema: of PipeWeave's tables.

    Returns:
        The ids of the runs, in the order of the inputs.

    Raises:
        InvalidInput, SchemaOutdated, Forbidden, Exception: as `enqueue`.
    """
    options = RunOptions(tenant, failure_mode, priority, metadata, traceparent, schema)
    document = requests.document_of_many(pipeline_id, inputs, run_tokens, options)
    return [] if document is None else _send(connection, document, schema)


def _send(source: Any, document: str, schema: str) -> list[str]:
    connection = _connection(source)
    kind = callers.kind(connection)
    if kind in callers.ASYNCHRONOUS:
        raise callers.refused("is asynchronous: use enqueue_async or enqueue_many_async")
    texts = statements()
    known = checked.schemas(connection, kind)
    if schema not in known:
        checked.check(_ask(connection, kind, texts.CHECK, schema), schema)
        known.add(schema)
    return shown_ids(_ask(connection, kind, texts.enqueue(schema), document))


def _connection(source: Any) -> Any:
    while (holding := callers.holder_of(source)) is not None:
        held, is_method = holding
        source = held() if is_method else held
    return source


def _ask(connection: Any, kind: ConnectionKind, statement: str, parameter: str) -> Any:
    if kind is ConnectionKind.SQLALCHEMY:
        return connection.execute(sqlalchemy_text(statement), {"parameter": parameter}).fetchall()
    with _cursor(connection, kind) as cursor:
        cursor.execute(statement.replace("{}", "%s"), (parameter,))
        return cursor.fetchall()


def _cursor(connection: Any, kind: ConnectionKind) -> Any:
    """A plain cursor, whatever the caller's own cursors are."""
    if kind is ConnectionKind.PSYCOPG2:
        return connection.cursor(cursor_factory=callers.module("psycopg2.extensions").cursor)
    return callers.module("psycopg").Cursor(connection, row_factory=rows_as_tuples)


def rows_as_tuples(cursor: Any) -> Any:
    """A row factory of psycopg 3."""
    return tuple


def sqlalchemy_text(statement: str) -> Any:
    """A statement for SQLAlchemy; its parameter is called `parameter`."""
    return callers.module("sqlalchemy").text(statement.replace("{}", ":parameter"))


def statements() -> Any:
    """The module with the statements: only the orchestrator has SQL."""
    from pipeweave.orchestrator.domain import enqueue_sql

    return enqueue_sql


def shown_ids(rows: Any) -> list[str]:
    """The ids of runs as everybody writes them."""
    return [ids.show(ids.RUN, UUID(row[0])) for row in rows]
