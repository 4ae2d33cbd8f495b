"""Notes which attempts have an object among their assets: equal files of many attempts are one object.

A claim is written after the object and before the row of the task run names it, so that whoever looks for
what keeps the object finds the claim wherever a row has the file. It counts as long as its attempt is the
present one, or its result is reused (docs/decisions/0101-files-by-their-content.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction

_ADD = """
INSERT INTO asset_claims (path, run_id, task_run_id, attempt, tenant_id)
SELECT p.path, :run_id, :task_run_id, :attempt, :tenant FROM unnest(CAST(:paths AS text[])) AS p(path)
ON CONFLICT DO NOTHING
"""


def add(tx: Transaction, tenant: str, task_run: TaskRun, references: Iterable[str]) -> None:
    """Note the objects of an attempt. Once more changes nothing.

    Args:
        tx: may be of `Database.statements`.
        references: of objects that are in storage.
    """
    parameters = {
        "run_id": task_run.run_id,
        "task_run_id": task_run.id,
        "attempt": task_run.attempt,
        "tenant": tenant,
        "paths": sorted(set(references)),
    }
    tx.execute(_ADD, parameters)
