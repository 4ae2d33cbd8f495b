"""Decides which runs of a pipeline may start, where it limits them for each key: at once, and in a time.

A run has its key and its limit in its row, as the version of its pipeline had them. What is under way is
counted from rows, never kept in a counter that could leak: a run holds its key from its start to its end,
also while it is paused or waits for something outside. A rate is kept exactly: what has started in the time
before is counted, too, so that in no time of that length more start. Without room it is `pending`, and the
runs of one key start in the order of their ids. Who starts runs with keys has locked the tenant's row
(run_slots.py): of two such transactions the second sees the runs of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.run_key import RunKey
from pipeweave.orchestrator.state.pause_sql import is_run_paused
from pipeweave.orchestrator.store.database import Transaction

# Runs of a key that are named where a run says why it waits.
MOST_SHOWN = 3

# SQL: that the open run `r` has this key.
_OF_KEY = """r.tenant_id = {tenant} AND r.pipeline_id = {pipeline} AND r.concurrency_key = {key}
        AND r.finished_at IS NULL"""
# SQL: that the run `r` waits for its turn, of its key and of its tenant. A paused one keeps its place by its
# id, but nothing waits for it.
WAITS = f"(r.status = 'pending' AND NOT {is_run_paused('r.id')})"


def _of_key(line: str) -> str:
    return _OF_KEY.format(
        tenant=f"{line}.tenant_id", pipeline=f"{line}.pipeline_id", key=f"{line}.concurrency_key"
    )


# SQL: how many runs with the key of `line` have started in the last `seconds`; counting ends at `most`. The
# clock is that of the statement or an earlier one: too many are counted rather than too few.
_STARTED = """(SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE r.key_rate IS NOT NULL
        AND r.tenant_id = {line}.tenant_id AND r.pipeline_id = {line}.pipeline_id
        AND r.concurrency_key = {line}.concurrency_key
        AND r.started_at > now() - {seconds} * interval '1 second' LIMIT {most}) AS o)"""

_ALL_KEYS = """(SELECT r.tenant_id, r.pipeline_id, r.concurrency_key FROM runs AS r
         WHERE r.tenant_id = {tenant} AND r.status = 'pending' AND r.concurrency_key IS NOT NULL
         ORDER BY r.tenant_id, r.pipeline_id, r.concurrency_key LIMIT 1)
        UNION ALL
        SELECT n.* FROM line AS a CROSS JOIN LATERAL (
            SELECT r.tenant_id, r.pipeline_id, r.concurrency_key FROM runs AS r
            WHERE r.tenant_id = {tenant} AND r.status = 'pending' AND r.concurrency_key IS NOT NULL
              AND (r.pipeline_id, r.concurrency_key) > (a.pipeline_id, a.concurrency_key)
            ORDER BY r.tenant_id, r.pipeline_id, r.concurrency_key LIMIT 1) AS n"""
_ONE_KEY = "SELECT {tenant}, CAST(:pipeline AS text), CAST(:key AS text)"


def front(tenant: str, most: str, *, where: str = "true", is_one_key: bool = False) -> str:
    """SQL: a subquery with the ids of pending runs whose keys have room, in the order of their ids.

    A line of many runs with one key costs a few look-ups, however long it is.

    Args:
        tenant: SQL of its id.
        most: SQL of the number of runs that are asked for.
        where: SQL of a further condition of the run `r`.
        is_one_key: of the key :key of the pipeline :pipeline alone; else of all keys, and those without one.
    """
    keys = (_ONE_KEY if is_one_key else _ALL_KEYS).format(tenant=tenant)
    without_key = f"""UNION ALL
    (SELECT r.id FROM runs AS r WHERE r.tenant_id = {tenant} AND {WAITS} AND r.concurrency_key IS NULL
     AND {where} ORDER BY r.id LIMIT {most})"""
    return f"""(WITH RECURSIVE line(tenant_id, pipeline_id, concurrency_key) AS (
        {keys}
    )
    SELECT f.id FROM (
    SELECT p.id FROM line AS a CROSS JOIN LATERAL (
        SELECT q.*, row_number() OVER (ORDER BY q.id) AS place FROM (
            SELECT r.id, r.concurrency_limit, r.key_rate, r.key_seconds FROM runs AS r
            WHERE {_of_key("a")} AND {WAITS} AND {where} ORDER BY r.id LIMIT {most}) AS q) AS p
    CROSS JOIN LATERAL (SELECT count(*) AS active FROM runs AS r
        WHERE {_of_key("a")} AND r.status <> 'pending') AS u
    WHERE (p.concurrency_limit IS NULL OR p.place <= p.concurrency_limit - u.active)
      AND (p.key_rate IS NULL
        OR p.place <= p.key_rate - {_STARTED.format(line="a", seconds="p.key_seconds", most="p.key_rate")})
    {"" if is_one_key else without_key}) AS f ORDER BY f.id LIMIT {most})"""


# --- new runs ---------------------------------------------------------------------------------------------

# Counting ends at the limit: more is not asked.
_USE = f"""
SELECT a.concurrency_key AS key,
    (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE {_of_key("a")} AND r.status <> 'pending'
        LIMIT :most) AS o) AS active,
    (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE {_of_key("a")} AND {WAITS}
        LIMIT :most) AS o) AS waiting,
    (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE {_of_key("a")} LIMIT :most) AS o) AS open,
    {_STARTED.format(line="a", seconds="CAST(:seconds AS double precision)", most=":most")} AS started,
    (SELECT r.id FROM runs AS r WHERE {_of_key("a")} ORDER BY r.id DESC LIMIT 1) AS newest
FROM (SELECT CAST(:tenant AS text) AS tenant_id, CAST(:pipeline AS text) AS pipeline_id, k.key
    FROM unnest(CAST(:keys AS text[])) AS k(key)) AS a(tenant_id, pipeline_id, concurrency_key)
"""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The runs of a key.

    Args:
        active: that are under way. All counting ends at what is allowed.
        waiting: that wait for their turn.
        open: both, and those that are paused before their start.
        started: that have started in the time of the rate; 0 without a rate.
        newest: the open run that was written last; None without one.
    """

    active: int = 0
    waiting: int = 0
    open: int = 0
    started: int = 0
    newest: UUID | None = None

    def has_room(self, key: RunKey) -> bool:
        """Whether one more run may start, behind those that wait."""
        is_free = key.limit is None or self.active + self.waiting < key.limit
        return is_free and (key.rate is None or self.started + self.waiting < key.rate.limit)


def use_of(tx: Transaction, tenant: str, pipeline_id: str, keys: Sequence[RunKey]) -> Mapping[str, KeyUse]:
    """The runs of these keys, of one version of a pipeline. The tenant's row is locked."""
    rate = keys[0].rate
    parameters = {
        "tenant": tenant,
        "pipeline": pipeline_id,
        "keys": sorted({each.text for each in keys}),
        "most": max(keys[0].limit or 1, 0 if rate is None else rate.limit),
        "seconds": 0 if rate is None else rate.seconds,
    }
    rows: Iterable[Any] = tx.execute(_USE, parameters)
    return {row.key: KeyUse(row.active, row.waiting, row.open, row.started, row.newest) for row in rows}


def starting(keys: Sequence[RunKey | None], use: Mapping[str, KeyUse]) -> list[bool]:
    """Which of these new runs have room for their keys (pure).

    Args:
        keys: of the runs, in their order.
        use: what is under way of each key.
    """
    uses = dict(use)
    starts = [True] * len(keys)
    replaces = any(each is not None and each.replaces for each in keys)
    # Of runs that replace each other, the last ones stay.
    for place in reversed(range(len(keys))) if replaces else range(len(keys)):
        key = keys[place]
        if key is not None:
            before = uses[key.text]
            starts[place] = before.has_room(key)
            # Whether it starts or waits, it comes before the next one.
            uses[key.text] = replace(before, waiting=before.waiting + 1)
    return starts


# --- runs that are replaced -------------------------------------------------------------------------------

# What is in its ending is over already, and ends by itself.
_OLD = f"""
SELECT o.id FROM (
    SELECT r.id, r.status, row_number() OVER w AS place, first_value(r.concurrency_limit) OVER w AS most,
        first_value(r.concurrency_replaces) OVER w AS replaces
    FROM runs AS r WHERE {_OF_KEY.format(tenant=":tenant", pipeline=":pipeline", key=":key")}
    WINDOW w AS (ORDER BY r.id DESC)) AS o
WHERE o.place > o.most AND o.replaces AND o.status <> 'error_handling' ORDER BY o.id LIMIT :batch
"""


def replaced(tx: Transaction, tenant: str, pipeline_id: str, key: str, most: int) -> list[UUID]:
    """The open runs of a key that newer ones replace, the oldest first, at most `most`."""
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "key": key, "batch": most}
    return list(tx.execute(_OLD, parameters).scalars())


# --- why a run waits --------------------------------------------------------------------------------------

_PLACE = f"""
SELECT a.pipeline_id, a.concurrency_key AS key, a.concurrency_limit AS most, a.key_rate, a.key_seconds,
    (SELECT r.started_at FROM runs AS r WHERE r.key_rate IS NOT NULL AND r.tenant_id = a.tenant_id
        AND r.pipeline_id = a.pipeline_id AND r.concurrency_key = a.concurrency_key
        AND r.started_at > now() - a.key_seconds * interval '1 second'
        ORDER BY r.started_at DESC OFFSET greatest(0, a.key_rate - p.position) LIMIT 1) AS started_at,
    (SELECT count(*) FROM runs AS r WHERE {_of_key("a")} AND r.status <> 'pending') AS active,
    (SELECT count(*) FROM runs AS r WHERE {_of_key("a")} AND {WAITS}) AS waiting,
    p.position,
    ARRAY(SELECT r.id FROM runs AS r WHERE {_of_key("a")} AND r.status <> 'pending'
        ORDER BY r.id LIMIT {MOST_SHOWN}) AS runs
FROM runs AS a CROSS JOIN LATERAL (SELECT count(*) AS position FROM runs AS r
    WHERE {_of_key("a")} AND {WAITS} AND r.id <= a.id) AS p
WHERE a.id = :id AND a.concurrency_key IS NOT NULL
"""


def place_of(tx: Transaction, run_id: UUID) -> Any:
    """The place of a pending run in the line of its key: `pipeline_id`, `key`, `most` that may be under way,
    `active` that are, of which `runs` are the oldest, `waiting` and its `position`; `key_rate` that start in
    `key_seconds`, and `started_at`: the start that has to be so long ago before this run may start, None if
    the rate has room. None without a key.
    """
    return tx.execute(_PLACE, {"id": run_id}).one_or_none()
