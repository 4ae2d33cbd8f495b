"""Chooses the runs of a bulk change: slice by slice along an index, so that no statement reads much history.

Runs that began after the bulk change are not meant: a rerun that it begins is never run again by it. Runs are
taken oldest first. Only a cancel takes the newest first: those that have not begun end before the places of
the others are free, and so never begin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.deadletters.filters import OPEN
from pipeweave.orchestrator.domain.run_kinds_sql import TOP, of_both
from pipeweave.orchestrator.domain.states import FINAL_RUN, OPEN_RUN, RunStatus
from pipeweave.orchestrator.kept.run_filter import MATCHES, first_id, match_parameters
from pipeweave.orchestrator.operations.bulk_requests import MOST_RUNS, BulkAction, Selection
from pipeweave.orchestrator.state.pause_sql import is_run_paused
from pipeweave.orchestrator.store.database import Transaction

# Rows that one statement looks at: more for a count, unless it reads the inputs of runs.
SLICE, LONG_SLICE = 500, 5_000
# A count that takes longer (s) leaves the rest uncounted.
MAX_SECONDS = 1.0
MOST_SHOWN = 5

_BEFORE_ALL, _AFTER_ALL = UUID(int=0), UUID(int=(1 << 128) - 1)
_HAS_OPEN_LETTER = (
    f"EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.run_id = r.id AND {OPEN} AND d.id < :bulk)"
)
# The runs that each action would change: their statuses, and SQL of a further condition.
_CONCERNED: Mapping[BulkAction, tuple[frozenset[RunStatus], str]] = {
    BulkAction.CANCEL: (OPEN_RUN, "true"),
    BulkAction.PAUSE: (frozenset({RunStatus.PENDING, RunStatus.RUNNING}), f"NOT {is_run_paused('r.id')}"),
    BulkAction.RESUME: (frozenset({RunStatus.PENDING, RunStatus.PAUSED}), is_run_paused("r.id")),
    BulkAction.RERUN: (FINAL_RUN, "true"),
    BulkAction.RETRY: (
        frozenset({RunStatus.RUNNING, RunStatus.PARTIAL, RunStatus.FAILED}),
        _HAS_OPEN_LETTER,
    ),
}


@dataclass(frozen=True, slots=True)
class MatchingRun:
    """A run that matches."""

    id: UUID
    status: str


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the runs that were looked at.

    Args:
        runs: those that match.
        last: the last that was looked at; None if there was none.
        is_last: nothing comes behind it.
    """

    runs: list[MatchingRun]
    last: UUID | None
    is_last: bool


@dataclass(slots=True)
class CountedRuns:
    """How many runs match.

    Args:
        sample: the first of them.
        is_complete: whether these are all.
    """

    matched: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    sample: list[UUID] = field(default_factory=list)
    is_complete: bool = True


def count(
    tx: Transaction,
    tenant: str,
    action: BulkAction,
    selection: Selection,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> CountedRuns:
    """Count the runs that a bulk change would change now: up to MOST_RUNS, and for about MAX_SECONDS."""
    until, counted = clock() + MAX_SECONDS, CountedRuns()
    before, after, is_last = tx.new_id(), None, False
    size = SLICE if selection.filter.looks_through_rows else LONG_SLICE
    while not is_last:
        part = look(tx, tenant, action, selection, before, after, size)
        after, is_last = part.last, part.is_last
        room = MOST_RUNS - counted.matched
        _add(counted, part.runs[:room])
        if len(part.runs) > room or (not is_last and (counted.matched == MOST_RUNS or clock() >= until)):
            counted.is_complete = False
            break
    return counted


def _add(counted: CountedRuns, runs: list[MatchingRun]) -> None:
    counted.matched += len(runs)
    counted.sample += [each.id for each in runs[: MOST_SHOWN - len(counted.sample)]]
    for each in runs:
        counted.by_status[each.status] = counted.by_status.get(each.status, 0) + 1


# The same columns from each index; `matches` tells those that are meant, so that a look with few matches has
# an end, too.
_COLUMNS = """r.id, r.status, (r.status = ANY(CAST(:statuses AS text[]))
        AND (CAST(:pipelines AS text[]) IS NULL OR r.pipeline_id = ANY(CAST(:pipelines AS text[])))
        AND (CAST(:kind AS text) IS NULL OR r.triggered_kind = CAST(:kind AS text))
        AND {condition} AND {matches}) AS matches"""
_WHERE = "r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL AND r.id BETWEEN :first AND :last"
_OF_EACH = """
SELECT c.* FROM unnest(CAST({keys} AS text[])) AS k(key) CROSS JOIN LATERAL ({runs}) AS c
ORDER BY c.id {order} LIMIT :slice
"""
_OF_KEY = """SELECT {columns} FROM runs AS r WHERE {where} AND {column} = k.key AND {{kind}}
    ORDER BY r.id {order} LIMIT :slice"""
_NAMED = """
SELECT {columns} FROM runs AS r WHERE {where} AND r.id = ANY(CAST(:ids AS uuid[]))
ORDER BY r.id {order} LIMIT :slice
"""


def look(
    tx: Transaction,
    tenant: str,
    action: BulkAction,
    selection: Selection,
    bulk: UUID,
    after: UUID | None,
    size: int = SLICE,
) -> Slice:
    """The next runs that match.

    Args:
        bulk: the id of the bulk change, or one of this moment: later runs are not meant.
        after: go on behind this run; None begins.
        size: rows that are looked at.
    """
    chosen, (concerned, condition) = selection.filter, _CONCERNED[action]
    statuses = [each.value for each in sorted(concerned) if not chosen.status or each.value in chosen.status]
    first, last = _bounds(action, selection, bulk, after)
    parameters: dict[str, Any] = {
        **match_parameters(chosen),
        "tenant": tenant,
        "statuses": statuses,
        "pipelines": list(chosen.pipeline_id) or None,
        "kind": chosen.triggered_kind,
        "bulk": bulk,
        "ids": None if selection.ids is None else list(selection.ids),
        "first": first,
        "last": last,
        "slice": size,
    }
    rows = tx.execute(_statement(action, selection, condition), parameters).all()
    runs = [MatchingRun(row.id, row.status) for row in rows if row.matches]
    return Slice(runs, rows[-1].id if rows else None, len(rows) < size)


def _statement(action: BulkAction, selection: Selection, condition: str) -> str:
    parts = {
        "columns": _COLUMNS.format(condition=condition, matches=MATCHES),
        "where": _WHERE,
        "order": "DESC" if action is BulkAction.CANCEL else "ASC",
    }
    if selection.ids is not None:
        return _NAMED.format(**parts)
    # Few runs are open, and of those that ended the index of their pipeline has fewer than that of a status.
    is_of_ended = action in (BulkAction.RERUN, BulkAction.RETRY)
    keys, column = ":statuses", "r.status"
    if selection.filter.pipeline_id and is_of_ended:
        keys, column = ":pipelines", "r.pipeline_id"
    of_key = _OF_KEY.format(column=column, **parts)
    # As in the list of runs. But the dead letters of a run are in the runs inside of it, too.
    runs = of_both(of_key) if action is BulkAction.RETRY else of_key.replace("{kind}", TOP)
    return _OF_EACH.format(keys=keys, runs=runs, order=parts["order"])


def _bounds(action: BulkAction, selection: Selection, bulk: UUID, after: UUID | None) -> tuple[UUID, UUID]:
    """The lowest and the highest id to look at."""
    chosen = selection.filter
    first, last = _BEFORE_ALL, UUID(int=bulk.int - 1)
    if chosen.sought_id is not None:
        lowest, highest = ids.span(ids.RUN, chosen.sought_id)
        first, last = max(first, lowest), min(last, highest)
    if chosen.created_after is not None:
        first = max(first, first_id(chosen.created_after))
    if chosen.created_before is not None:
        last = min(last, UUID(int=max(0, first_id(chosen.created_before).int - 1)))
    if after is not None and action is BulkAction.CANCEL:
        last = min(last, UUID(int=max(0, after.int - 1)))
    elif after is not None:
        first = max(first, UUID(int=min(after.int + 1, _AFTER_ALL.int)))
    return first, last
