"""Reads what the attempts of a run have logged as one log, by time.

The log of each attempt is an object in storage, and a run may have a hundred thousand of them: so many are
read, and of each so much of its end, that an answer has its price, however large the run is.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.run_logs import RunLogLine
from pipeweave.orchestrator.domain import stored_lines
from pipeweave.orchestrator.domain.kind_sql import IS_CALLED
from pipeweave.orchestrator.kept import LogEndings, stored_logs
from pipeweave.orchestrator.kept.log_endings import LogEnd, lines_of_end
from pipeweave.orchestrator.kept.stored_logs import SETTLED, LogPlace
from pipeweave.orchestrator.reading.log_search import has_text
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest, cursor_of
from pipeweave.size_limits import MAX_LOG_ANSWER_BYTES
from pipeweave.storage import Backends

# Attempts whose logs one answer reads, what it reads of them all (bytes), and the seconds after which it
# begins no further log.
MOST_ATTEMPTS = 50
MOST_BYTES = 10_000_000
MOST_SECONDS = 2.0
NEWEST, OLDEST = "newest", "oldest"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The time (µs), the task run, the attempt, and the byte at which the line begins.
_Place = tuple[int, UUID, int, int]


@dataclass(frozen=True, slots=True)
class RunLogFilter:
    """Which lines are wanted.

    Args:
        order: whether the first page has the NEWEST or the OLDEST lines.
        step_id: only those of this step and its items.
        level: only those as serious as this.
        text: only those that have this text, in whatever case.
    """

    order: str = NEWEST
    step_id: str | None = None
    level: str | None = None
    text: str | None = None

    def fits(self, line: Document) -> bool:
        """Whether a line is wanted."""
        is_serious = self.level is None or stored_lines.is_at_least(line, self.level)
        return is_serious and (self.text is None or has_text(line, self.text.casefold()))


@dataclass(frozen=True, slots=True)
class ChosenLogs:
    """The logs that are read of a run.

    Args:
        logs: the row of each attempt with the place of its log.
        attempts: how many attempts began.
    """

    logs: Sequence[tuple[Any, LogPlace]]
    attempts: int


_CHOSEN = f"""
SELECT x.*, r.pipeline_id, x.number < x.present OR x.finished_at < :settled AS is_over,
    count(*) OVER () AS attempts
FROM (
    SELECT a.task_run_id, a.number, a.status, a.started_at, a.finished_at, a.logs_path, t.attempt AS present,
           t.step_id, t.map_index
    FROM attempts AS a JOIN task_runs AS t ON t.run_id = a.run_id AND t.id = a.task_run_id
    WHERE a.run_id = :run_id AND (CAST(:step_id AS text) IS NULL OR t.step_id = :step_id)
    UNION ALL
    SELECT t.id, t.attempt, CAST(t.status AS text), t.started_at, t.finished_at, t.logs_path, t.attempt,
           t.step_id, t.map_index
    FROM task_runs AS t
    WHERE t.run_id = :run_id AND t.started_at IS NOT NULL AND {IS_CALLED}
      AND (CAST(:step_id AS text) IS NULL OR t.step_id = :step_id)
      AND NOT EXISTS (
          SELECT FROM attempts AS a
          WHERE a.run_id = t.run_id AND a.task_run_id = t.id AND a.number = t.attempt)
) AS x JOIN runs AS r ON r.id = :run_id
ORDER BY x.status IN ('failed', 'timeout', 'lost') DESC, x.started_at DESC NULLS LAST, x.task_run_id, x.number
LIMIT :limit
"""


def chosen_logs(
    tx: Transaction,
    tenant: str,
    id: UUID,
    backends: Backends,
    secret_key: str | None,
    *,
    step_id: str | None = None,
) -> ChosenLogs:
    """The logs of a run that are read: those of the attempts that failed, then of those that began last.

    Raises:
        NotFound: the tenant has no such run.
    """
    require_run(tx, tenant, id)
    parameters = {"run_id": id, "step_id": step_id, "settled": tx.now - SETTLED, "limit": MOST_ATTEMPTS}
    rows = tx.execute(_CHOSEN, parameters).all()
    logs = []
    for row in rows:
        owner = tenant, row.pipeline_id
        places = stored_logs.references_of(
            row.logs_path, row.task_run_id, row.number, owner, backends, secret_key
        )
        logs.append((row, LogPlace(row.task_run_id, row.number, places, bool(row.is_over))))
    return ChosenLogs(logs, rows[0].attempts if rows else 0)


def read_run_logs(
    backends: Backends,
    chosen: ChosenLogs,
    page: PageRequest,
    wanted: RunLogFilter,
    endings: LogEndings,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Document:
    """A page of the lines of these logs by time, in the shape of RunLogs, its lines as `items`. Call it
    without a connection.

    Raises:
        InvalidInput: the cursor was not made by this list. Unavailable: storage cannot be reached.
    """
    name = f"run logs {wanted.order}"
    after = page.after(name, int, UUID, Int32, int)
    ends = list(_ends(backends, chosen, endings, clock))
    lines = (each for row, place, end in ends for each in _lines(row, place, end, wanted))
    is_newest = wanted.order == NEWEST
    rest = (each for each in lines if after is None or (each[0] < after if is_newest else each[0] > after))
    first = heapq.nlargest if is_newest else heapq.nsmallest
    nearest = first(page.limit + 1, rest, key=lambda each: each[0])
    shown, has_more = nearest[: page.limit], len(nearest) > page.limit
    return {
        "items": [_shown(*each) for each in sorted(shown, key=lambda each: each[0])],
        "attempts": chosen.attempts,
        "attemptsRead": len(ends),
        "isCut": any(end.begin > 0 for _, _, end in ends),
        "isComplete": all(place.is_over for _, place, _ in ends),
        "nextCursor": cursor_of(name, *shown[-1][0]) if has_more else None,
    }


def _ends(
    backends: Backends, chosen: ChosenLogs, endings: LogEndings, clock: Callable[[], float]
) -> Iterator[tuple[Any, LogPlace, LogEnd]]:
    """The ends of the logs, as many as can be read in time."""
    until = clock() + MOST_SECONDS
    most = min(MAX_LOG_ANSWER_BYTES, MOST_BYTES // max(1, len(chosen.logs)))
    for row, place in chosen.logs:
        yield row, place, endings.end_of(backends, place, most)
        if clock() > until:
            return


def _lines(
    row: Any, place: LogPlace, end: LogEnd, wanted: RunLogFilter
) -> Iterator[tuple[_Place, Any, Document]]:
    """The lines that are wanted of one log, each with its place among all."""
    moment = row.started_at or _EPOCH
    for at, line in lines_of_end(end, is_over=place.is_over):
        moment = stored_lines.moment_of(line) or moment
        if wanted.fits(line):
            microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
            yield (microseconds, row.task_run_id, row.number, at), row, line


def _shown(place: _Place, row: Any, line: Document) -> Document:
    moment, level = _EPOCH + timedelta(microseconds=place[0]), stored_lines.level_of(line)
    return RunLogLine.of(row, time=moment, attempt=row.number, level=level, line=line)
