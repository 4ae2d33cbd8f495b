"""Lists the metrics of a deployment: name, kind, meaning and labels. docs/metrics.md has the same list.

A name from the design documents (`orchestrator_queue_depth`, `orchestrator.step.duration`) is kept as
Prometheus spells it. A family whose first label is `tenant` is shown to the tokens of that tenant; any other
one only to those that may read every tenant.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "orchestrator_"
TENANT = "tenant"
OTHER = "other"
"""In place of the names that a label has no room for."""


class Kind(StrEnum):
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
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    of: str | None = None
    is_greatest: bool = False
    bounds: tuple[float, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name of its samples; of a histogram, what they begin with."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name

    @property
    def is_of_tenants(self) -> bool:
        return self.labels[:1] == (TENANT,)


def _gauge(name: str, about: str, *labels: str, of: str | None = None, is_greatest: bool = False) -> Family:
    return Family(PREFIX + name, Kind.GAUGE, about, labels, of, is_greatest)


def _counter(name: str, about: str, *labels: str, of: str | None = None) -> Family:
    return Family(PREFIX + name, Kind.COUNTER, about, labels, of)


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
    "Runs that are not over. Standalone tasks have no pipeline.",
    *("tenant", "pipeline", "status"),
    of="pipeline",
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
    "Worker processes that did not sign off: running, stopping, or stalled (without a heartbeat).",
    *("tenant", "service", "state"),
    of="service",
)
WORKER_SLOTS = _gauge(
    "worker_slots",
    "Task runs at once that live workers can work on.",
    *("tenant", "service"),
    of="service",
)
SERVICES = _gauge(
    "services", "Services by status; disconnected: it lost its last worker.", "tenant", "kind", "status"
)
INSTANCES = _gauge(
    "service_instances",
    "Processes of HTTP services: available, or set_aside because they did not answer.",
    *("tenant", "service", "state"),
    of="service",
)

# --- what drives it ---------------------------------------------------------------------------------------

TICK_AGE = _gauge("tick_age_seconds", "How long ago the last tick ended.")
CHORE_DURATION = _gauge(
    "tick_chore_duration_seconds", "How long a chore of the tick took when it last ran.", "chore"
)
CHORE_FAILING = _gauge(
    "tick_chore_failures_in_a_row", "At how many ticks in a row a chore failed, up to the last one.", "chore"
)
CHORE_SKIPPED = _gauge(
    "tick_chore_skipped", "Rows that a chore last left out, because another transaction held them.", "chore"
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
    Kind.HISTOGRAM,
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

FAMILIES: tuple[Family, ...] = tuple(each for each in globals().values() if isinstance(each, Family))
"""All metrics, in the order of this file."""
