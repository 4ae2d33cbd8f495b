"""Sends a worker's heartbeats and watches its child processes, in a thread of the parent process.

A heartbeat comes from the parent because a child may compute for hours without a pause.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType

from pipeweave.errors import PipeWeaveError
from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.messaging import INTAKE
from pipeweave.orchestrator.queueing import priorities
from pipeweave.orchestrator.registry import BEAT_EVERY, WorkerStart, worker_processes
from pipeweave.orchestrator.store import Database
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.process.children import Children
from pipeweave.workers.process.health_reports import HealthReport, LastStored
from pipeweave.workers.process.health_server import ProcessHealth
from pipeweave.workers.process.load import LoadMeter
from pipeweave.workers.process.memory_watch import MemoryWatch
from pipeweave.workers.process.minute_line import MinuteLine

log = logging.getLogger(__name__)


class WorkerLiveness:
    """Sends heartbeats and watches children while the block runs, and signs the worker off at its end.

    Args:
        database: with a sender, so that messages for the task runs of a dead child leave at once.
        worker_id: the id of the registered worker.
        memory: says when the worker takes so much memory that it has to start again.
        grace_s: seconds that calls under way may take after `stop`.
        is_cut_short: whether the worker was told not to wait for these calls any longer.
        is_outdated: whether it has to start again because other bundles count than those it has loaded.
        log_every_s: seconds between two lines in the log.
        max_retry_delay_ms: no retry of a child's attempt waits for longer (ms); None for no such limit.
    """

    def __init__(
        self,
        database: Database,
        tenant: str,
        start: WorkerStart,
        worker_id: str,
        slots: Slots,
        memory: MemoryWatch,
        *,
        grace_s: float,
        is_cut_short: Callable[[], bool],
        is_outdated: Callable[[], bool] = lambda: False,
        log_every_s: float,
        max_retry_delay_ms: int | None,
    ) -> None:
        self.database = database
        self.tenant = tenant
        self.start = start
        self.worker_id = worker_id
        self.slots = slots
        self.memory = memory
        self.grace_s = grace_s
        self.is_cut_short = is_cut_short
        self.is_outdated = is_outdated
        self.log_every_s = log_every_s
        self._children = Children(database, slots, max_retry_delay_ms=max_retry_delay_ms)
        self._stop_at = float("inf")
        self._failures = FailureLog(log, "worker.beat_failed")
        self._load = LoadMeter(slots, memory_replacements=lambda: memory.replaced)
        self.ended_itself = False
        self._stored = LastStored()
        self._report = HealthReport(self._stored)
        self._line = MinuteLine(worker_id, slots.tally)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="liveness", daemon=True)

    def stop(self) -> None:
        """Stop the worker: it claims no more task runs, and calls under way may go on for `grace_s`."""
        self.slots.stop()
        self._stop_at = time.monotonic() + self.grace_s

    def health(self) -> ProcessHealth:
        """What the worker answers to a probe: 503 while it stops, or cannot store its heartbeats."""
        done = self.slots.tally()
        members = {
            "worker": self.worker_id,
            "service": self.start.service_id,
            "tenant": self.tenant,
            "busy": sum(slot.state().is_busy for slot in self.slots.taken()),
            "capacity": self.start.concurrency,
            "draining": self.slots.is_draining,
            "runs": done.calls,
            "failed": done.failed,
        }
        is_stopping = self.slots.is_stopping
        return self._report.of(members, is_stopping=is_stopping, stored_as="lastHeartbeatStored")

    def __enter__(self) -> WorkerLiveness:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(timeout=5)
        try:
            self._children.look(self.worker_id)
            with self.database.transaction() as tx:
                worker_processes.stop(tx, self.worker_id)
        except PipeWeaveError:
            log.warning("worker.sign_off_failed", extra={"worker": self.worker_id})

    def _run(self) -> None:
        next_beat = time.monotonic() + BEAT_EVERY.total_seconds()
        next_line = time.monotonic() + self.log_every_s
        while not self._end.is_set():
            self._children.wait(max(0.0, min(next_beat, self._stop_at) - time.monotonic()))
            if time.monotonic() >= self._stop_at or self.is_cut_short():
                self._stop_at = float("inf")
                self.slots.stop()
                self._children.stop()
            # The worker's heartbeat comes first: an error with a child must not silence the worker.
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + BEAT_EVERY.total_seconds()
                self._beat()
            self._children.look(self.worker_id)
            self._end_for_restart()
            if time.monotonic() >= next_line:
                next_line = time.monotonic() + self.log_every_s
                busy = sum(slot.state().is_busy for slot in self.slots.taken())
                log.info("worker.alive", extra={"worker": self.worker_id, "busy": busy})
            self._line.write_if_due()

    def _beat(self) -> None:
        try:
            self._store_heartbeat()
        except Exception as error:
            self._failures.failed(error)
        else:
            self._failures.worked()
            self._stored.record()

    def _store_heartbeat(self) -> None:
        with self.database.statements() as tx:
            load = self._load.measure()
            stops = self.slots.is_stopping or self._wants_restart
            heard = worker_processes.beat(
                tx, self.worker_id, stops=stops, load=load, also=priorities.IS_MIXED
            )
            if heard is None:
                # The worker was silent for too long (a suspended machine) and was declared lost.
                worker_processes.register(tx, self.tenant, self.start, worker_id=self.worker_id)
            else:
                self._obey(heard.drains or self._wants_restart)
                self.slots.set_mixed(heard.also)
        self.slots.set_promotions(self.database.timeline.promotions)

    @property
    def _wants_restart(self) -> bool:
        return self.memory.wants_restart or self.is_outdated()

    def _end_for_restart(self) -> None:
        """End the worker that has to start again once nothing is under way, so that no attempt is cut short.
        Until then it drains.
        """
        if self.ended_itself or not (self._wants_restart and self.slots.is_draining):
            return
        if not any(slot.state().is_busy for slot in self.slots.taken()):
            self.ended_itself = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _obey(self, drains: bool) -> None:
        """Take nothing more while this worker drains: because an operator says so, or because of its memory.
        Calls under way go on.
        """
        if drains == self.slots.is_draining:
            return
        self.slots.set_draining(drains)
        INTAKE.close() if drains else INTAKE.open()
        log.info("worker.draining" if drains else "worker.resumed", extra={"worker": self.worker_id})
