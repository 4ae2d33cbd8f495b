"""Answers with the timeline of a run: for each step what it did when, and for a map how many items ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.run_times import TimelineAnswer, TimelineStep
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.orchestrator.timeline import reading
from pipeweave.orchestrator.timeline.critical_path import critical_path
from pipeweave.orchestrator.timeline.dividing import laid_over, spans
from pipeweave.orchestrator.timeline.lanes import lanes
from pipeweave.orchestrator.timeline.ledger_document import ms
from pipeweave.orchestrator.timeline.reading import RunRow
from pipeweave.orchestrator.timeline.spans import PhaseKind, RunTimes, TaskRunTimes, TimeSpan
from pipeweave.spec import WITH_ITEMS

# Bars of one step; further ones, of a step that is tried again and again, are left out.
MOST_BARS = 200
# Waiting for predecessors, and the time after a bad end, are drawn as nothing.
_BLANK = frozenset({PhaseKind.PREDECESSORS, PhaseKind.ENDED})


def timeline(tx: Transaction, tenant: str, id: UUID, page: PageRequest, *, bins: int) -> Document:
    """The timeline of a run, open or final, with its steps in the order of the pipeline.

    Args:
        tx: a transaction of `Database.reading`; it becomes one snapshot.
        page: of the steps.
        bins: numbers of each lane of a map.

    Raises:
        NotFound: the tenant has no such run, or its month was dropped.
    """
    run = reading.run_row(tx, tenant, id)
    times = reading.step_times(tx, run)
    after = page.after("timeline", int)
    rows = [each for each in times.steps.values() if after is None or each.ordinal > after[0]]
    rows = rows[: page.limit + 1]
    # Of all steps, the rows say which are on the critical path; events are read of those that are shown.
    times = reading.with_events(tx, run, times, rows[: page.limit])
    maps = [each for each in rows[: page.limit] if each.kind in WITH_ITEMS]
    map_lanes = lanes(tx, run, maps, bins, times.end)
    path = {each.ordinal for each in critical_path(times)}
    levels = run.plan.levels

    def show(row: TaskRunTimes) -> Document:
        return _step(
            run, times, row, is_critical=row.ordinal in path, level=levels[row.ordinal], lanes=map_lanes
        )

    shown = page.cut(rows, "timeline", lambda each: (each.ordinal,), show)
    return TimelineAnswer.of(
        run,
        run_id=run.id,
        is_open=times.is_open,
        started_ms=None if times.started is None else ms(times.started),
        total_ms=ms(times.end),
        steps=shown["items"],
        next_cursor=shown["nextCursor"],
    )


def _step(
    run: RunRow,
    times: RunTimes,
    row: TaskRunTimes,
    *,
    is_critical: bool,
    level: int,
    lanes: Mapping[int, Document],
) -> Document:
    all_spans = laid_over(
        spans(row, times.changes.get(row.ordinal, ()), times.end), times.overs, PhaseKind.ENDED
    )
    shown = [each for each in all_spans if each.kind not in _BLANK]
    return TimelineStep.of(
        row,
        task_run_id=ids.task_run_id(run.id, row.ordinal),
        map_count=row.items,
        level=level,
        is_critical=is_critical,
        bars=[_bar(each) for each in shown[-MOST_BARS:]],
        lane=lanes.get(row.ordinal),
    )


def _bar(span: TimeSpan) -> dict[str, Any]:
    """A `TimelineBar`, written out because a page has up to 200,000 of them."""
    return {
        "kind": span.kind.value,
        "fromMs": ms(span.begin),
        "toMs": ms(span.end),
        "attempt": span.attempt,
        "errorCode": span.error_code,
    }
