"""Finds things of a tenant by the beginning of an id, or by a part of a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.search import SearchHit
from pipeweave.orchestrator.kept.run_filter import contains
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

MOST_HITS = 20
# Of one kind of name, so that many tasks do not hide the pipelines.
_MOST_NAMES = 6
# What is shorter is rather a word: nearly all ids of one time begin alike.
_LEAST_ID = 6
_TAIL = re.compile(rf"[0-7][0-9a-hjkmnp-tv-z]{{{_LEAST_ID - 1},25}}\Z")

# --- ids --------------------------------------------------------------------------------------------------

_RUNS = """
SELECT r.id, r.pipeline_id AS name, r.status FROM runs AS r
WHERE r.tenant_id = :tenant AND r.id BETWEEN :first AND :last AND r.pipeline_id IS NOT NULL
ORDER BY r.id DESC LIMIT :limit
"""
_TASK_RUNS = """
SELECT t.id, t.step_id AS name, t.status FROM (
    SELECT r.id FROM runs AS r WHERE r.id BETWEEN :first_run AND :last_run AND r.tenant_id = :tenant
    ORDER BY r.id DESC LIMIT :limit) AS r
CROSS JOIN LATERAL (
    SELECT t.id, t.run_id, t.step_id, t.status FROM task_runs AS t
    WHERE t.run_id = r.id AND t.id BETWEEN :first AND :last ORDER BY t.run_id, t.id LIMIT :limit) AS t
ORDER BY t.run_id DESC, t.id LIMIT :limit
"""
_LETTERS = """
SELECT d.id, d.task_id AS name,
       CASE WHEN d.retried_at IS NOT NULL THEN 'retried' WHEN d.discarded_at IS NOT NULL THEN 'discarded'
            ELSE 'open' END AS status
FROM dead_letters AS d WHERE d.tenant_id = :tenant AND d.id BETWEEN :first AND :last
ORDER BY d.id DESC LIMIT :limit
"""
_REDRIVES = """
SELECT d.id, d.created_by AS name, d.status FROM redrives AS d
WHERE d.tenant_id = :tenant AND d.id BETWEEN :first AND :last ORDER BY d.id DESC LIMIT :limit
"""
_BY_ID = {
    "run": (ids.RUN, _RUNS),
    "taskRun": (ids.TASK_RUN, _TASK_RUNS),
    "deadLetter": (ids.DEAD_LETTER, _LETTERS),
    "redrive": (ids.REDRIVE, _REDRIVES),
}

# --- names ------------------------------------------------------------------------------------------------

# These tables have as many rows as somebody has written: they are read whole. A name that begins like the
# text comes before one that contains it.
_MATCHES = "p.tenant_id = :tenant AND p.id ILIKE :like"
_ORDER = "ORDER BY NOT p.id ILIKE :beginning, length(p.id), p.id LIMIT :limit"
_PIPELINES = f"SELECT p.id, p.description AS name FROM pipelines AS p WHERE {_MATCHES} {_ORDER}"
_TASKS = f"SELECT p.id, p.description AS name FROM tasks AS p WHERE {_MATCHES} {_ORDER}"
_SCHEDULES = f"SELECT p.id, p.pipeline_id AS name FROM schedules AS p WHERE {_MATCHES} {_ORDER}"
_TRIGGERS = f"SELECT p.id, p.pipeline_id AS name FROM triggers AS p WHERE {_MATCHES} {_ORDER}"
_SERVICES = f"SELECT p.id, p.version AS name FROM services AS p WHERE {_MATCHES} {_ORDER}"
_BY_NAME = {
    "pipeline": _PIPELINES,
    "task": _TASKS,
    "schedule": _SCHEDULES,
    "trigger": _TRIGGERS,
    "service": _SERVICES,
}


def search(tx: Transaction, tenant: str, text: str) -> list[Document]:
    """What the text may mean: at most MOST_HITS things.

    An id is found by its beginning, with or without its prefix; a name by any part of it.
    """
    text = text.strip()
    hits = [*_ids(tx, tenant, text), *_names(tx, tenant, text)]
    return hits[:MOST_HITS]


def _ids(tx: Transaction, tenant: str, text: str) -> Iterator[Document]:
    head, _, tail = text.lower().rpartition("_")
    if not _TAIL.match(tail):
        return
    for kind, (prefix, statement) in _BY_ID.items():
        if head in ("", prefix):
            first, last = ids.span(prefix, tail)
            yield from _hits(tx, kind, prefix, statement, tenant, first, last)


def _hits(
    tx: Transaction, kind: str, prefix: str, statement: str, tenant: str, first: UUID, last: UUID
) -> Iterator[Document]:
    parameters = {
        "tenant": tenant,
        "first": first,
        "last": last,
        "first_run": ids.run_id_of(first),
        "last_run": ids.run_id_of(last),
        "limit": _MOST_NAMES,
    }
    for row in tx.execute(statement, parameters):
        yield SearchHit.of(row, kind=kind, id=ids.show(prefix, row.id))


def _names(tx: Transaction, tenant: str, text: str) -> Iterator[Document]:
    like = contains(text)
    parameters = {"tenant": tenant, "like": like, "beginning": like[1:], "limit": _MOST_NAMES}
    for kind, statement in _BY_NAME.items():
        for row in tx.execute(statement, parameters):
            yield SearchHit.of(row, kind=kind, status=None)
