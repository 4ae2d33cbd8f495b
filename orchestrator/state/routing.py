"""Writes which labels those steps require that compute them, and the queues where workers with them read."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave import ids
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.state.releasing import UNDECIDED
from pipeweave.orchestrator.store.database import Transaction, to_json

_REQUIRE = f"""
UPDATE task_runs AS t SET requires = l.requires, queue = l.queue
FROM (SELECT r.id, r.requires, {queue_names.queue_sql("c")} AS queue
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(id uuid, requires jsonb)
        JOIN task_runs AS o ON o.run_id = :run_id AND o.id = r.id AND (r.id = r.id) IS TRUE
        CROSS JOIN LATERAL (SELECT o.queue_name, r.requires) AS c
        JOIN tasks AS k ON k.tenant_id = o.tenant_id AND k.id = o.task_id
        JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id) AS l
WHERE t.run_id = :run_id AND t.id = l.id AND (l.id = l.id) IS TRUE AND {UNDECIDED}
"""


def require(tx: Transaction, run: RunHeader, required: Mapping[int, Labels]) -> None:
    """Let steps require labels, beside those of their tasks, before they are released. A step that another
    transaction has decided stays as it is.

    Args:
        required: of each step, by its ordinal, all that it and its run require.
    """
    if not required:
        return
    rows = [
        {"id": str(ids.task_run_id(run.id, ordinal)), "requires": dict(labels)}
        for ordinal, labels in sorted(required.items())
    ]
    tx.execute(_REQUIRE, {"run_id": run.id, "rows": to_json(rows)})
