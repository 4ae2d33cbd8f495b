"""Publishers where no broker is needed: one whose broker holds the messages that a test says, one without."""

from __future__ import annotations

import time

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.messaging.celery_app import LEVELS, make_celery
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.settings import Settings

NOWHERE = "redis://127.0.0.1:1/0"


class EmptyBroker(Publisher):
    """A broker that lost every message, or still has the messages that are younger than `oldest_sent`.

    Args:
        settings: the broker's URL; nothing connects to it.
    """

    is_away = False
    oldest_sent: float | None = None

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(make_celery(settings or Settings(broker_url=NOWHERE)), clock=time.time)

    def depth(self, queue: str) -> int:
        return 0

    def oldest(self, queue: str) -> dict[int, float | None]:
        if self.is_away:
            raise Unavailable("the broker cannot be used")
        return dict.fromkeys(LEVELS, self.oldest_sent)

    def check_writable(self, queue: str) -> None:
        """It takes every value."""


def broker_that_is_away() -> Publisher:
    """A publisher that reaches no broker."""
    return Publisher(make_celery(Settings(broker_url=NOWHERE)), clock=time.time)
