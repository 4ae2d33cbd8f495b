"""The list of runs: by index where there is one, else by looking through the newest ones for a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.run_kinds_sql import by_kind
from pipeweave.orchestrator.kept.run_filter import MATCHES, RunFilter, indexed, match_parameters
from pipeweave.orchestrator.reading.runs import COLUMNS, FROM, PAUSE, listed_row
from pipeweave.orchestrator.reading.scanning import SLICE, scan
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_NAME = "runs"
_EVERY = RunFilter()


def run_list(tx: Transaction, tenant: str, page: PageRequest, chosen: RunFilter = _EVERY) -> Document:
    """The tenant's runs, newest first, without standalone tasks: {items, nextCursor, scanned, scannedTo}.

    With a filter that no index serves, the newest runs are looked through for 0.3 s and 20,000 runs at most:
    `scanned` says how many were, and `scannedTo` how far back if it stopped there; `nextCursor` then goes on.

    Raises:
        NotFound: no id begins like the one that is asked for.
    """
    if chosen.looks_through_rows:
        return _looked_through(tx, tenant, page, chosen)
    statement, parameters = listed(tenant, chosen, page.after_id(_NAME))
    rows = tx.execute(statement, {**parameters, "limit": page.limit + 1}).all()
    listing = page.cut(rows, _NAME, lambda row: (row.id,), listed_row)
    return {**listing, "scanned": None, "scannedTo": None}


# --- by index ---------------------------------------------------------------------------------------------

# Of several statuses, pipelines or kinds, the newest of each: a statement of its own reads each from its own
# part of an index. One statement for all of them would not know which values it gets, and read all runs.
_OF_ONE = "(SELECT r.* FROM runs AS r WHERE {where} ORDER BY r.id DESC LIMIT :limit)"


def listed(
    tenant: str, chosen: RunFilter, after: UUID | None, columns: str = COLUMNS, join: str = PAUSE
) -> tuple[str, dict[str, Any]]:
    """The statement of a page, and its parameters without the limit.

    Raises:
        NotFound: no id begins like the one that is asked for.
    """
    where, parameters = indexed(chosen, after)
    parameters["tenant"] = tenant
    condition = " AND ".join(where)
    parts = _parts(chosen, parameters)
    if chosen.has_children and chosen.parent is None:
        parts = [each for part in parts or ["true"] for each in by_kind(part)]
    source = "runs"
    if parts:
        ones = (_OF_ONE.format(where=f"{condition} AND {each}") for each in parts)
        source, condition = f"({' UNION ALL '.join(ones)})", "true"
    statement = (
        f"SELECT {columns} FROM {source} AS r {join} WHERE {condition} ORDER BY r.id DESC LIMIT :limit"
    )
    return statement, parameters


def _parts(chosen: RunFilter, parameters: dict[str, Any]) -> list[str]:
    """A condition for each of several pipelines, or statuses; none where there is only one."""
    statuses, pipelines = dict.fromkeys(chosen.status), dict.fromkeys(chosen.pipeline_id)
    if len(pipelines) > 1:
        named = _named("pipeline", pipelines)
        further = " AND r.status = ANY(CAST(:statuses AS text[]))" if len(statuses) > 1 else ""
        parameters |= {**named, "statuses": list(statuses)} if further else named
        return [f"r.pipeline_id = :{each}{further}" for each in named]
    named = _named("status", statuses) if len(statuses) > 1 else {}
    parameters |= named
    return [f"r.status = :{each}" for each in named]


def _named(name: str, values: Iterable[str]) -> dict[str, str]:
    """A parameter for each value: `status_a`, `status_b`, …"""
    return {f"{name}_{letter}": value for letter, value in zip(ascii_lowercase, values, strict=False)}


# --- by looking -------------------------------------------------------------------------------------------

# The bounds choose the partitions.
_MATCHING = f"""
SELECT {COLUMNS} {FROM}
WHERE r.id = ANY(CAST(:ids AS uuid[])) AND r.id >= :oldest AND r.id <= :newest AND r.tenant_id = :tenant
  AND {MATCHES}
ORDER BY r.id DESC LIMIT :limit
"""


def _looked_through(tx: Transaction, tenant: str, page: PageRequest, chosen: RunFilter) -> Document:
    scanned = scan(
        page.after_id(_NAME),
        page.limit + 1,
        lambda behind: _next_ids(tx, tenant, chosen, behind),
        lambda looked_at, most: _matching(tx, tenant, chosen, looked_at, most),
    )
    shown = page.cut(scanned.rows, _NAME, lambda row: (row.id,), listed_row)
    return scanned.answer(shown, _NAME)


def _next_ids(tx: Transaction, tenant: str, chosen: RunFilter, behind: UUID | None) -> Sequence[UUID]:
    statement, parameters = listed(tenant, chosen, behind, "r.id", "")
    return tx.execute(statement, {**parameters, "limit": SLICE}).scalars()


def _matching(
    tx: Transaction, tenant: str, chosen: RunFilter, looked_at: Sequence[UUID], most: int
) -> Sequence[Any]:
    parameters = {
        **match_parameters(chosen),
        "tenant": tenant,
        "ids": list(looked_at),
        "oldest": looked_at[-1],
        "newest": looked_at[0],
        "limit": most,
    }
    return tx.execute(_MATCHING, parameters).all()
