"""The two Celery tasks. Ids in, verb called; everything else is in the runner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from celery import Celery

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.messaging.publisher import JOIN_TASK, RUN_TASK
from pipeweave.workers.consumer.runner import Runner

log = logging.getLogger(__name__)

# Flower learns of a step from our tables; Celery's own events would cost more than the step (docs/celery.md).
_OPTIONS: dict[str, Any] = {
    "send_events": False,
    "typing": False,
    "ignore_result": True,
    "acks_late": True,
    "shared": False,  # with this app alone, not with every other app of the process
}


def define(app: Celery, runner: Callable[[], Runner]) -> None:
    """Give an app its tasks. `runner` makes, once per process, what executes them."""

    @app.task(name=RUN_TASK, **_OPTIONS)
    def run(run_id: str, ordinals: Sequence[int], attempt: int, part: int, joins: Sequence[int]) -> None:
        with _let_go_in_doubt(runner()) as mine:
            mine.run(UUID(hex=run_id), ordinals, attempt, part, joins)

    @app.task(name=JOIN_TASK, **_OPTIONS)
    def join(run_id: str, ordinal: int) -> None:
        with _let_go_in_doubt(runner()) as mine:
            mine.join(UUID(hex=run_id), ordinal)


@contextmanager
def _let_go_in_doubt(runner: Runner) -> Iterator[Runner]:
    """Whatever ends a message early, what it had claimed is let go: what was called is lost, the rest goes to
    others.
    """
    try:
        yield runner
    except Unavailable as error:
        # It found no PostgreSQL; what it named is sent again when there is one.
        log.warning("message.dropped", extra={"reason": error.detail})
        with suppress(Unavailable):
            runner.let_go()
    except Exception:
        # What it named may fail in the same way again: the tick sends it, with a pause in between.
        with suppress(Unavailable):
            runner.let_go(sends_again=False)
        raise
