"""Turns a month of history into lines of JSON, in constant memory.

A line holds a run with its task runs, attempts, events and signals, in the shapes of the API. A run with many
rows continues in further lines, so that the length of a line is bounded:

    {"runId": …, "line": 1, "isLast": true, "run": {…}, "taskRuns": […], "attempts": […], "events": […],
     "signals": […]}

`run` is set in a run's first line, and null in its further lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from pipeweave.orchestrator.domain.json_shapes import iso, reference, run_id, task_run_id
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.reading.run_events import event_row
from pipeweave.orchestrator.reading.runs import edits_row, run_row
from pipeweave.orchestrator.reading.signals import signal_row
from pipeweave.orchestrator.reading.task_runs import attempt_row, task_run_row
from pipeweave.orchestrator.retention.default_partition import key_column
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document

# Rows per FETCH; and the most that a line holds, in rows and in bytes.
FETCHED = 500
MOST_IN_LINE = 1_000
LINE_BYTES = 4 * 1024 * 1024
# Runs read in one transaction. One snapshot for the whole month would keep VACUUM from removing the dead rows
# of today's runs.
RUNS_AT_ONCE = 1_000

_LONGEST_WAIT = "SET LOCAL idle_in_transaction_session_timeout = '10min'"


@dataclass(frozen=True, slots=True)
class Line:
    """One line with its newline, its run, and the number of rows of each table that it holds."""

    content: bytes
    counts: dict[str, int]
    run_id: UUID


def lines(database: Database, month: Month) -> Iterator[Line]:
    """The lines of every run of a month in the order of ids, from attached or detached partitions."""
    low, end = month.first_id, month.next.first_id
    while low < end:
        with database.transaction() as tx:
            tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # The transaction is idle while the caller writes a part to storage.
            tx.execute(_LONGEST_WAIT)
            high = _batch_end(tx, month, low) or end
            yield from _lines_between(tx, month, low, high)
        low = high


_BATCH_END = "SELECT id FROM {table} WHERE id >= :low ORDER BY id OFFSET :runs LIMIT 1"


def _batch_end(tx: Transaction, month: Month, low: UUID) -> UUID | None:
    statement = _BATCH_END.format(table=month.table("runs"))
    end: UUID | None = tx.execute(statement, {"low": low, "runs": RUNS_AT_ONCE}).scalar_one_or_none()
    return end


def _lines_between(tx: Transaction, month: Month, low: UUID, high: UUID) -> Iterator[Line]:
    streams = [_RowStream(tx, kind, month, low, high) for kind in HISTORY_TABLES]
    while heads := [each.head_id for each in streams if each.head_id is not None]:
        yield from _lines_of(min(heads), streams)


# --- rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """A history table: its name in JSON, its SQL name, the order of its rows, and their JSON shape."""

    name: str
    table: str
    order: str
    shape: Callable[[Any], Document]


def _run(row: Any) -> Document:
    return {
        **run_row(row),
        "input": row.input,
        "inputRef": reference(row.input_path, row.input_size, row.inputs_hash),
        "inputsHash": row.inputs_hash,
        "edits": edits_row(row),
        "runToken": row.run_token,
    }


def _task_run(row: Any) -> Document:
    return {
        **task_run_row(row),
        "item": row.item,
        "output": row.output,
        "outputRef": reference(row.output_path, row.output_size, row.output_hash),
        "outputHash": row.output_hash,
        "selectedNext": row.selected_next,
        "codeHash": row.code_hash,
        "idempotencyKey": row.idempotency_key,
        "cachedFrom": row.cached_from and task_run_id(row.cached_from),
        "heartbeatAt": iso(row.heartbeat_at),
    }


def _attempt(row: Any) -> Document:
    return {"taskRunId": task_run_id(row.task_run_id), **attempt_row(row, row.number, row.status)}


def _signal(row: Any) -> Document:
    return {**signal_row(row), "payloadRef": reference(row.payload_path, row.size, None)}


HISTORY_TABLES = (
    HistoryTable("runs", "runs", "id", _run),
    HistoryTable("taskRuns", "task_runs", "run_id, id", _task_run),
    HistoryTable("attempts", "attempts", "run_id, task_run_id, number", _attempt),
    HistoryTable("events", "events", "run_id, seq", event_row),
    HistoryTable("signals", "signals", "run_id, id", _signal),
)

_DECLARE = """
DECLARE archived_{table} NO SCROLL CURSOR FOR
SELECT t.* FROM {partition} AS t WHERE t.{key} >= :low AND t.{key} < :high ORDER BY {order}
"""


class _RowStream:
    """The rows of one table between two run ids, FETCHED at a time."""

    def __init__(self, tx: Transaction, kind: HistoryTable, month: Month, low: UUID, high: UUID) -> None:
        self.kind = kind
        self.key = key_column(kind.table)
        names = {"table": kind.table, "partition": month.table(kind.table), "key": self.key}
        tx.execute(_DECLARE.format(**names, order=kind.order), {"low": low, "high": high})
        self._rows = self._fetched(tx)
        self._head: Any = next(self._rows, None)

    def _fetched(self, tx: Transaction) -> Iterator[Any]:
        while rows := tx.execute(f"FETCH {FETCHED} FROM archived_{self.kind.table}").all():
            yield from rows

    @property
    def head_id(self) -> UUID | None:
        """The run id of the next row; None at the end."""
        return None if self._head is None else getattr(self._head, self.key)

    def of(self, run_id: UUID) -> Iterator[bytes]:
        """The remaining rows of this run as JSON."""
        while self.head_id == run_id:
            row, self._head = self._head, next(self._rows, None)
            yield orjson.dumps(self.kind.shape(row))


# --- lines ------------------------------------------------------------------------------------------------


def _lines_of(run: UUID, streams: list[_RowStream]) -> Iterator[Line]:
    runs, *details = streams
    head = list(runs.of(run))
    line = _LineWriter(run, 1, head)
    for stream in details:
        for each in stream.of(run):
            if line.is_full:
                yield line.finish(is_last=False)
                line = _LineWriter(run, line.number + 1, [])
            line.add(stream.kind.name, each)
    yield line.finish(is_last=True)


class _LineWriter:
    """A line that is being written; rows may still be added."""

    def __init__(self, run: UUID, number: int, head: list[bytes]) -> None:
        self.run = run
        self.number = number
        self.head = head
        self._kept: defaultdict[str, list[bytes]] = defaultdict(list)
        self._count = self._size = 0

    @property
    def is_full(self) -> bool:
        return self._count >= MOST_IN_LINE or self._size >= LINE_BYTES

    def add(self, name: str, document: bytes) -> None:
        self._kept[name].append(document)
        self._count += 1
        self._size += len(document)

    def finish(self, *, is_last: bool) -> Line:
        members = {"runId": run_id(self.run), "line": self.number, "isLast": is_last}
        lists = b"".join(
            b',"%s":[%s]' % (kind.name.encode(), b",".join(self._kept[kind.name]))
            for kind in HISTORY_TABLES[1:]
        )
        run = self.head[0] if self.head else b"null"
        content = orjson.dumps(members)[:-1] + b',"run":' + run + lists + b"}\n"
        counts = {kind.name: len(self._kept[kind.name]) for kind in HISTORY_TABLES[1:]}
        return Line(content, {"runs": len(self.head), **counts}, self.run)
