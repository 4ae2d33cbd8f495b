"""Holds the SQL fragments that the statements about idempotency keys share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pipeweave.orchestrator.domain.facts import Name

# A FROM item: the keys that a statement names.
NAMES = "unnest(CAST(:tasks AS text[]), CAST(:keys AS text[])) AS n(task, key)"
# The tenant of the rows `c` of keys. Twice, so that the whole primary key is the cheapest way to them: see
# state/named_rows.py.
OF_TENANT = "c.tenant_id IN (:tenant, :tenant)"
# The rows `c` that NAMES names.
IS_NAMED = f"{OF_TENANT} AND c.task_id = n.task AND c.key = n.key AND (n.key = n.key) IS TRUE"

# The task run `h` in the row `c` of a key. Its run is its id without the last 24 bits (pipeweave/ids.py).
HOLDER = """LEFT JOIN LATERAL (
    SELECT h.status, h.finished_at, h.due_at, h.error_code FROM task_runs AS h
    WHERE h.run_id = CAST(left(CAST(c.task_run_id AS text), 30) || '000000' AS uuid) AND h.id = c.task_run_id
    LIMIT 1) AS h ON true"""


# A holder that waits for its predecessors (again, after its dead letter was retried) executes nothing, and
# one that waits for the run that takes care of its error executes nothing any more.
IS_OPEN = """(h.status IS NOT NULL AND h.finished_at IS NULL
    AND NOT (h.status = 'pending' AND h.due_at IS NULL)
    AND NOT (h.status = 'waiting' AND h.error_code IS NOT NULL))"""


def name_parameters(tenant: str, names: Collection[Name]) -> dict[str, Any]:
    """The parameters of NAMES and IS_NAMED; the two lists go in step."""
    return {"tenant": tenant, "tasks": [task for task, _ in names], "keys": [key for _, key in names]}
