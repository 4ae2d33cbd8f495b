"""The tables that change each second in an idle deployment give autovacuum nothing to do."""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Transaction

# Changes of one row in a quarter of an hour of ticks or heartbeats.
MANY = 900

_THRESHOLDS = """
SELECT c.relname, coalesce((SELECT min(o.option_value::int) FROM pg_options_to_table(c.reloptions) AS o
    WHERE o.option_name IN ('autovacuum_vacuum_threshold', 'autovacuum_analyze_threshold')), 50) AS changes
FROM pg_class AS c WHERE c.oid = ANY(CAST(:tables AS regclass[]))
"""


def test_no_minute_of_ticks_and_heartbeats_is_work_for_autovacuum(tx: Transaction) -> None:
    tables = ["leases", "orchestrator_state", "workers", "tick_chores"]
    found = tx.execute(_THRESHOLDS, {"tables": tables}).all()
    assert {row.relname for row in found if row.changes > MANY} == set(tables)
