"""Define the two Celery apps and their tasks.

Celery itself reads a worker's servers from CELERY_BROKER_URL and CELERY_RESULT_BACKEND.
"""

from __future__ import annotations

from typing import Any, Literal

from celery import Celery

Variant = Literal["written", "tuned"]

# All options that make the tuned app faster; the other app has Celery's defaults.
TUNING: dict[str, Any] = {
    "task_acks_late": True,
    "worker_prefetch_multiplier": 1,
    "task_ignore_result": True,
}
# Seconds after which Redis deletes a list whose reader is gone.
DONE_LIFE_S = 600


def make_app(variant: Variant, broker_url: str | None = None, backend_url: str | None = None) -> Celery:
    """An app with the tasks of the benchmarks. The URLs are for clients; workers take their environment's."""
    app = Celery(f"plain_{variant}", set_as_current=False)
    if variant == "tuned":
        app.conf.update(TUNING)
    if broker_url and backend_url:
        app.conf.update(broker_url=broker_url, result_backend=backend_url)
    _define(app)
    return app


def _define(app: Celery) -> None:
    # Not shared: a client has both apps in one process, and each must keep its own options.
    @app.task(name="noop", shared=False)
    def noop() -> None:
        """Do nothing."""

    @app.task(name="same", shared=False)
    def same(number: int) -> int:
        """Return the item."""
        return number

    @app.task(name="collect", shared=False)
    def collect(rows: list[int]) -> int:
        """Take every item's output and return their number."""
        return len(rows)

    @app.task(name="done", shared=False)
    def done(*_: object, key: str) -> None:
        """Push to the list that the client blocks on: the last step of a canvas whose results are ignored."""
        # Celery's own types do not know the client of its Redis backend.
        client: Any = app.backend.client  # type: ignore[attr-defined]
        client.rpush(key, 1)
        client.expire(key, DONE_LIFE_S)
