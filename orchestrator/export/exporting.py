"""Hands out an export part by part: lines of JSON, and the cursor after the last of them.

    for part in Export(database, stores, tenant, "events", ChosenRuns(run)).parts(Position()):
        send(part.content)                      # part.cursor: an export that begins there goes on behind them

A caller may stop after any part, and go on later, in another process. Rows are handed out in the order of
their keys, the oldest run first; a part is at most a page of rows, or the logs of a few attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.orchestrator.export import chosen, logs, records, rows
from pipeweave.orchestrator.export.chosen import ChosenRuns
from pipeweave.orchestrator.export.logs import Stores
from pipeweave.orchestrator.export.position import Position
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import Document

KINDS = ("runs", "task-runs", "attempts", "events", "logs")
# Rows of a page. A row may hold values of 100 KB; an event is small.
ROWS, EVENTS = 1_000, 2_000


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A part of an export.

    Args:
        content: its lines.
        rows: how many they are.
        cursor: where an export goes on after them.
        is_last: nothing more was there.
    """

    content: bytes
    rows: int
    cursor: str
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """An export of one tenant.

    Args:
        kind: one of KINDS.
    """

    database: Database
    stores: Stores
    tenant: str
    kind: str
    chosen: ChosenRuns

    def position(self, cursor: str) -> Position:
        """The position that a cursor says.

        Raises:
            InvalidInput: it is not a cursor of this export.
        """
        return Position.read(cursor, self.kind, self.chosen.digest())

    def parts(self, position: Position) -> Iterator[ExportPart]:
        """The parts behind a position; the last one is empty, and so is one for runs that do not match.

        Raises:
            NotFound: no id begins like the one that is asked for.
            Unavailable, Busy: PostgreSQL or storage does not answer. What was handed out stays good.
        """
        while True:
            with self.database.reading() as tx:
                look = chosen.look(tx, self.tenant, self.chosen, position)
            if look.last is None:
                yield ExportPart(b"", 0, self._cursor(position), is_last=True)
                return
            for group in chosen.groups(look.runs, EVENTS if self.kind == "events" else ROWS):
                yield from self._of_group(group, position)
                position = Position(group[-1].id)
            position = Position(look.last)
            if not look.runs:
                yield ExportPart(b"", 0, self._cursor(position))

    def _of_group(self, group: Sequence[Any], position: Position) -> Iterator[ExportPart]:
        match self.kind:
            case "runs":
                yield self._part(map(records.of_run, group), Position(group[-1].id))
            case "events":
                yield from self._events(group, position)
            case "logs":
                for lines, after in logs.lines(self.database, self.stores, group, position):
                    yield self._part(lines, after)
            case _:
                yield from self._task_runs(group, position)

    def _part(self, lines: Any, position: Position) -> ExportPart:
        written = [orjson.dumps(each) for each in lines]
        content = b"\n".join(written) + b"\n" if written else b""
        return ExportPart(content, len(written), self._cursor(position))

    def _cursor(self, position: Position) -> str:
        return position.cursor(self.kind, self.chosen.digest())

    # --- events and task runs -----------------------------------------------------------------------------

    def _events(self, group: Sequence[Any], position: Position) -> Iterator[ExportPart]:
        of = records.by_id(list(group))
        while True:
            with self.database.reading() as tx:
                page = rows.events(tx, group, position, EVENTS)
            if not page:
                return
            position = Position(page[-1].run_id, page[-1].seq)
            yield self._part((records.of_event(of[each.run_id], each) for each in page), position)
            if len(page) < EVENTS:
                return

    def _task_runs(self, group: Sequence[Any], position: Position) -> Iterator[ExportPart]:
        of, hashes = records.by_id(list(group)), rows.Hashes(self.tenant)
        is_first = True
        while True:
            with self.database.reading() as tx:
                if is_first and self.kind == "task-runs":
                    hashes.load(tx, group)
                is_first = False
                page = rows.task_runs(tx, group, position, ROWS)
                ended = rows.attempts(tx, page) if self.kind == "attempts" else {}
            if not page:
                return
            position = Position(page[-1].run_id, ids.ordinal_of(page[-1].id))
            if self.kind == "attempts":
                yield self._part(self._attempts(of, page, ended), position)
            else:
                shown = (
                    records.of_task_run(of[each.run_id], each, hashes.of_input(each), hashes.of_map(each))
                    for each in page
                )
                yield self._part(shown, position)
            if len(page) < ROWS:
                return

    def _attempts(self, of: Any, page: Sequence[Any], ended: Any) -> Iterator[Document]:
        for task_run in page:
            for row, number, status in records.attempts_of(task_run, ended.get(task_run.id, [])):
                yield records.of_attempt(of[task_run.run_id], task_run, row, number, status)
