"""How many runs of the list have each status: counted in the newest ones, so that history costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pipeweave.orchestrator.domain import RunStatus
from pipeweave.orchestrator.domain.run_kinds_sql import TOP
from pipeweave.orchestrator.kept.run_filter import RunFilter, first_id
from pipeweave.orchestrator.reading.list_of_runs import listed
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# The most runs that each of the two looks reads: at the list, and at all runs of a status.
MOST = 1_000

# No index has both pipeline and status. A pipeline with few runs is counted whole in its list, a status that
# few runs have in those of that status. The statuses stand in the text, so that each is planned by itself.
_OF_LIST = """SELECT l.status, CAST(NULL AS bigint) AS looked, count(*) AS found
FROM ({listed}) AS l GROUP BY l.status"""
_OF_STATUS = f"""SELECT '{{status}}', count(*), count(*) FILTER (WHERE r.pipeline_id IS NOT NULL AND {TOP}
    AND (cardinality(CAST(:pipelines AS text[])) = 0 OR r.pipeline_id = ANY(CAST(:pipelines AS text[]))))
FROM (SELECT r.pipeline_id, r.parent_run_id FROM runs AS r
      WHERE r.tenant_id = :tenant AND r.status = '{{status}}'{{times}}
      ORDER BY r.id DESC LIMIT :limit) AS r"""


def run_counts(tx: Transaction, tenant: str, chosen: RunFilter) -> Document:
    """How many of these runs have each status: {counts, atLeast}.

    Args:
        chosen: its pipelines and its times count; a run that belongs to a step of another is not counted.
    """
    statement, parameters = listed(tenant, chosen, None, "r.status", "")
    bounds = {
        " AND r.id >= :oldest": chosen.created_after and first_id(chosen.created_after),
        " AND r.id < :newest": chosen.created_before and first_id(chosen.created_before),
    }
    times = "".join(condition for condition, value in bounds.items() if value is not None)
    parts = [_OF_LIST.format(listed=statement)]
    parts += [_OF_STATUS.format(status=each.value, times=times) for each in RunStatus]
    parameters |= {"pipelines": list(chosen.pipeline_id), "limit": MOST}
    return _summed(tx.execute("\nUNION ALL\n".join(parts), parameters).all())


def _summed(rows: Iterable[Any]) -> Document:
    """What both looks together say: the one that saw all is right, else the one that found more."""
    rows = list(rows)
    in_list: Mapping[str, int] = Counter({each.status: each.found for each in rows if each.looked is None})
    of_status = {each.status: each for each in rows if each.looked is not None}
    is_list_whole = sum(in_list.values()) < MOST
    counts, at_least = {}, []
    for status, row in of_status.items():
        counts[status] = max(in_list[status], row.found)
        if not is_list_whole and row.looked >= MOST:
            at_least.append(status)
    return {"counts": counts, "atLeast": at_least}
