"""Lists the metrics of a deployment: name, kind, meaning and labels. docs/metrics.md has the same list.

A name from the design documents (`orchestrator_queue_depth`, `orchestrator.step.duration`) is kept as
Prometheus spells it. A family whose first label is `tenant` is shown to the tokens of that tenant; any other
one only to those that may read every tenant.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeweave.orchestrator.telemetry.statistics.sizes import BOUNDS as STEP_BOUNDS

PREFIX = "orchestrator_"
TENANT = "tenant"
OTHER = "other"
"""In place of the names that a label has no room for."""


class MetricKind(StrEnum):
    """What a metric says: how much there is now, how often something happened, how long it took."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Args:
        name: without the suffix `_total` that counters get.
        about: its help text.
        labels: their names, in order.
        of: the label that has no room for all of its values: the others are put together as `other`. None:
            all labels have few values.
        is_greatest: the greatest value is taken where values are put together, not their sum.
        bounds: of a histogram, the upper bounds of its buckets without the last one, which has none.
    """

    name: str
    kind: MetricKind
    about: str
    labels: tuple[str, ...] = ()
    of: str | None = None
    is_greatest: bool = False
    bounds: tuple[float, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name of its samples; of a histogram, what they begin with."""
        return f"{self.name}_total" if self.kind is MetricKind.COUNTER else self.name

    @property
    def is_of_tenants(self) -> bool:
        return self.labels[:1] == (TENANT,)


def _gauge(name: str, about: str, *labels: str, of: str | None = None, is_greatest: bool = False) -> Family:
    return Family(PREFIX + name, MetricKind.GAUGE, about, labels, of, is_greatest)


def _counter(name: str, about: str, *labels: str, of: str | None = None) -> Family:
    return Family(PREFIX + name, MetricKind.COUNTER, about, labels, of)


# The upper edges of buckets of statistics that are bounds here, three a decade: 2, 5, 10 ms and so on, to
# 14 hours. Edge `i` is 10^(i/10) ms (statistics/histogram.py).
DURATION_EDGES = tuple(edge for edge in range(3, 80) if edge % 10 in (0, 3, 7))
DURATION_BOUNDS = tuple(float(f"{10 ** (edge / 10) / 1000:.4g}") for edge in DURATION_EDGES)


def _histogram(name: str, about: str, *labels: str, of: str | None = None) -> Family:
    return Family(PREFIX + name, MetricKind.HISTOGRAM, about, labels, of, bounds=DURATION_BOUNDS)


# --- what has ended ---------------------------------------------------------------------------------------

RUNS = _counter(
    "runs",
    "Runs of pipelines that ended, by their last status.",
    "tenant",
    "pipeline",
    "status",
    of="pipeline",
)
RUNS_CREATED = _counter(
    "created_runs", "Runs of pipelines that were created.", "tenant", "pipeline", of="pipeline"
)
RUN_DURATION = _histogram(
    "run_duration_seconds", "How long runs of pipelines took.", "tenant", "pipeline", of="pipeline"
)
FLOW_EXECUTIONS = _counter(
    "flow_executions",
    "orchestrator.flow.executions: the runs of all pipelines that ended.",
    "tenant",
    "status",
)
FLOW_DURATION = _histogram(
    "flow_duration_seconds", "orchestrator.flow.duration: how long the runs of all pipelines took.", "tenant"
)
FLOW_STEPS = Family(
    PREFIX + "flow_steps",
    MetricKind.HISTOGRAM,
    "orchestrator.flow.steps: how many task runs, steps and items, the runs of all pipelines had that ended.",
    (TENANT,),
    bounds=tuple(map(float, STEP_BOUNDS)),
)
STEP_EXECUTIONS = _counter(
    "step_executions",
    "orchestrator.step.executions: attempts that ended, of steps, items of maps and standalone tasks.",
    *("tenant", "task", "status"),
    of="task",
)
STEP_DURATION = _histogram(
    "step_duration_seconds",
    "orchestrator.step.duration: how long attempts took.",
    "tenant",
    "task",
    of="task",
)
STEP_WAIT = _histogram(
    "step_wait_seconds", "How long attempts were queued before they began.", "tenant", "task", of="task"
)
ATTEMPT_FAILURES = _counter(
    "attempt_failures",
    "Attempts that did not complete, by outcome and error code.",
    *("tenant", "status", "code"),
    of="code",
)
DISPATCH_FAILURES = _counter(
    "dispatch_failures", "Attempts that no HTTP service took.", "tenant", "task", of="task"
)
RETRIES = _counter("retries", "Attempts that another one followed.", "tenant", "task", of="task")
CACHE_HITS = _counter(
    "cache_hits",
    "Task runs that took a result over, by an idempotency key or a rerun.",
    "tenant",
    "task",
    of="task",
)
DEAD_LETTERS_ADDED = _counter(
    "dead_letters_added", "Task runs that failed for good.", "tenant", "task", of="task"
)
WAIT_WAKEUP = _histogram(
    "wait_wakeup_seconds",
    "How long after what ended them had come waits ended: a time, a signal, a vote, the end of a run.",
    "tenant",
    "kind",
)
STATISTICS_LAG = _gauge("statistics_lag_seconds", "How old the numbers of what has ended are.")

# --- open work --------------------------------------------------------------------------------------------

QUEUE_DEPTH = _gauge(
    "queue_depth",
    "Task runs that wait: pending (for their due time), ready (for a limit or the end of a pause), queued "
    "(for a worker).",
    *("tenant", "task", "status"),
    of="task",
)
QUEUE_OLDEST = _gauge(
    "queue_oldest_seconds",
    "How long the oldest of them has waited; of pending ones, how long it is overdue.",
    *("tenant", "task", "status"),
    of="task",
    is_greatest=True,
)
IN_PROGRESS = _gauge(
    "task_runs_in_progress",
    "Task runs that are running, or waiting for an HTTP service's report.",
    *("tenant", "task", "status"),
    of="task",
)
UNSERVED = _gauge(
    "task_runs_unserved",
    "Queued task runs in queues that no live worker consumes.",
    *("tenant", "task"),
    of="task",
)
OPEN_RUNS = _gauge(
    "runs_open",
    "Runs that are not over. Standalone tasks have no pipeline; child runs are apart.",
    *("tenant", "pipeline", "status"),
    of="pipeline",
)
CHILD_RUNS = _gauge(
    "child_runs", "Runs that belong to a step of another run, and are not over.", "tenant", "state"
)
DEAD_LETTERS = _gauge(
    "dead_letters",
    "Open dead letters: task runs that failed and have no attempt left.",
    *("tenant", "task"),
    of="task",
)
ENQUEUED = _gauge("enqueued_runs", "Rows that ask for a run, and are due.", "tenant")
ENQUEUED_OLDEST = _gauge(
    "enqueued_runs_oldest_seconds", "How long the oldest of them is overdue.", "tenant", is_greatest=True
)
WAITS = _gauge("waits", "Steps that wait for a time, a signal or people.", "tenant", "kind")
WAITS_OVERDUE = _gauge("waits_overdue", "Of them, those that are due to be looked at.", "tenant")
WAITS_OVERDUE_OLDEST = _gauge(
    "waits_overdue_oldest_seconds", "How long the oldest of those is due.", "tenant", is_greatest=True
)
APPROVALS_EXPIRING = _gauge(
    "approvals_expiring", "Approvals that wait, of whose time four fifths are over.", "tenant"
)
SIGNALS_UNTAKEN = _gauge("signals_untaken", "Signals that no step has taken.", "tenant")
COUNT_CAPPED = _gauge(
    "count_capped",
    "1 where a count ended at its bound: then there are more than the gauges say.",
    "count",
    is_greatest=True,
)

# --- queues and workers -----------------------------------------------------------------------------------

CELERY_QUEUE_DEPTH = _gauge(
    "celery_queue_depth", "Queued task runs by the queue of Celery.", "tenant", "queue", of="queue"
)
CELERY_QUEUE_SLOTS = _gauge(
    "celery_queue_slots",
    "Task runs at once that the live workers of a queue can work on.",
    *("tenant", "queue"),
    of="queue",
)
WORKERS = _gauge(
    "workers",
    "Worker processes that did not sign off: running, draining, stalled (idle beside work of its queues) or "
    "crashed (without a heartbeat).",
    *("tenant", "service", "state"),
    of="service",
)
WORKER_SLOTS = _gauge(
    "worker_slots",
    "Task runs at once that the workers can work on that take any.",
    *("tenant", "service"),
    of="service",
)
WORKER_BUSY = _gauge(
    "worker_busy", "Child processes of workers that have work.", "tenant", "service", of="service"
)
WORKER_MEMORY = _gauge(
    "worker_memory_bytes", "Memory of the workers' processes.", "tenant", "service", of="service"
)
WORKER_UPTIME = _gauge(
    "worker_uptime_ratio",
    "Share of the last 30 days in which a service had a worker that was heard, since its first one.",
    *("tenant", "service"),
    of="service",
)
WORKER_MEMORY_REPLACEMENTS = _gauge(
    "worker_memory_replacements",
    "Child processes that the workers replaced because of WORKER_MAX_MEMORY, since they started.",
    *("tenant", "service"),
    of="service",
)
SERVICES = _gauge(
    "services", "Services by status; disconnected: it lost its last worker.", "tenant", "kind", "status"
)
INSTANCES = _gauge(
    "service_instances",
    "Processes of HTTP services: available, draining, or set_aside because they did not answer.",
    *("tenant", "service", "state"),
    of="service",
)

# --- what drives it ---------------------------------------------------------------------------------------

TICK_AGE = _gauge(
    "tick_age_seconds", "How long ago the last tick ended; up to 3 s where there is nothing to do."
)
CHORE_DURATION = _gauge(
    "tick_chore_duration_seconds", "How long a chore of the tick took when it last ran.", "chore"
)
CHORE_FAILING = _gauge(
    "tick_chore_failures_in_a_row", "At how many ticks in a row a chore failed, up to the last one.", "chore"
)
CHORE_SKIPPED = _gauge(
    "tick_chore_skipped", "Rows that a chore last left out, because another transaction held them.", "chore"
)
CHORE_DONE = _counter(
    "tick_chore_done",
    "What a chore did, in pieces of its work: lost_messages sent again, lost_workers found, and so on.",
    "chore",
)
CHORE_ERRORS = _counter("tick_chore_errors", "Ticks at which a chore failed.", "chore")
SCHEDULE_LAG = _gauge(
    "schedule_lag_seconds",
    "How long the most overdue schedule should have started a run; 0 when none is overdue.",
    "tenant",
    is_greatest=True,
)
SCHEDULES_FAILING = _gauge("schedules_failing", "Schedules that could not start their last run.", "tenant")
TRIGGERS_FAILING = _gauge("triggers_failing", "Triggers that could not start their last run.", "tenant")
MODE = _gauge("mode", "1 for the mode that the deployment is in.", "mode")
MAX_RUNNING = _gauge(
    "max_running_task_runs", "How many task runs of all tenants may be at work. Absent: any number."
)
DATABASE_CONNECTIONS = _gauge(
    "database_connections", "Connections of clients to PostgreSQL, to all of its databases.", "state"
)
DATABASE_CONNECTIONS_MAX = _gauge(
    "database_connections_max", "Connections that PostgreSQL allows to ordinary users."
)
PART_UP = _gauge("metrics_part_up", "1 where this part of the metrics could be read, else 0.", "part")
READ_SECONDS = _gauge("metrics_read_seconds", "How long it took to read the metrics from PostgreSQL.")
DATABASE_UP = _gauge("database_up", "1 if PostgreSQL answered the process that was scraped, else 0.")

# --- one process of the API -------------------------------------------------------------------------------

PROCESS = "process"
"""The label of what belongs to one process: its host and its process id."""

REQUESTS = _counter(
    "http_requests", "Requests that a process of the API answered.", PROCESS, "operation", "status"
)
REQUEST_SECONDS = Family(
    PREFIX + "http_request_duration_seconds",
    MetricKind.HISTOGRAM,
    "How long a process of the API took for a request; of a stream, until it began.",
    (PROCESS,),
    bounds=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
STREAMS = _gauge("streams_open", "Streams that a process of the API serves.", PROCESS)
POOL_CONNECTIONS = _gauge(
    "pool_connections",
    "Connections of a process to PostgreSQL by pool: in_use or idle.",
    PROCESS,
    "pool",
    "state",
)
POOL_CONNECTIONS_MAX = _gauge(
    "pool_connections_max", "Connections that a pool of a process opens at most.", PROCESS, "pool"
)
PUBLISH_FAILURES = _counter(
    "publish_failures",
    "Batches of messages that a process could not send to the broker; the tick sends them later.",
    PROCESS,
)
PROCESS_UPTIME = _gauge("process_uptime_seconds", "How long a process of the API has run.", PROCESS)
BUILD = _gauge("build_info", "1; the version of the process that was scraped.", PROCESS, "version")

# --- tenants ----------------------------------------------------------------------------------------------

TENANT_DISABLED = _gauge("tenant_disabled", "1 while an operator has disabled the tenant, else 0.", "tenant")
TENANT_QUOTA = _gauge("tenant_quota", "What a quota of the tenant allows.", "tenant", "quota")
TENANT_QUOTA_USED = _gauge(
    "tenant_quota_used",
    "How much of the quota is used: stored bytes by the last sum, open task runs when a run last began.",
    *("tenant", "quota"),
)

FAMILIES: tuple[Family, ...] = tuple(each for each in globals().values() if isinstance(each, Family))
"""All metrics, in the order of this file."""
