"""The two Celery tasks: `run` handles a message, `join` checks a join. Everything else is in the runner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from celery import Celery

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.messaging import JOIN_TASK, RUN_TASK, envelope
from pipeweave.workers.consumer.runner import Runner

log = logging.getLogger(__name__)

# Flower learns of a step from our tables; Celery's own events would cost more than the step (docs/celery.md).
_OPTIONS: dict[str, Any] = {
    "send_events": False,
    "typing": False,
    "ignore_result": True,
    "acks_late": True,
    "shared": False,  # with this app alone, not with every other app of the process
    "Strategy": "pipeweave.workers.consumer.celery_strategy:for_task",
}


def define(app: Celery, runner: Callable[[], Runner]) -> None:
    """Define the two tasks of an app. `runner` returns the runner of the process."""

    @app.task(name=RUN_TASK, bind=True, **_OPTIONS)
    def run(
        self: Any, run_id: str, ordinals: Sequence[int], attempt: int, part: int, joins: Sequence[int]
    ) -> None:
        key = (self.request.delivery_info or {}).get("routing_key")
        queue = None if key is None else envelope.queue_of(key)
        with _give_back_on_error(runner()) as mine:
            mine.run(UUID(hex=run_id), ordinals, attempt, part, joins, queue=queue)

    @app.task(name=JOIN_TASK, **_OPTIONS)
    def join(run_id: str, ordinal: int) -> None:
        with _give_back_on_error(runner()) as mine:
            mine.join(UUID(hex=run_id), ordinal)


@contextmanager
def _give_back_on_error(runner: Runner) -> Iterator[Runner]:
    """When an error ends a message early, end its begun calls as lost and give back its other task runs."""
    with runner.at_work:
        try:
            yield runner
        except Unavailable as error:
            # PostgreSQL is away; when it answers again, messages are sent for the rest of this message.
            log.warning("message.dropped", extra={"reason": error.detail})
            with suppress(Unavailable):
                runner.give_back_claims()
        except Exception:
            log.exception("message.failed")
            with suppress(Unavailable):
                runner.give_up()
            raise
