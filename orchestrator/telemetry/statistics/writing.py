"""Adds tallies to the rows of statistics. The caller holds the lock of the place, so nobody else writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.telemetry.statistics.histogram import added_sql
from pipeweave.orchestrator.telemetry.statistics.tallies import (
    RUN_COUNTS,
    TASK_COUNTS,
    Key,
    Tallies,
    Tally,
    bounded,
)

_KEY = ("tenant_id", "scope", "id", "grain", "at")
_DURATIONS = (
    *("took", "took_sum", "took_min", "took_max"),
    *("wait", "wait_sum", "wait_min", "wait_max"),
)
_TYPES = {
    **dict.fromkeys(("tenant_id", "scope", "id", "grain"), "text"),
    "at": "timestamptz",
    **dict.fromkeys(("took", "wait", "codes", "steps"), "jsonb"),
    **dict.fromkeys(_DURATIONS[1:4] + _DURATIONS[5:], "double precision"),
}


def _added(column: str) -> str:
    """SQL: the sum of a column's value, in row `s`, and of that of the row that would be inserted."""
    one, other = f"s.{column}", f"excluded.{column}"
    if _TYPES.get(column) == "jsonb":
        return f"{column} = {added_sql(one, other)}"
    if column.endswith("_min"):
        return f"{column} = least({one}, {other})"
    if column.endswith("_max"):
        return f"{column} = greatest({one}, {other})"
    return f"{column} = {one} + {other}"


def _upsert(table: str, counts: Sequence[str]) -> str:
    values = (*counts, *_DURATIONS)
    columns = ", ".join((*_KEY, *values))
    types = ", ".join(f"{name} {_TYPES.get(name, 'bigint')}" for name in (*_KEY, *values))
    return f"""
INSERT INTO {table} AS s ({columns})
SELECT {columns} FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS n({types})
ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET {", ".join(map(_added, values))}
"""


_ADD_RUNS = _upsert("run_stats", (*RUN_COUNTS, "steps"))
_ADD_TASKS = _upsert("task_stats", (*TASK_COUNTS, "codes"))

_CODES = """
SELECT s.tenant_id, s.scope, s.id, ARRAY(SELECT jsonb_object_keys(s.codes)) AS codes
FROM unnest(CAST(:tenants AS text[]), CAST(:scopes AS text[]), CAST(:ids AS text[]))
    AS w(tenant_id, scope, id)
JOIN task_stats AS s ON s.tenant_id = w.tenant_id AND s.scope = w.scope AND s.id = w.id AND s.grain = 'ever'
"""


def add_runs(tx: Transaction, tallies: Tallies) -> None:
    """Add tallies of runs."""
    if tallies:
        tx.execute(_ADD_RUNS, {"rows": _rows(tallies, RUN_COUNTS, "steps")})


def add_tasks(tx: Transaction, tallies: Tallies) -> None:
    """Add tallies of attempts. Of more error codes than a row may have, the further ones become one."""
    if not tallies:
        return
    _bound_codes(tx, tallies)
    tx.execute(_ADD_TASKS, {"rows": _rows(tallies, TASK_COUNTS, "codes")})


def _bound_codes(tx: Transaction, tallies: Tallies) -> None:
    """All rows of a task have the codes that its row of all time has."""
    concerned = sorted({(each.tenant, each.scope, each.id) for each, tally in tallies.items() if tally.codes})
    if not concerned:
        return
    tenants, scopes, ids = (list(each) for each in zip(*concerned, strict=True))
    rows = tx.execute(_CODES, {"tenants": tenants, "scopes": scopes, "ids": ids})
    known = {(row.tenant_id, row.scope, row.id): row.codes for row in rows}
    for key, tally in tallies.items():
        tally.codes = bounded(tally.codes, known.get((key.tenant, key.scope, key.id), ()))


def _rows(tallies: Tallies, counts: Sequence[str], objects: str) -> str:
    # In the order of their keys, in which rows are locked.
    rows = [_row(key, tallies[key], counts, objects) for key in sorted(tallies)]
    return orjson.dumps(rows).decode()


def _row(key: Key, tally: Tally, counts: Sequence[str], objects: str) -> Mapping[str, Any]:
    row = {"tenant_id": key.tenant, "scope": key.scope, "id": key.id, "grain": key.grain.value, "at": key.at}
    numbers = {name: tally.counts.get(name, 0) for name in counts}
    by_name = tally.codes if objects == "codes" else tally.steps
    return {**row, **numbers, objects: by_name, **tally.took.to_row("took"), **tally.wait.to_row("wait")}
