"""Define enqueue_async and enqueue_many_async, for connections of asyncio."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from pipeweave.enqueueing import callers, checked, requests
from pipeweave.enqueueing.callers import ConnectionKind
from pipeweave.enqueueing.requests import RunOptions
from pipeweave.enqueueing.synchronous import rows_as_tuples, shown_ids, sqlalchemy_text, statements


async def enqueue_async(
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
    """As `enqueue`, over an AsyncConnection or AsyncCursor of psycopg 3, or an AsyncConnection or
    AsyncSession of SQLAlchemy.

    Raises:
        InvalidInput, SchemaOutdated, Forbidden, Exception: as `enqueue`.
    """
    options = RunOptions(tenant, failure_mode, priority, metadata, traceparent, schema)
    document = requests.document_of_one(pipeline_id, input, run_token, options)
    return (await _send(connection, document, schema))[0]


async def enqueue_many_async(
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
    """As `enqueue_many`, over a connection that `enqueue_async` takes.

    Raises:
        InvalidInput, SchemaOutdated, Forbidden, Exception: as `enqueue`.
    """
    options = RunOptions(tenant, failure_mode, priority, metadata, traceparent, schema)
    document = requests.document_of_many(pipeline_id, inputs, run_tokens, options)
    return [] if document is None else await _send(connection, document, schema)


async def _send(source: Any, document: str, schema: str) -> list[str]:
    connection = await _connection(source)
    kind = callers.kind(connection)
    if kind not in callers.ASYNCHRONOUS:
        raise callers.refused("is not asynchronous: use enqueue or enqueue_many")
    texts = statements()
    known = checked.schemas(connection, kind)
    if schema not in known:
        checked.check(await _ask(connection, kind, texts.CHECK, schema), schema)
        known.add(schema)
    return shown_ids(await _ask(connection, kind, texts.enqueue(schema), document))


async def _connection(source: Any) -> Any:
    while (holding := callers.holder_of(source)) is not None:
        held, is_method = holding
        source = held() if is_method else held
        if inspect.isawaitable(source):
            source = await source
    return source


async def _ask(connection: Any, kind: ConnectionKind, statement: str, parameter: str) -> Any:
    if kind is ConnectionKind.SQLALCHEMY_ASYNC:
        answer = await connection.execute(sqlalchemy_text(statement), {"parameter": parameter})
        return answer.fetchall()
    made = callers.module("psycopg").AsyncCursor(connection, row_factory=rows_as_tuples)
    async with made as cursor:
        await cursor.execute(statement.replace("{}", "%s"), (parameter,))
        return await cursor.fetchall()
