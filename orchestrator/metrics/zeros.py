"""Gives a 0 where there is nothing to count: dashboards and alerts need a number from the beginning.

A tenant that has no value of a metric gets one without a name in the bounded label (`task=""`), which adds to
no sum; of a counter, each tenant does. Only of what was read: a part that failed says nothing, and not 0.
"""

from __future__ import annotations

from collections.abc import Collection

from pipeweave.orchestrator.domain.states import FINAL_RUN, OPEN_RUN
from pipeweave.orchestrator.domain.waits import WAIT_KINDS
from pipeweave.orchestrator.metrics import catalogue as c
from pipeweave.orchestrator.metrics.catalogue import TENANT, Family, MetricKind
from pipeweave.orchestrator.metrics.samples import Histogram, Samples

_NO_NAME = ""
_ENDED = tuple(sorted(FINAL_RUN))
_OPEN = tuple(sorted(OPEN_RUN))
_WORKER_STATES = ("running", "draining", "stalled", "crashed")
_CAPPED = {
    "queues": ("queued",),
    "task_runs": ("ready", "pending", "waiting", "running"),
    "runs": ("runs",),
    "dead_letters": ("dead_letters",),
    "enqueued": ("enqueued_runs",),
    "waits": ("waits", "signals"),
}

# Part -> its families, each with the values that its last label always has; none: it has no such label.
ZEROS: dict[str, tuple[tuple[Family, tuple[str, ...]], ...]] = {
    "queues": (
        (c.QUEUE_DEPTH, ("queued",)),
        (c.QUEUE_OLDEST, ("queued",)),
        (c.UNSERVED, ()),
        (c.CELERY_QUEUE_DEPTH, ()),
        (c.CELERY_QUEUE_SLOTS, ()),
        (c.WORKERS, _WORKER_STATES),
        (c.WORKER_SLOTS, ()),
        (c.WORKER_BUSY, ()),
        (c.WORKER_MEMORY, ()),
        (c.WORKER_MEMORY_REPLACEMENTS, ()),
        (c.WORKER_UPTIME, ()),
    ),
    "task_runs": (
        (c.QUEUE_DEPTH, ("pending", "ready")),
        (c.QUEUE_OLDEST, ("pending", "ready")),
        (c.IN_PROGRESS, ("running", "waiting")),
    ),
    "tenants": ((c.TENANT_DISABLED, ()), (c.TENANT_QUOTA, ()), (c.TENANT_QUOTA_USED, ())),
    "runs": ((c.OPEN_RUNS, _OPEN), (c.CHILD_RUNS, _OPEN)),
    "dead_letters": ((c.DEAD_LETTERS, ()),),
    "ended_work": (
        (c.RUNS, _ENDED),
        (c.RUNS_CREATED, ()),
        (c.RUN_DURATION, ()),
        (c.FLOW_EXECUTIONS, _ENDED),
        (c.FLOW_DURATION, ()),
        (c.FLOW_STEPS, ()),
        (c.STEP_EXECUTIONS, ("completed", "failed", "timeout")),
        (c.STEP_DURATION, ()),
        (c.STEP_WAIT, ()),
        (c.ATTEMPT_FAILURES, ()),
        (c.DISPATCH_FAILURES, ()),
        (c.RETRIES, ()),
        (c.CACHE_HITS, ()),
        (c.DEAD_LETTERS_ADDED, ()),
        (c.WAIT_WAKEUP, WAIT_KINDS),
    ),
    "enqueued": ((c.ENQUEUED, ()), (c.ENQUEUED_OLDEST, ())),
    "waits": (
        (c.WAITS, WAIT_KINDS),
        (c.WAITS_OVERDUE, ()),
        (c.WAITS_OVERDUE_OLDEST, ()),
        (c.APPROVALS_EXPIRING, ()),
        (c.SIGNALS_UNTAKEN, ()),
    ),
    "schedules": ((c.SCHEDULE_LAG, ()), (c.SCHEDULES_FAILING, ()), (c.TRIGGERS_FAILING, ())),
    "services": (
        (c.SERVICES, ("active", "inactive", "disconnected")),
        (c.INSTANCES, ("available", "draining", "set_aside")),
    ),
}


def fill(made: Samples, parts: Collection[str]) -> None:
    """Add what is missing.

    Args:
        made: what was read; its tenants are those that get zeros.
        parts: those that could be read.
    """
    tenants = made.first.get((TENANT, ""), ())
    for part in parts:
        for count in _CAPPED.get(part, ()):
            made.add(c.COUNT_CAPPED, 0, count)
        for family, last in ZEROS.get(part, ()):
            _fill(made, family, tenants, last)


def _fill(made: Samples, family: Family, tenants: Collection[str], last: tuple[str, ...]) -> None:
    by_family = made.histograms if family.bounds else made.values
    # What only grows keeps its 0: a series that ended would look like one that went back.
    series = by_family.get(family, ()) if family.kind is MetricKind.GAUGE else ()
    known = {(labels[0], labels[-1] if last else None) for labels in series}
    for tenant in tenants:
        for value in last or (None,):
            if (tenant, value) in known:
                continue
            named = (_NO_NAME,) * (len(family.labels) - (1 if value is None else 2))
            labels = (tenant, *named) if value is None else (tenant, *named, value)
            if family.bounds:
                made.observe(family, Histogram.of([0] * (len(family.bounds) + 1), 0.0), *labels)
            else:
                made.add(family, 0, *labels)
