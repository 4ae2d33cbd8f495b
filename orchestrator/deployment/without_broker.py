"""Stands in for the broker of a serverless deployment, where nothing but the API runs.

No worker takes messages there: the tick finds what waits in PostgreSQL. What a message would make a worker
check, a join, is checked by the process that would have sent it, after its commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.domain.outbox import ChordPart, JoinCheck, Outgoing
from pipeweave.orchestrator.engine import joins
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)


class WithoutBroker(Publisher):
    """Sends nothing, and checks joins at once."""

    def __init__(self, database: Database, values: Values) -> None:
        self._database = database
        self._values = values

    def publish(self, outbox: Sequence[Outgoing]) -> None:
        """Check the joins that the outbox is about; the tick checks again what fails here."""
        checks = [each for each in outbox if isinstance(each, (JoinCheck, ChordPart))]
        queues = {(each.run_id, each.join): each.queue for each in checks}
        for (run_id, join), queue in queues.items():
            try:
                joins.check(self._database, self._values, run_id, join, queue=queue)
            except PipeWeaveError as error:
                log.warning("join.delayed", extra={"run_id": str(run_id), "reason": error.detail})

    def depth(self, queue: str) -> int:
        return 0

    def oldest(self, queue: str) -> dict[int, float | None]:
        return dict.fromkeys(LEVELS)

    def begin_look(self, queue: str, seconds: float) -> bool:
        return False

    def check_writable(self, queue: str) -> None:
        raise Unavailable("this deployment has no broker", hint="set BROKER_URL to run Celery workers")

    def forget(self, queue: str) -> None:
        return

    def close(self) -> None:
        return
