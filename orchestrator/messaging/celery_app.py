"""The Celery app, the same for those who publish and those who consume. docs/celery.md says why."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Queue

from pipeweave.errors import InvalidSetting
from pipeweave.settings import Settings

# A run may take this long (s) before Redis forgets how many parts of its chords were counted; the tick
# heals those.
CHORD_LIFE_S = 7 * 24 * 3600

# A publisher must never hang on a broker that does: 2 s at most, then the tick sends what was lost. A worker
# waits longer for the messages it takes.
PUBLISHER_TIMEOUT_S = 2
WORKER_TIMEOUT_S = 5

# The levels of a queue, each a list of its own; workers empty the first before they look at the next.
LEVELS = (0, 3, 6, 9)


def make_celery(settings: Settings, *, queues: tuple[str, ...] = (), is_worker: bool = False) -> Celery:
    """The app for a deployment's broker.

    Args:
        settings: `broker_url` is needed.
        queues: what a worker consumes.
        is_worker: workers wait longer for a slow broker than publishers may.

    Raises:
        InvalidSetting: there is no broker URL.
    """
    if not settings.broker_url:
        raise InvalidSetting(
            "BROKER_URL is not set", hint="set it to redis://host:port/0, or use `pipeweave up`"
        )
    app = Celery("pipeweave", broker=settings.broker_url, backend=settings.broker_url, set_as_current=False)
    timeout = WORKER_TIMEOUT_S if is_worker else PUBLISHER_TIMEOUT_S
    app.conf.update(
        **_MESSAGES,
        **_WORKER,
        **_transport(timeout),
        broker_pool_limit=settings.db_pool_max + 2,
        task_queues=[Queue(name) for name in queues] or None,
        worker_enable_remote_control=is_worker,
    )
    return app


# Results are rows, retries are rows: Celery carries messages and counts the parts of chords.
_MESSAGES: dict[str, Any] = {
    "task_serializer": "json",
    "accept_content": ["json"],
    "task_ignore_result": True,
    "task_acks_late": True,
    "task_publish_retry": False,
    "task_create_missing_queues": True,
    "task_send_sent_event": False,
    "enable_utc": True,
    "timezone": "UTC",
}

_WORKER: dict[str, Any] = {
    "worker_prefetch_multiplier": 1,
    "worker_send_task_events": False,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "worker_max_tasks_per_child": 1000,
    "worker_max_memory_per_child": 400_000,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
}


def _transport(timeout: int) -> dict[str, Any]:
    """How long each call to the broker may take, and what it need not promise."""
    few_tries = {"interval_start": 0, "interval_step": 0.1, "interval_max": 0.2}
    return {
        "broker_transport_options": {
            # PostgreSQL holds the truth: emulated acknowledgements would cost half of a worker's speed.
            "ack_emulation": False,
            "socket_timeout": timeout,
            "socket_connect_timeout": 1,
            "socket_keepalive": True,
            "health_check_interval": 10,
            "max_retries": 1,
            "priority_steps": list(LEVELS),
            **few_tries,
        },
        "result_expires": 3600,
        "result_chord_expires": CHORD_LIFE_S,
        "result_backend_transport_options": {
            "result_chord_ordered": False,
            "retry_policy": {"max_retries": 3, **few_tries},
        },
        # These connections publish, in workers too (redis_pipeline.py).
        "redis_socket_timeout": PUBLISHER_TIMEOUT_S,
        "redis_socket_connect_timeout": 1,
        "redis_retry_on_timeout": False,
    }
