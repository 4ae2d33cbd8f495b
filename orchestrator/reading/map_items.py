"""Sums up the items of a run's maps: how many have which status, the first that failed, the hash of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.states import FAILED_TASK, sql_in
from pipeweave.orchestrator.store.database import Transaction

# Failed items that are read of a map.
ITEMS_SHOWN = 10
# Characters of the message of an error.
MESSAGE_CHARS = 500

# The columns of a task run's error, without traceback and details.
ERROR = f"""t.error ->> 'type' AS error_type, left(t.error ->> 'message', {MESSAGE_CHARS}) AS error_message,
       t.error ->> 'retryable' AS is_retryable, t.error #> '{{details,timeoutMs}}' AS timeout_ms"""

# The output of a map is the list of its items' outputs, and its hash that of their hashes in their order.
_ITEMS = f"""
SELECT t.map_parent, t.status, count(*) AS number, sum(t.attempt - 1) AS retries,
       count(t.cached_from) AS hits, coalesce(sum(t.output_size), 0) AS size,
       count(*) FILTER (WHERE t.idempotency_key IS NOT NULL AND t.cached_from IS NULL
                        AND t.status = 'completed') AS misses
FROM task_runs AS t WHERE t.run_id = :id AND {kind_sql.IS_ITEM} GROUP BY t.map_parent, t.status
"""
MAP_HASHES = f"""
SELECT t.map_parent, encode(sha256(string_agg(decode(t.output_hash, 'hex'), '' ORDER BY t.id)), 'hex') AS hash
FROM task_runs AS t
WHERE t.run_id = :id AND {kind_sql.IS_ITEM} AND t.status = 'completed' GROUP BY t.map_parent
"""
_FAILED_ITEMS = f"""
SELECT f.* FROM (
    SELECT t.id, t.step_id, t.map_parent, t.map_index, t.status, t.attempt, t.error_code, {ERROR},
           t.finished_at, row_number() OVER (PARTITION BY t.map_parent ORDER BY t.id) AS place
    FROM task_runs AS t
    WHERE t.run_id = :id AND {kind_sql.IS_ITEM} AND t.status IN {sql_in(FAILED_TASK)}) AS f
WHERE f.place <= {ITEMS_SHOWN} ORDER BY f.id LIMIT 1000
"""


@dataclass(frozen=True, slots=True)
class MapItems:
    """What is known of the items of maps, by the ordinal of the map."""

    counts: Mapping[int, Mapping[str, Any]]
    hashes: Mapping[int, str]
    failed: Mapping[int, Sequence[Any]]


NONE = MapItems({}, {}, {})


def read(tx: Transaction, id: UUID) -> MapItems:
    """What is known of the items of a run's maps."""
    counts: dict[int, dict[str, Any]] = defaultdict(
        lambda: {"statuses": {}, "retries": 0, "hits": 0, "misses": 0, "size": 0}
    )
    for row in tx.execute(_ITEMS, {"id": id}):
        tally = counts[row.map_parent]
        tally["statuses"][row.status] = row.number
        for name in ("retries", "hits", "misses", "size"):
            tally[name] += int(getattr(row, name))
    hashes = {row.map_parent: row.hash for row in tx.execute(MAP_HASHES, {"id": id}) if row.hash is not None}
    failed: dict[int, list[Any]] = defaultdict(list)
    for row in tx.execute(_FAILED_ITEMS, {"id": id}):
        failed[row.map_parent].append(row)
    return MapItems(counts, hashes, failed)
