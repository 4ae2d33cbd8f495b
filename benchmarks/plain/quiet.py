"""A Redis result backend that subscribes to no results.

Celery's canvases subscribe to results even if they are ignored.
"""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend

SCHEME = f"{__name__}:QuietBackend"


class QuietBackend(RedisBackend):
    """Counts the parts of chords and subscribes to nothing."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Do not subscribe to the result of a task that is sent."""

    def add_pending_result(self, result: Any, *_: Any, **__: Any) -> Any:
        """Do not subscribe to the results of a canvas."""
        return result
