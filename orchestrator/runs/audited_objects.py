"""Declares what the audit tells of runs and task runs."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave import ids
from pipeweave.orchestrator.security.object_state import Audited

_RUN = """
SELECT jsonb_build_object('status', r.status, 'errorCode', r.error_code, 'finishedAt', r.finished_at) AS state
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant
"""
_TASK_RUN = """
SELECT jsonb_build_object('status', r.status, 'attempt', r.attempt) AS state
FROM task_runs AS r WHERE r.run_id = :run_id AND r.id = :id AND r.tenant_id = :tenant
"""

AUDITED: Mapping[str, Audited] = {
    "run": Audited(by_id=_RUN, prefix=ids.RUN),
    "task run": Audited(by_id=_TASK_RUN, prefix=ids.TASK_RUN),
    "runs": Audited(),
}
