"""Stores and reads tenants, services, worker processes, tasks and pipeline versions.

Called by `runs`, workers, the command line and `api`; every later room reads from it. This room must never
change the status of a run or a task run."""

from pipeweave.orchestrator.registry.loaded_tasks import LoadedTask
from pipeweave.orchestrator.registry.registration import (
    MAX_TASKS,
    MAX_VERSION,
    Registration,
    TaskRegistration,
)
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.registry.tenants import ensure_tenant, require_tenant
from pipeweave.orchestrator.registry.views import MOST_VIEWS, VIEW_ID
from pipeweave.orchestrator.registry.worker_processes import BEAT_EVERY, WorkerLoad, WorkerStart, child_of

__all__ = [
    "BEAT_EVERY",
    "MAX_TASKS",
    "MAX_VERSION",
    "MOST_VIEWS",
    "VIEW_ID",
    "LoadedTask",
    "Registration",
    "TaskRegistration",
    "TaskRow",
    "WorkerLoad",
    "WorkerStart",
    "child_of",
    "ensure_tenant",
    "require_tenant",
]
