"""Tells how many fires led to a run, so that runs that begin each other end."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from pipeweave.orchestrator.store.database import Transaction

# Runs that began each other one after the other.
MAX_DEPTH = 10
# Why what follows is skipped.
LOOP = "LOOP"

_DEPTHS = """
SELECT f.started_run_id, max(f.depth) AS depth FROM (
    SELECT e.started_run_id, e.depth FROM event_fires AS e
    WHERE e.started_run_id = ANY(CAST(:ids AS uuid[]))
    UNION ALL
    SELECT h.started_run_id, h.depth FROM hook_fires AS h
    WHERE h.started_run_id = ANY(CAST(:ids AS uuid[]))
) AS f GROUP BY f.started_run_id
"""


def depths(tx: Transaction, run_ids: Collection[UUID]) -> dict[UUID, int]:
    """How many fires led to each of these runs; those that none led to are left out."""
    rows = tx.execute(_DEPTHS, {"ids": list(run_ids)}) if run_ids else ()
    return {each.started_run_id: each.depth for each in rows}
