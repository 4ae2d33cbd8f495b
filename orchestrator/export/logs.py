"""Reads what attempts logged, line by line, from their objects in storage. Nothing is read while a connection
is held, and of each log only as much at once as one answer of the API holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.export import records, rows
from pipeweave.orchestrator.export.position import END, Position
from pipeweave.orchestrator.kept import stored_logs
from pipeweave.orchestrator.kept.stored_logs import LogPlace
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.storage import Backends

# Task runs that are read at once, and bytes of lines after which they are handed out.
TASK_RUNS, BYTES = 200, 1_000_000

Lines = list[Document]


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the logs of attempts are."""

    backends: Backends
    secret_key: str | None


@dataclass(slots=True)
class _Gathered:
    lines: Lines
    size: int = 0

    def take(self) -> Lines:
        lines, self.lines, self.size = self.lines, [], 0
        return lines


def lines(
    database: Database, stores: Stores, group: Sequence[Any], position: Position
) -> Iterator[tuple[Lines, Position]]:
    """The lines of the logs of these runs behind a position, with the position after them.

    A position with an attempt is inside of the log of its task run.
    """
    of = records.by_id(list(group))
    while True:
        is_inside = position.attempt > 0 and position.key not in (0, END)
        start = Position(position.run, position.key - 1) if is_inside else position
        with database.reading() as tx:
            page = rows.task_runs(tx, group, start, TASK_RUNS)
            ended = rows.attempts(tx, page)
        gathered = _Gathered([])
        for row in page:
            inside, position = position, Position(row.run_id, ids.ordinal_of(row.id))
            if not is_inside or (inside.run, inside.key) != (position.run, position.key):
                inside = position
            is_inside = False
            run = of[row.run_id]
            for number, place in _places(stores, run, row, ended.get(row.id, [])):
                if number < inside.attempt:
                    continue
                begin = inside.offset if number == inside.attempt else 0
                for new, after in _of_attempt(stores, place, begin):
                    gathered.lines += [records.of_log_line(run, row, number, each) for each in new]
                    gathered.size += after - begin
                    begin = after
                    if gathered.size >= BYTES:
                        yield gathered.take(), Position(position.run, position.key, number, after)
        if page:
            yield gathered.take(), position
        if len(page) < TASK_RUNS:
            return


def _places(stores: Stores, run: Any, row: Any, ended: list[Any]) -> Iterator[tuple[int, LogPlace]]:
    """The attempts of a task run, with the places of their logs."""
    owner = run.tenant_id, run.pipeline_id
    for attempt, number, _ in records.attempts_of(row, ended):
        references = stored_logs.references_of(
            attempt.logs_path, row.id, number, owner, stores.backends, stores.secret_key
        )
        yield number, LogPlace(row.id, number, references, is_over=True)


def _of_attempt(stores: Stores, place: LogPlace, offset: int) -> Iterator[tuple[Lines, int]]:
    """The lines of a log from a byte on, with the byte after them."""
    while True:
        page = stored_logs.read_log(stores.backends, place, offset=offset, tail=None)
        after: int = page["nextOffset"]
        if after > offset:
            yield page["logs"], after
        if after <= offset or page["isComplete"]:
            return
        offset = after
