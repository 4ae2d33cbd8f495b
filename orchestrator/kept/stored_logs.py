"""Reads the stored log of an attempt, from a place on: a reader can follow a log that grows.

The log is an object of JSON lines in storage. Its place is in the row of the attempt, or follows from its
ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain.json_shapes import task_run_id
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_LOG_ANSWER_BYTES
from pipeweave.storage import Backends, ObjectInfo, ObjectRef, Storage

# The last lines of an attempt may be stored a moment after its end.
SETTLED = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where the log of an attempt is or will be.

    Args:
        references: the places to look at, in this order.
        is_over: nothing will be added to it.
    """

    task_run_id: UUID
    attempt: int
    references: tuple[ObjectRef, ...]
    is_over: bool


_PLACE = """
SELECT t.attempt AS present,
    coalesce(a.logs_path, CASE WHEN t.attempt = n.number THEN t.logs_path END) AS path,
    CASE WHEN t.attempt > n.number THEN true ELSE t.finished_at < :settled END AS is_over,
    n.number, r.pipeline_id
FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
    CROSS JOIN LATERAL (SELECT coalesce(CAST(:number AS integer), t.attempt) AS number) AS n
    LEFT JOIN attempts AS a ON a.run_id = t.run_id AND a.task_run_id = t.id AND a.number = n.number
WHERE t.run_id = :run_id AND t.id = :id AND t.tenant_id = :tenant
"""


def log_place(
    tx: Transaction, tenant: str, id: UUID, attempt: int | None, backends: Backends, secret_key: str | None
) -> LogPlace:
    """Where the log of an attempt is; of the present attempt by default.

    Raises:
        NotFound: the tenant has no such task run, or the task run has not come to this attempt.
    """
    parameters = {
        "run_id": ids.run_id_of(id),
        "id": id,
        "tenant": tenant,
        "number": attempt,
        "settled": tx.now - SETTLED,
    }
    row = tx.execute(_PLACE, parameters).one_or_none()
    shown = task_run_id(id)
    if row is None:
        raise NotFound(f"task run {shown} not found", taskRunId=shown)
    if row.number > row.present:
        raise NotFound(
            f"task run {shown} has no attempt {row.number}",
            hint=f"it is at attempt {row.present}",
            taskRunId=shown,
        )
    places = references_of(row.path, id, row.number, (tenant, row.pipeline_id), backends, secret_key)
    return LogPlace(id, row.number, places, bool(row.is_over))


def references_of(
    path: str | None,
    id: UUID,
    attempt: int,
    owner: tuple[str, str | None],
    backends: Backends,
    secret_key: str | None,
) -> tuple[ObjectRef, ...]:
    """The places at which the log of an attempt may be.

    Args:
        path: as the row of the attempt says it; None where it follows from the ids.
        owner: the tenant and the pipeline of its run.
    """
    if path is not None:
        return (ObjectRef.parse(path, backends.default_id),)
    backend = backends.choose(*owner)
    return tuple(ObjectRef(backend, each) for each in paths.log_paths(secret_key, id, attempt))


def read_log(backends: Backends, place: LogPlace, *, offset: int | None, tail: int | None) -> Document:
    """The lines of a log from a byte on; of a new log without lines, an empty list. Call it without a
    connection.

    Args:
        offset: `nextOffset` of the answer before; None begins at the log's beginning, or with `tail` near
            its end.
        tail: only so many last lines.

    Raises:
        Unavailable: storage cannot be reached.
    """
    stored_log = find(backends, place)
    size = 0 if stored_log is None else stored_log[1].size
    start = _start(size, offset, tail)
    content = b"" if stored_log is None or start >= size else _read(stored_log[0], stored_log[1].path, start)
    is_cut = offset is None and start > 0
    lines, used = _lines(content, is_cut=is_cut, has_all=place.is_over and start + len(content) >= size)
    return {
        "taskRunId": task_run_id(place.task_run_id),
        "attempt": place.attempt,
        "logs": lines[-tail:] if tail is not None and offset is None else lines,
        "isComplete": place.is_over and start + used >= size,
        "nextOffset": start + used,
        "lineNumbers": None,
    }


@contextmanager
def opened(backends: Backends, place: LogPlace, most: int) -> Iterator[tuple[Iterator[bytes], int]]:
    """The first `most` bytes of a log, piece by piece, and how many are stored. Call it without a connection.

    Raises:
        Unavailable: storage cannot be reached.
    """
    stored_log = find(backends, place)
    if stored_log is None:
        yield iter(()), 0
        return
    storage, info = stored_log
    with storage.open(info.path, length=most) as pieces:
        yield pieces, info.size


def size_of(backends: Backends, place: LogPlace) -> int:
    """How many bytes of a log are stored. Call it without a connection.

    Raises:
        Unavailable: storage cannot be reached.
    """
    stored_log = find(backends, place)
    return 0 if stored_log is None else stored_log[1].size


def find(backends: Backends, place: LogPlace) -> tuple[Storage, ObjectInfo] | None:
    """The stored log, in the first of its places that has one. Call it without a connection.

    Raises:
        Unavailable: storage cannot be reached.
    """
    for each in place.references:
        storage = backends.get(each.backend)
        info = storage.stat(each.path)
        if info is not None:
            return storage, info
    return None


def _start(size: int, offset: int | None, tail: int | None) -> int:
    if offset is not None:
        return offset
    return 0 if tail is None else max(0, size - MAX_LOG_ANSWER_BYTES)


def _read(storage: Storage, path: str, start: int) -> bytes:
    with storage.open(path, start=start, length=MAX_LOG_ANSWER_BYTES) as pieces:
        return b"".join(pieces)


def _lines(content: bytes, *, is_cut: bool, has_all: bool) -> tuple[list[Any], int]:
    """The whole lines of a part of a log, and how many bytes they take.

    The last line of a log may have no line feed. While the log may grow, it is taken for whole if it is an
    object: no beginning of a longer line is one.

    Args:
        is_cut: the part begins inside of a line, which is left out.
        has_all: the part ends with the log, to which nothing will be added.
    """
    end = content.rfind(b"\n") + 1
    if has_all or is_object(content[end:]):
        end = len(content)
    if not end and len(content) >= MAX_LOG_ANSWER_BYTES:
        # One line that is longer than an answer comes in parts.
        end = len(content)
    begin = content.find(b"\n") + 1 if is_cut else 0
    lines = content[min(begin, end) : end].split(b"\n")
    return [parsed_line(each) for each in lines if each.strip()], end


def parsed_line(content: bytes) -> Document:
    """A line of a log as answers show it; one that is no JSON object is {message}."""
    line = _parsed(content)
    return line if isinstance(line, dict) else {"message": content.decode(errors="replace")}


def is_object(content: bytes) -> bool:
    """Whether this is the whole of a line: no beginning of a longer one is an object."""
    return content.startswith(b"{") and isinstance(_parsed(content), dict)


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
