"""Decides which runs of a pipeline may be under way, where it limits them for each key.

A run has its key and its limit in its row, as the version of its pipeline had them. What is under way is
counted from rows, never kept in a counter that could leak: a run holds its key from its start to its end,
also while it is paused or waits for something outside. Without room it is `pending`, and the runs of one key
start in the order of their ids. Who starts runs with keys has locked the tenant's row (run_slots.py): of two
such transactions the second sees the runs of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        SELECT q.id, q.concurrency_limit, row_number() OVER (ORDER BY q.id) AS place FROM (
            SELECT r.id, r.concurrency_limit FROM runs AS r
            WHERE {_of_key("a")} AND {WAITS} AND {where} ORDER BY r.id LIMIT {most}) AS q) AS p
    WHERE p.place <= p.concurrency_limit - (SELECT count(*) FROM runs AS r
        WHERE {_of_key("a")} AND r.status <> 'pending')
    {"" if is_one_key else without_key}) AS f ORDER BY f.id LIMIT {most})"""


# --- new runs ---------------------------------------------------------------------------------------------

# Counting ends at the limit: more is not asked.
_USE = f"""
SELECT a.concurrency_key AS key,
    (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE {_of_key("a")}
        AND (r.status <> 'pending' OR {WAITS}) LIMIT :limit) AS o) AS taken,
    (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE {_of_key("a")} LIMIT :limit) AS o) AS open,
    (SELECT r.id FROM runs AS r WHERE {_of_key("a")} ORDER BY r.id DESC LIMIT 1) AS newest
FROM (SELECT CAST(:tenant AS text) AS tenant_id, CAST(:pipeline AS text) AS pipeline_id, k.key
    FROM unnest(CAST(:keys AS text[])) AS k(key)) AS a(tenant_id, pipeline_id, concurrency_key)
"""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The runs of a key.

    Args:
        taken: that are under way or wait for their turn; counting ends at the limit.
        open: the same, and those that are paused before their start.
        newest: the open run that began last; None without one.
    """

    taken: int = 0
    open: int = 0
    newest: UUID | None = None


def use_of(tx: Transaction, tenant: str, pipeline_id: str, keys: Iterable[RunKey]) -> Mapping[str, KeyUse]:
    """The runs of these keys. The tenant's row is locked."""
    named = {each.text: each.limit for each in keys}
    parameters = {
        "tenant": tenant,
        "pipeline": pipeline_id,
        "keys": sorted(named),
        "limit": max(named.values()),
    }
    rows: Iterable[Any] = tx.execute(_USE, parameters)
    return {row.key: KeyUse(row.taken, row.open, row.newest) for row in rows}


def starting(keys: Sequence[RunKey | None], use: Mapping[str, KeyUse]) -> list[bool]:
    """Which of these new runs have room for their keys (pure).

    Args:
        keys: of the runs, in their order.
        use: what is under way of each key.
    """
    taken = Counter({key: each.taken for key, each in use.items()})
    starts = [True] * len(keys)
    replaces = any(each is not None and each.replaces for each in keys)
    # Of runs that replace each other, the last ones stay.
    for place in reversed(range(len(keys))) if replaces else range(len(keys)):
        key = keys[place]
        if key is not None:
            starts[place] = taken[key.text] < key.limit
            taken[key.text] += 1
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
SELECT a.pipeline_id, a.concurrency_key AS key, a.concurrency_limit AS most,
    (SELECT count(*) FROM runs AS r WHERE {_of_key("a")} AND r.status <> 'pending') AS active,
    (SELECT count(*) FROM runs AS r WHERE {_of_key("a")} AND {WAITS}) AS waiting,
    (SELECT count(*) FROM runs AS r WHERE {_of_key("a")} AND {WAITS} AND r.id <= a.id) AS position,
    ARRAY(SELECT r.id FROM runs AS r WHERE {_of_key("a")} AND r.status <> 'pending'
        ORDER BY r.id LIMIT {MOST_SHOWN}) AS runs
FROM runs AS a WHERE a.id = :id AND a.concurrency_key IS NOT NULL
"""


def place_of(tx: Transaction, run_id: UUID) -> Any:
    """The place of a pending run in the line of its key: `pipeline_id`, `key`, `most` that may be under way,
    `active` that are, of which `runs` are the oldest, `waiting` and its `position`; None without a key.
    """
    return tx.execute(_PLACE, {"id": run_id}).one_or_none()
