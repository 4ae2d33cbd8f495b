"""Wide runs: what it takes to look at them is bounded in statements and bytes."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any
from uuid import UUID

import orjson
from support.factories import register
from support.sent_statements import sent_statements

from benchmarks import wide_runs
from benchmarks.wide_runs import TENANT
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.orchestrator.timeline import items, ledger, timeline
from pipeweave.orchestrator.timeline.matrix import LEVELS, level_letters

ITEMS, STEPS = 10_000, 1_000


_TOOK = """
SELECT CAST(extract(epoch FROM finished_at - started_at) * 1000000 AS bigint) FROM task_runs
WHERE run_id = :id AND kind = 'item' ORDER BY id
"""


def levels(database: Database, run_id: UUID) -> str:
    """The level of each item by its definition: how many of the others took less, as a share."""
    with database.reading() as tx:
        took = tx.execute(_TOOK, {"id": run_id}).scalars()
    in_order, letters = sorted(took), level_letters()
    levels = ((LEVELS - 1) * bisect_left(in_order, each) // (len(took) - 1) for each in took)
    return "".join(letters[each] for each in levels)


def test_wide_runs_take_few_statements_and_few_bytes(fresh_database: Database) -> None:
    database = fresh_database
    with database.transaction() as tx:
        register(tx, TENANT, "noop")
    chain = wide_runs.insert(database, STEPS, is_map=False)
    wide = wide_runs.insert(database, ITEMS, is_map=True)
    page = PageRequest(1_000)

    with database.reading() as tx:
        matrix = items(tx, TENANT, wide, "m", page, view="matrix", bins=1)
    # 100,000 items in 110 KB.
    assert len(orjson.dumps(matrix)) <= 1.1 * ITEMS
    assert matrix["matrix"]["counts"] == {"completed": ITEMS}
    assert matrix["matrix"]["durations"] == levels(database, wide)

    with sent_statements() as sent, database.reading() as tx:
        of_items = ledger(tx, TENANT, wide)
    assert len(sent) <= 9
    assert sum(each["ms"] for each in of_items["sums"]) > 3_500_000
    assert of_items["steps"][0]["mapIndex"] is not None

    with sent_statements() as sent, database.reading() as tx:
        of_steps: dict[str, Any] = ledger(tx, TENANT, chain)
        shown = timeline(tx, TENANT, chain, page, bins=120)
    assert len(sent) <= 15
    assert (of_steps["pathLength"], len(of_steps["steps"]), len(shown["steps"])) == (STEPS, 100, STEPS)
    assert len(orjson.dumps(of_steps)) <= 60_000
    assert all(each["isCritical"] for each in shown["steps"])
    again = [each for each in shown["steps"] if each["attempt"] == 2]
    assert len(again) == STEPS / 100
    assert {bar["kind"] for bar in again[0]["bars"]} >= {"failedWork", "queue", "work"}

    with database.reading() as tx:
        [lane] = [each["lane"] for each in timeline(tx, TENANT, wide, page, bins=60)["steps"]]
    assert len(lane["running"]) == 60
    assert sum(lane["failed"]) == ITEMS / 100
