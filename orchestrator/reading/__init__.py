"""Read models: camelCase documents of one tenant; lists are {items, nextCursor}.

Called by `api`; retention uses the same shapes for archives. This room must never write to PostgreSQL."""

from pipeweave.orchestrator.reading.checkpoints import checkpoint, checkpoints
from pipeweave.orchestrator.reading.count_of_runs import run_counts
from pipeweave.orchestrator.reading.deploys import deploys
from pipeweave.orchestrator.reading.expression_scope import expression_scope
from pipeweave.orchestrator.reading.list_of_enqueued_runs import enqueued_list
from pipeweave.orchestrator.reading.list_of_runs import run_list
from pipeweave.orchestrator.reading.list_of_task_runs import TaskRunFilter, task_run_list
from pipeweave.orchestrator.reading.log_search import find_in_log
from pipeweave.orchestrator.reading.queue import queue_items, queue_status
from pipeweave.orchestrator.reading.queue_detail import queue_detail
from pipeweave.orchestrator.reading.queues import queues, task_limits
from pipeweave.orchestrator.reading.registry import (
    input_errors,
    input_schema,
    pipeline,
    pipeline_list,
    task,
    task_history,
    tasks,
)
from pipeweave.orchestrator.reading.run_attempts import run_attempts
from pipeweave.orchestrator.reading.run_comparison import compare_runs
from pipeweave.orchestrator.reading.run_events import run_events
from pipeweave.orchestrator.reading.run_forecast import run_forecast
from pipeweave.orchestrator.reading.run_grid import MOST_RUNS, MOST_STEPS, Window, grid
from pipeweave.orchestrator.reading.run_logs import RunLogFilter, chosen_logs, read_run_logs
from pipeweave.orchestrator.reading.runs import edits_shown, require_run, root_of, run, run_task_runs
from pipeweave.orchestrator.reading.schedule_calendar import schedule_calendar
from pipeweave.orchestrator.reading.schedule_list import schedule, schedules
from pipeweave.orchestrator.reading.searching import search
from pipeweave.orchestrator.reading.service_list import service, services
from pipeweave.orchestrator.reading.state_document import run_state
from pipeweave.orchestrator.reading.step_columns import step_states
from pipeweave.orchestrator.reading.step_durations import past_runs
from pipeweave.orchestrator.reading.steps import run_steps
from pipeweave.orchestrator.reading.task_runs import find_task_runs, task_run
from pipeweave.orchestrator.reading.trigger_list import trigger, triggers
from pipeweave.orchestrator.reading.uploads import upload, upload_stats, uploads
from pipeweave.orchestrator.reading.version_list import pipeline_versions
from pipeweave.orchestrator.reading.view_list import views
from pipeweave.orchestrator.reading.worker_list import worker, worker_counts, workers
from pipeweave.orchestrator.reading.worker_uptime import service_uptimes
from pipeweave.orchestrator.store.keyset import Document as Document
from pipeweave.orchestrator.store.keyset import PageRequest as PageRequest

__all__ = [
    "MOST_RUNS",
    "MOST_STEPS",
    "Document",
    "PageRequest",
    "RunLogFilter",
    "TaskRunFilter",
    "Window",
    "checkpoint",
    "checkpoints",
    "chosen_logs",
    "compare_runs",
    "deploys",
    "edits_shown",
    "enqueued_list",
    "expression_scope",
    "find_in_log",
    "find_task_runs",
    "grid",
    "input_errors",
    "input_schema",
    "past_runs",
    "pipeline",
    "pipeline_list",
    "pipeline_versions",
    "queue_detail",
    "queue_items",
    "queue_status",
    "queues",
    "read_run_logs",
    "require_run",
    "root_of",
    "run",
    "run_attempts",
    "run_counts",
    "run_events",
    "run_forecast",
    "run_list",
    "run_state",
    "run_steps",
    "run_task_runs",
    "schedule",
    "schedule_calendar",
    "schedules",
    "search",
    "service",
    "service_uptimes",
    "services",
    "step_states",
    "task",
    "task_history",
    "task_limits",
    "task_run",
    "task_run_list",
    "tasks",
    "trigger",
    "triggers",
    "upload",
    "upload_stats",
    "uploads",
    "views",
    "worker",
    "worker_counts",
    "workers",
]
