"""Chooses the runs of an export, the oldest first, in the order of their ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.export.position import END, Position, digest
from pipeweave.orchestrator.store.database import Transaction

# Runs that are read at once; with their inputs, which are in their rows, fewer.
RUNS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """Which runs an export is about; all given filters must match.

    Args:
        run: only this run.
        created_after: created at this time or later.
        created_before: created earlier than this time.
        is_standalone: the runs of standalone tasks, instead of those of pipelines.
    """

    run: UUID | None = None
    status: str | None = None
    pipeline_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    triggered_kind: str | None = None
    is_standalone: bool = False

    def digest(self) -> str:
        """A short digest of the filters, for cursors."""
        return digest(asdict(self))


# A tenant's runs by their ids, from the index of each status: the index without statuses has no standalone
# tasks. Filters that are NULL choose all.
_RUNS = """
SELECT r.* FROM unnest(CAST(:statuses AS text[])) AS s(status) CROSS JOIN LATERAL (
    SELECT o.* FROM runs AS o
    WHERE o.tenant_id = :tenant AND o.status = s.status AND o.id BETWEEN :first AND :last
        AND (o.pipeline_id IS NULL) = :is_standalone
        AND (CAST(:pipeline AS text) IS NULL OR o.pipeline_id = :pipeline)
        AND (CAST(:triggered AS text) IS NULL OR o.triggered_kind = :triggered)
    ORDER BY o.id LIMIT :limit) AS r
ORDER BY r.id LIMIT :limit
"""


def runs(tx: Transaction, tenant: str, chosen: ChosenRuns, position: Position) -> Sequence[Any]:
    """The next chosen runs, at most RUNS_AT_ONCE, beginning with that of the position if it is not over."""
    first, last = _bounds(chosen)
    begin = UUID(int=position.run.int + 1) if position.key == END else position.run
    parameters = {
        "tenant": tenant,
        "statuses": list(RunStatus) if chosen.status is None else [chosen.status],
        "first": max(first, begin),
        "last": last,
        "is_standalone": chosen.is_standalone,
        "pipeline": chosen.pipeline_id,
        "triggered": chosen.triggered_kind,
        "limit": RUNS_AT_ONCE,
    }
    return list(tx.execute(_RUNS, parameters))


def _bounds(chosen: ChosenRuns) -> tuple[UUID, UUID]:
    if chosen.run is not None:
        return chosen.run, chosen.run
    first = UUID(int=0) if chosen.created_after is None else _first_at(chosen.created_after)
    if chosen.created_before is None:
        return first, UUID(int=(1 << 128) - 1)
    return first, UUID(int=max(0, _first_at(chosen.created_before).int - 1))


def _first_at(moment: datetime) -> UUID:
    return ids.first_id_at(max(0, int(moment.timestamp() * 1000)))


def groups(found: Sequence[Any], rows: int) -> Iterator[Sequence[Any]]:
    """Runs that have about so many task runs together; a run with more is alone."""
    group: list[Any] = []
    count = 0
    for each in found:
        if group and count + each.task_run_count > rows:
            yield group
            group, count = [], 0
        group.append(each)
        count += each.task_run_count
    if group:
        yield group
