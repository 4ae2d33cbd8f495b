"""Wide runs: what it takes to look at them is bounded in statements and bytes."""

from __future__ import annotations

from typing import Any

import orjson
from support.factories import register
from support.sent_statements import sent_statements

from benchmarks import wide_runs
from benchmarks.wide_runs import TENANT
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import Page
from pipeweave.orchestrator.timeline import items, ledger, timeline

ITEMS, STEPS = 10_000, 1_000


def test_wide_runs_take_few_statements_and_few_bytes(fresh_database: Database) -> None:
    database = fresh_database
    with database.transaction() as tx:
        register(tx, TENANT, "noop")
    chain = wide_runs.insert(database, STEPS, is_map=False)
    wide = wide_runs.insert(database, ITEMS, is_map=True)
    page = Page(1_000)

    with database.reading() as tx:
        matrix = items(tx, TENANT, wide, "m", page, view="matrix", bins=1)
    # 100,000 items in 110 KB.
    assert len(orjson.dumps(matrix)) <= 1.1 * ITEMS
    assert matrix["matrix"]["counts"] == {"completed": ITEMS}

    with sent_statements() as sent, database.reading() as tx:
        of_items = ledger(tx, TENANT, wide)
    assert len(sent) <= 9
    assert sum(each["ms"] for each in of_items["sums"]) > 3_500_000
    assert of_items["steps"][0]["mapIndex"] is not None

    with sent_statements() as sent, database.reading() as tx:
        of_steps: dict[str, Any] = ledger(tx, TENANT, chain)
        shown = timeline(tx, TENANT, chain, page, bins=120)
    assert len(sent) <= 15
    assert (of_steps["pathLength"], len(of_steps["steps"]), len(shown["items"])) == (STEPS, 100, STEPS)
    assert len(orjson.dumps(of_steps)) <= 60_000
    assert all(each["isCritical"] for each in shown["items"])
    again = [each for each in shown["items"] if each["attempt"] == 2]
    assert len(again) == STEPS / 100
    assert {bar["kind"] for bar in again[0]["bars"]} >= {"failedWork", "queue", "work"}

    with database.reading() as tx:
        [lane] = [each["lane"] for each in timeline(tx, TENANT, wide, page, bins=60)["items"]]
    assert len(lane["running"]) == 60
    assert sum(lane["failed"]) == ITEMS / 100
