"""Declares what the audit tells of tasks, tenants and the deployment: limits, pauses, maintenance."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.security.object_state import Audited

_TASK = """
SELECT jsonb_build_object('serviceId', t.service_id, 'pausedAt', p.paused_at, 'pauseReason', p.reason,
    'concurrencyOverride', t.concurrency_override, 'rateOverride', t.rate_override) AS state
FROM tasks AS t LEFT JOIN pauses AS p ON p.tenant_id = t.tenant_id AND p.task_id = t.id
WHERE t.tenant_id = :tenant AND t.id = :object
"""
_TENANT = """
SELECT jsonb_build_object('maxActiveRuns', t.max_active_runs, 'runsPerDay', t.runs_per_day,
    'openTaskRuns', t.open_task_runs, 'storedBytes', t.stored_bytes, 'schedules', t.schedules,
    'requestRate', t.request_rate, 'weight', t.weight, 'disabledAt', t.disabled_at,
    'disabledReason', t.disabled_reason, 'takesOnlySigned', t.takes_only_signed,
    'pausedAt', p.paused_at, 'pauseReason', p.reason) AS state
FROM tenants AS t LEFT JOIN pauses AS p ON p.tenant_id = t.id AND p.task_id = ''
WHERE t.id = :tenant
"""
_DEPLOYMENT = """
SELECT jsonb_build_object('mode', s.mode, 'reason', s.reason,
    'maxRunningTaskRuns', s.max_running_task_runs) AS state FROM orchestrator_state AS s
"""

AUDITED: Mapping[str, Audited] = {
    "task": Audited(_TASK),
    "tenant": Audited(_TENANT),
    "deployment": Audited(_DEPLOYMENT),
}
