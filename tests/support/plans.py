"""The plans of statements, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pipeweave.orchestrator.store.connections import Connections
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document

# Tables with fewer rows than this may be read whole.
SMALL = 1_000


def plans_of(tx: Transaction, read: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[Document]:
    """The plan of every statement that a function sends; they are explained, and executed, once more."""
    told: list[tuple[str, Any]] = []
    execute = tx.execute

    def record(statement: str, parameters: Any = None, **options: Any) -> Any:
        told.append((statement, parameters))
        return execute(statement, parameters, **options)

    with monkeypatch.context() as patched:
        patched.setattr(tx, "execute", record)
        read()
    explained = (
        execute("EXPLAIN (ANALYZE, FORMAT JSON) " + each, given).scalar_one()
        for each, given in told
        if not each.startswith("SET ")
    )
    return [plan[0]["Plan"] for plan in explained]


def parts_of(plan: Document) -> Iterator[Document]:
    """A plan and all plans in it."""
    yield plan
    for each in plan.get("Plans", ()):
        yield from parts_of(each)


def read_whole(tx: Transaction, plans: list[Document]) -> set[str]:
    """The tables with data that a plan reads from end to end."""
    large = set(
        tx.execute("SELECT relname FROM pg_class WHERE reltuples > :small", {"small": SMALL}).scalars()
    )
    scans = {
        part["Relation Name"] for plan in plans for part in parts_of(plan) if part["Node Type"] == "Seq Scan"
    }
    return scans & large


def flush_counters(database: Database) -> None:
    """Have every session of a database say what it has read: left alone, one says it up to 10 s later."""
    pools = [each for each in vars(database).values() if isinstance(each, Connections)]
    with ExitStack() as lent:
        for pool in pools:
            for _ in range(use.idle if (use := pool.use()) else 0):
                # psycopg2 commits by itself here, and PostgreSQL says it with the commit.
                lent.enter_context(pool.lend()).cursor().execute("SELECT pg_stat_force_next_flush()")


def rows_looked_at(plans: list[Document]) -> float:
    """The rows that scans delivered or threw away; those of a subquery are counted where it reads them."""
    return sum(
        part.get("Actual Loops", 1) * (part.get("Actual Rows", 0) + part.get("Rows Removed by Filter", 0))
        for plan in plans
        for part in parts_of(plan)
        if "Scan" in part["Node Type"] and part["Node Type"] != "Subquery Scan"
    )
