"""Sends what a transaction put in its outbox to Redis: the Celery application, messages and chords.

`Database` calls the publisher after a commit; workers, the tick and diagnosis also use it directly. This room
must never read or write PostgreSQL."""

from pipeweave.orchestrator.messaging.batching import ALONE_FROM_ATTEMPT
from pipeweave.orchestrator.messaging.celery_app import LEVELS, make_celery
from pipeweave.orchestrator.messaging.envelope import JOIN_TASK, RUN_TASK, Envelope, decode
from pipeweave.orchestrator.messaging.inbox import arguments_of
from pipeweave.orchestrator.messaging.intake import INTAKE
from pipeweave.orchestrator.messaging.publisher import Publisher

__all__ = [
    "ALONE_FROM_ATTEMPT",
    "INTAKE",
    "JOIN_TASK",
    "LEVELS",
    "RUN_TASK",
    "Envelope",
    "Publisher",
    "arguments_of",
    "decode",
    "make_celery",
]
