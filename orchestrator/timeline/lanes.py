"""Reads how many items of maps ran at a time: a line for each map, with a number for each bin of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.documents.run_times import Lane
from pipeweave.orchestrator.domain.states import FAILED_TASK, sql_in
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.timeline.density import Edges, density
from pipeweave.orchestrator.timeline.reading import RunRow
from pipeweave.orchestrator.timeline.spans import TaskRunTimes

# Items over all maps of one answer; maps beyond it have no lane there.
MOST_ITEMS = 200_000

# An attempt that ended badly is among `attempts`, also the last one. Times before or after the lane, which
# only clocks can cause, count as its first or its last moment.
_LANES = f"""
WITH maps AS (
    SELECT * FROM unnest(CAST(:ordinals AS integer[]), CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[]),
        CAST(:begins AS timestamptz[]), CAST(:widths AS float8[])) AS m(ordinal, first, last, begin, width)
), lived AS (
    SELECT m.ordinal, m.begin, m.width, t.started_at, t.finished_at, false AS is_bad
    FROM maps AS m JOIN task_runs AS t ON t.run_id = :id AND t.id BETWEEN m.first AND m.last
    WHERE t.started_at IS NOT NULL AND t.status NOT IN {sql_in(FAILED_TASK)}
    UNION ALL
    SELECT m.ordinal, m.begin, m.width, a.started_at, a.finished_at, true
    FROM maps AS m JOIN attempts AS a ON a.run_id = :id AND a.task_run_id BETWEEN m.first AND m.last
    WHERE a.started_at IS NOT NULL
), edges AS (
    SELECT l.ordinal, e.sign, l.is_bad,
        least(greatest(extract(epoch FROM e.at - l.begin) / l.width, 0), :bins - 0.000001) AS place
    FROM lived AS l CROSS JOIN LATERAL (VALUES (l.started_at, 1), (l.finished_at, -1)) AS e(at, sign)
    WHERE e.at IS NOT NULL
)
SELECT e.ordinal, CAST(floor(e.place) AS integer) AS bin, sum(e.sign) AS change,
       sum(e.sign * (1 - (e.place - floor(e.place)))) AS busy,
       count(*) FILTER (WHERE e.is_bad AND e.sign = -1) AS failed
FROM edges AS e GROUP BY e.ordinal, floor(e.place)
"""


def lanes(
    tx: Transaction, run: RunRow, maps: Sequence[TaskRunTimes], bins: int, end: int
) -> Mapping[int, Document]:
    """The lane of each of these maps that was laid out, by ordinal.

    Args:
        bins: of each lane, over the life of its map.
        end: when the lanes of open maps end (microseconds since the run's creation).
    """
    chosen = _chosen(maps)
    if not chosen:
        return {}
    lives = {each.ordinal: _life(each, end) for each in chosen}
    parameters: dict[str, Any] = {
        "id": run.id,
        "bins": bins,
        "ordinals": [each.ordinal for each in chosen],
        "firsts": [ids.task_run_id(run.id, each.first_item or 0) for each in chosen],
        "lasts": [ids.task_run_id(run.id, (each.first_item or 0) + (each.items or 0) - 1) for each in chosen],
        "begins": [run.created_at + timedelta(microseconds=lives[each.ordinal][0]) for each in chosen],
        "widths": [(to - begin) / bins / 1_000_000 for begin, to in lives.values()],
    }
    edges_by_ordinal: dict[int, list[Edges]] = {each.ordinal: [] for each in chosen}
    for row in tx.execute(_LANES, parameters):
        edges_by_ordinal[row.ordinal].append(Edges(row.bin, int(row.change), float(row.busy), row.failed))
    return {ordinal: _lane(lives[ordinal], edges, bins) for ordinal, edges in edges_by_ordinal.items()}


def _chosen(maps: Sequence[TaskRunTimes]) -> list[TaskRunTimes]:
    chosen: list[TaskRunTimes] = []
    items = 0
    for each in maps:
        if each.first_item and each.items and each.started is not None:
            items += each.items
            if items > MOST_ITEMS and chosen:
                break
            chosen.append(each)
    return chosen


def _life(times: TaskRunTimes, end: int) -> tuple[int, int]:
    begin = times.started or 0
    finished = end if times.finished is None else times.finished
    return begin, max(finished, begin + 1)


def _lane(life: tuple[int, int], edges: Sequence[Edges], bins: int) -> Document:
    numbers = density(edges, bins)
    return Lane.of(
        from_ms=life[0] / 1000,
        to_ms=life[1] / 1000,
        running=list(numbers.running),
        failed=list(numbers.failed),
    )
