"""Defines the state machines of runs and task runs as data: which status may follow which.

`docs/state-machine.md` is the picture of these tables; a test keeps them equal. The only code that writes a
status is in task_transitions.py and run_transitions.py, and it takes its guard from here.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class RunStatus(StrEnum):
    """The status of a run."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    ERROR_HANDLING = "error_handling"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return not RUN_MOVES[self]


class TaskStatus(StrEnum):
    """The status of a task run."""

    PENDING = "pending"
    READY = "ready"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def is_final(self) -> bool:
        return not TASK_MOVES[self]


R, T = RunStatus, TaskStatus

RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    R.PENDING: frozenset({R.RUNNING, R.FAILED, R.CANCELLED}),
    R.RUNNING: frozenset({R.PAUSED, R.ERROR_HANDLING, R.COMPLETED, R.PARTIAL, R.FAILED, R.CANCELLED}),
    R.PAUSED: frozenset({R.RUNNING, R.ERROR_HANDLING, R.FAILED, R.CANCELLED}),
    # All its steps have ended; what follows them runs, and then it ends as it was decided before.
    R.ERROR_HANDLING: frozenset({R.RUNNING, R.COMPLETED, R.PARTIAL, R.FAILED, R.CANCELLED}),
    R.COMPLETED: frozenset(),
    R.PARTIAL: frozenset(),
    R.FAILED: frozenset(),
    R.CANCELLED: frozenset(),
}

TASK_MOVES: dict[TaskStatus, frozenset[TaskStatus]] = {
    # Straight to running: the worker that completed the only predecessor goes on with it.
    # To waiting: the step is a map and its items were just laid out. To failed: it could not be laid out.
    # To completed: a map without items, or a result that a rerun takes over.
    T.PENDING: frozenset(
        {T.READY, T.QUEUED, T.RUNNING, T.WAITING, T.COMPLETED, T.FAILED, T.CANCELLED, T.SKIPPED}
    ),
    T.READY: frozenset({T.QUEUED, T.RUNNING, T.CANCELLED, T.SKIPPED}),
    T.QUEUED: frozenset({T.READY, T.RUNNING, T.FAILED, T.CANCELLED, T.SKIPPED}),
    T.RUNNING: frozenset(
        {T.PENDING, T.READY, T.QUEUED, T.WAITING, T.COMPLETED, T.FAILED, T.TIMEOUT, T.CANCELLED}
    ),
    T.WAITING: frozenset({T.PENDING, T.READY, T.COMPLETED, T.FAILED, T.TIMEOUT, T.CANCELLED}),
    T.COMPLETED: frozenset(),
    T.FAILED: frozenset(),
    T.TIMEOUT: frozenset(),
    T.CANCELLED: frozenset(),
    T.SKIPPED: frozenset(),
}

# The moves of a retried dead letter, the only ones out of a final status. They are apart from the tables
# above, so that no other verb leaves a final status by accident.
REOPEN_RUN: dict[RunStatus, frozenset[RunStatus]] = {
    R.PARTIAL: frozenset({R.RUNNING}),
    R.FAILED: frozenset({R.RUNNING}),
}

REOPEN_TASK: dict[TaskStatus, frozenset[TaskStatus]] = {
    # To waiting: a map of which an item is retried.
    T.COMPLETED: frozenset({T.WAITING}),
    T.FAILED: frozenset({T.PENDING, T.WAITING}),
    T.TIMEOUT: frozenset({T.PENDING}),
    # Cancelled and skipped only where a failure was the reason.
    T.CANCELLED: frozenset({T.PENDING, T.WAITING}),
    T.SKIPPED: frozenset({T.PENDING}),
}

# One letter for each status of a task run, for columns of many.
STATUS_LETTERS: dict[str, str] = {
    T.PENDING.value: "p",
    T.READY.value: "r",
    T.QUEUED.value: "q",
    T.RUNNING.value: "R",
    T.WAITING.value: "w",
    T.COMPLETED.value: "c",
    T.FAILED.value: "f",
    T.TIMEOUT.value: "t",
    T.CANCELLED.value: "x",
    T.SKIPPED.value: "s",
}

FINAL_RUN = frozenset(status for status, after in RUN_MOVES.items() if not after)
FINAL_TASK = frozenset(status for status, after in TASK_MOVES.items() if not after)

# Open: not final.
OPEN_RUN = frozenset(RunStatus) - FINAL_RUN
OPEN_TASK = frozenset(TaskStatus) - FINAL_TASK

# Active: open and not paused. The partial index `runs_active` has these.
ACTIVE_RUN = OPEN_RUN - {R.PAUSED}
# Admitted: started and not over. Each counts towards the tenant's limit of active runs.
ADMITTED_RUN = OPEN_RUN - {R.PENDING}
# Advancing: admitted and not paused. Steps of such a run are released.
ADVANCING_RUN = ADMITTED_RUN - {R.PAUSED}

# A live row holds a slot of its task's concurrency limit (a slot is a row, never a counter that could leak).
# The partial index `task_runs_live` has these.
LIVE_TASK = frozenset({T.QUEUED, T.RUNNING, T.WAITING})
# Unstarted: no worker has claimed it.
UNSTARTED_TASK = frozenset({T.PENDING, T.READY, T.QUEUED})
# Released: every predecessor is final, and a worker runs it or will run it.
RELEASED_TASK = frozenset({T.READY, T.QUEUED, T.RUNNING})
# Failed: its last attempt ended badly.
FAILED_TASK = frozenset({T.FAILED, T.TIMEOUT})
# Ended: its last attempt ended, well or badly. A skipped or cancelled task run had no such attempt.
ENDED_TASK = FAILED_TASK | {T.COMPLETED}


def sql_in(statuses: Collection[RunStatus] | Collection[TaskStatus]) -> str:
    """SQL: the statuses as the right side of IN, in the order in which their enum declares them.

    Statements take their sets of statuses from here, so that a new status is taught once. PostgreSQL proves
    from such a list that a partial index holds every row that the statement looks for.
    """
    declared = type(next(iter(statuses)))
    return "({})".format(", ".join(f"'{each}'" for each in declared if each in statuses))


def task_before(after: TaskStatus) -> tuple[str, ...]:
    """The statuses from which a task run may move to `after`."""
    return tuple(sorted(before.value for before, allowed in TASK_MOVES.items() if after in allowed))


def run_before(after: RunStatus) -> tuple[str, ...]:
    """The statuses from which a run may move to `after`."""
    return tuple(sorted(before.value for before, allowed in RUN_MOVES.items() if after in allowed))


def task_reopened_from(after: TaskStatus) -> tuple[str, ...]:
    """The final statuses that a retried dead letter may turn into `after`."""
    return tuple(sorted(before.value for before, allowed in REOPEN_TASK.items() if after in allowed))


def run_reopened_from(after: RunStatus) -> tuple[str, ...]:
    """The final statuses of a run that a retried dead letter may turn into `after`."""
    return tuple(sorted(before.value for before, allowed in REOPEN_RUN.items() if after in allowed))
