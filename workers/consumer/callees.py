"""Calls task runs of a message, each in the way of its task: a callee is one way to call.

`SyncCallee` calls the functions of tasks, one after the other. `Dispatches` has HTTP services call them, and
`Together` calls `async def` functions, many at once.
"""

from __future__ import annotations

import time
from typing import Protocol

from pipeweave.orchestrator.domain import has_called
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slot
from pipeweave.workers.consumer.message import Work
from pipeweave.workers.consumer.time_limit import HARD_AFTER_S
from pipeweave.workers.consumer.watchdog import Watchdog


class Callee(Protocol):
    """One way to call task runs.

    Attributes:
        stores: whether it stores the outcomes of its calls itself, and claims what follows them. Those of the
            other callees are noted in the message, until the runner stores them.
    """

    stores: bool

    def call(self, work: Work) -> bool:
        """Take the first claimed task run of a message, and those that it calls together with it; call them.

        Returns:
            Whether another call may follow before the outcomes are stored.
        """


class SyncCallee:
    """Calls the functions of tasks in the main thread, one after the other."""

    stores = False

    def __init__(self, calls: Calls, slot: Slot, watchdog: Watchdog, durations: CallDurations) -> None:
        self._calls = calls
        self._slot = slot
        self._watchdog = watchdog
        self._durations = durations

    def call(self, work: Work) -> bool:
        """Call the function of the first claimed task run."""
        if (task_run := work.next()) is None:
            return False
        started = time.monotonic()
        seconds, interval_ms = self._calls.limits(work.run, task_run)
        deadline = started + seconds + HARD_AFTER_S
        self._slot.call(task_run.id, deadline, seconds)
        self._watchdog.calling(work, task_run, deadline, interval_ms)
        outcome = self._calls.call(work.run, task_run, seconds)
        self._watchdog.returned()
        self._slot.returned()
        if work.requeues(task_run, outcome):
            return False
        work.record(outcome)
        took = time.monotonic() - started
        self._durations.record(work.run.tenant, task_run.task_id, took)
        if has_called(outcome):
            self._slot.count(1, isinstance(outcome, tuple), took)
        return True
