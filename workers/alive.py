"""A worker process says that it lives, from its parent: a child may compute for hours without a word."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator import workers
from pipeweave.orchestrator.database import Database
from pipeweave.orchestrator.workers import BEAT_EVERY, WorkerStart

log = logging.getLogger(__name__)


class Alive:
    """Beats while the block runs, and signs off at its end."""

    def __init__(self, database: Database, tenant: str, start: WorkerStart, worker_id: str) -> None:
        self.database = database
        self.tenant = tenant
        self.start = start
        self.worker_id = worker_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="alive", daemon=True)

    def __enter__(self) -> Alive:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        try:
            with self.database.transaction() as tx:
                workers.stop(tx, self.worker_id)
        except PipeWeaveError:
            log.warning("worker.sign_off_failed", extra={"worker": self.worker_id})

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_EVERY.total_seconds()):
            try:
                with self.database.transaction() as tx:
                    if not workers.beat(tx, self.worker_id):
                        # It was silent for too long (a suspended machine) and taken for lost: it starts anew.
                        self.worker_id = workers.register(tx, self.tenant, self.start)
            except PipeWeaveError as error:
                log.warning("worker.beat_failed", extra={"worker": self.worker_id, "reason": error.detail})
