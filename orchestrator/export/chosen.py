"""Chooses the runs of an export, the oldest first, in the order of their ids.

It looks along an index, slice by slice, and reads the rows of those that match: so no statement reads much
history, whatever the filters are.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.run_kinds_sql import of_both
from pipeweave.orchestrator.export.position import END, Position, digest
from pipeweave.orchestrator.kept.run_filter import MATCHES, RunFilter, first_id, match_parameters
from pipeweave.orchestrator.store.database import Transaction

# Runs that are looked at in one slice; as many are read at once, with their inputs, which are in their rows.
RUNS_AT_ONCE = 500
# Slices without a match after which an export says how far it is.
MOST_SLICES = 20

_LAST_ID = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """Which runs an export is about; all that is given must hold.

    Args:
        run: only this run.
        is_standalone: the runs of standalone tasks, instead of those of pipelines.
    """

    run: UUID | None = None
    filter: RunFilter = field(default_factory=RunFilter)
    is_standalone: bool = False

    def digest(self) -> str:
        """A short digest of the filters, for cursors."""
        return digest(asdict(self))


@dataclass(frozen=True, slots=True)
class RunSlice:
    """What a look has found.

    Args:
        runs: the rows of those that match, at most RUNS_AT_ONCE.
        last: the last run that was looked at; None: there is none any more.
    """

    runs: Sequence[Any]
    last: UUID | None


# `matches` tells the runs that are meant, so that a slice with few of them has an end, too.
_COLUMNS = f"""r.id, (r.pipeline_id IS NULL) = :is_standalone
        AND (CAST(:statuses AS text[]) IS NULL OR r.status = ANY(CAST(:statuses AS text[])))
        AND (CAST(:kind AS text) IS NULL OR r.triggered_kind = CAST(:kind AS text))
        AND {MATCHES} AS matches"""
_WHERE = "r.tenant_id = :tenant AND r.id BETWEEN :first AND :last"
# Each kind of run has an index of its own, and so has each pipeline, and each status.
_OF_EITHER = f"""
SELECT {_COLUMNS} FROM runs AS r
WHERE {_WHERE} AND r.pipeline_id IS NOT NULL AND {{kind}} ORDER BY r.id LIMIT :slice
"""
_OF_PIPELINES = f"SELECT * FROM ({of_both(_OF_EITHER)}) AS c ORDER BY c.id LIMIT :slice"
_OF_TASKS = f"""
SELECT {_COLUMNS} FROM runs AS r
WHERE {_WHERE} AND r.pipeline_id IS NULL ORDER BY r.id LIMIT :slice
"""
# A value in the statement tells PostgreSQL how many runs have it: of a rare one, it reads the value's index.
_OF_PIPELINE = of_both(
    f"SELECT {_COLUMNS} FROM runs AS r WHERE {_WHERE} AND r.pipeline_id = :only AND {{kind}}"
    " ORDER BY r.id LIMIT :slice"
)
_OF_STATUS = f"""
(SELECT {_COLUMNS} FROM runs AS r WHERE {_WHERE} AND r.status = :only ORDER BY r.id LIMIT :slice)
"""
# The bounds choose the partitions.
_ROWS = """
SELECT r.* FROM runs AS r
WHERE r.id = ANY(CAST(:ids AS uuid[])) AND r.id BETWEEN :first AND :last ORDER BY r.id
"""


def look(tx: Transaction, tenant: str, chosen: ChosenRuns, position: Position) -> RunSlice:
    """The next chosen runs, beginning with that of the position if it is not over.

    Raises:
        NotFound: no id begins like the one that is asked for.
    """
    first, last = _bounds(chosen)
    begin = _behind(position.run) if position.key == END else position.run
    parameters = {**_parameters(tenant, chosen), "last": last}
    seen: UUID | None = None
    for _ in range(MOST_SLICES):
        rows = _slice(tx, chosen, {**parameters, "first": max(first, begin)})
        if not rows:
            break
        seen = rows[-1].id
        begin = _behind(rows[-1].id)
        matching = [row.id for row in rows if row.matches]
        if matching:
            row_parameters = {"ids": matching, "first": matching[0], "last": matching[-1]}
            return RunSlice(tx.execute(_ROWS, row_parameters).all(), seen)
    return RunSlice((), seen)


def _slice(tx: Transaction, chosen: ChosenRuns, parameters: dict[str, Any]) -> Sequence[Any]:
    """The next ids along the index that fits best, and whether their runs match."""
    if chosen.filter.pipeline_id:
        # A standalone task is of none of them.
        return (
            [] if chosen.is_standalone else _of_each(tx, _OF_PIPELINE, chosen.filter.pipeline_id, parameters)
        )
    if chosen.filter.status:
        return _of_each(tx, _OF_STATUS, chosen.filter.status, parameters)
    if chosen.is_standalone:
        return tx.execute(_OF_TASKS, parameters).all()
    return tx.execute(_OF_PIPELINES, parameters).all()


def _of_each(
    tx: Transaction, statement: str, values: Sequence[str], parameters: dict[str, Any]
) -> Sequence[Any]:
    # A list takes fewer values than there are letters.
    names = (f"only_{letter}" for letter in string.ascii_lowercase)
    keys = dict(zip(names, dict.fromkeys(values), strict=False))
    parts = " UNION ALL ".join(statement.replace(":only", f":{name}") for name in keys)
    return tx.execute(
        f"SELECT * FROM ({parts}) AS c ORDER BY c.id LIMIT :slice", {**parameters, **keys}
    ).all()


def _parameters(tenant: str, chosen: ChosenRuns) -> dict[str, Any]:
    return {
        **match_parameters(chosen.filter),
        "tenant": tenant,
        "is_standalone": chosen.is_standalone,
        "statuses": list(dict.fromkeys(chosen.filter.status)) or None,
        "kind": chosen.filter.triggered_kind,
        "slice": RUNS_AT_ONCE,
    }


def _bounds(chosen: ChosenRuns) -> tuple[UUID, UUID]:
    """The lowest and the highest id that is meant."""
    bounds = [(UUID(int=0), _LAST_ID)]
    if chosen.run is not None:
        bounds.append((chosen.run, chosen.run))
    if chosen.filter.sought_id is not None:
        bounds.append(ids.span(ids.RUN, chosen.filter.sought_id))
    if chosen.filter.created_after is not None:
        bounds.append((first_id(chosen.filter.created_after), _LAST_ID))
    if chosen.filter.created_before is not None:
        before = first_id(chosen.filter.created_before)
        bounds.append((UUID(int=0), UUID(int=max(0, before.int - 1))))
    return max(each for each, _ in bounds), min(each for _, each in bounds)


def _behind(run: UUID) -> UUID:
    return UUID(int=min(run.int + 1, _LAST_ID.int))


def groups(runs: Sequence[Any], rows: int) -> Iterator[Sequence[Any]]:
    """Runs that have about so many task runs together; a run with more is alone."""
    group: list[Any] = []
    count = 0
    for each in runs:
        if group and count + each.task_run_count > rows:
            yield group
            group, count = [], 0
        group.append(each)
        count += each.task_run_count
    if group:
        yield group
