"""Makes the Celery app of a deployment, the same for publishers and workers. docs/celery.md explains the
settings.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from pipeweave.errors import InvalidSetting
from pipeweave.orchestrator.messaging.broker_address import BrokerAddress, address_of
from pipeweave.orchestrator.messaging.envelope import KEY_PREFIX
from pipeweave.orchestrator.messaging.inbox import GuardedAMQP
from pipeweave.orchestrator.messaging.own_app import OwnApp
from pipeweave.orchestrator.messaging.sockets import socket_options
from pipeweave.settings import Settings

# Redis forgets a chord's counter after this long (s); the tick then finds the joins that are ready.
CHORD_LIFE_S = 7 * 24 * 3600

# A publisher waits at most 2 s for a broker that hangs: this long for its answer, then for that of a new
# connection (redis_pipeline.py). The tick sends what did not leave. A worker waits longer for the messages it
# takes.
PUBLISHER_TIMEOUT_S = 1.5
WORKER_TIMEOUT_S = 5

# How often (s) a worker looks whether its connections answer. The server answers a waiting worker each
# second, so a connection that is silent for a second more than this is replaced at the next look.
HEALTH_EVERY_S = 2

# The priority levels of a queue. Each is a Redis list; workers empty a list before they read the next.
LEVELS = (0, 3, 6, 9)


def make_celery(settings: Settings, *, queues: tuple[str, ...] = (), is_worker: bool = False) -> Celery:
    """Make the Celery app for a deployment's broker.

    Args:
        settings: `broker_url` is needed.
        queues: the queues that a worker consumes.
        is_worker: True gives the longer broker timeout of a worker, and remote control.

    Raises:
        InvalidSetting: there is no broker URL.
    """
    if not settings.broker_url:
        raise InvalidSetting(
            "BROKER_URL is not set", hint="set it to redis://host:port/0, or use `pipeweave up`"
        )
    address = address_of(settings.broker_url)
    app = OwnApp(address.url, amqp=GuardedAMQP if is_worker else None)
    timeout = WORKER_TIMEOUT_S if is_worker else PUBLISHER_TIMEOUT_S
    app.conf.update(
        **_MESSAGES,
        **_WORKER,
        **_NAMES,
        **_transport(timeout, address),
        broker_pool_limit=settings.db_pool_max + 2,
        task_queues=[_queue(each) for each in queues] or None,
        worker_enable_remote_control=is_worker,
        worker_max_tasks_per_child=settings.max_tasks_per_child,
    )
    return app


def _queue(key: str) -> Queue:
    """The queue whose messages lie in the Redis list `key`, by the name to which kombu adds its prefix.

    It has an exchange of its own: Celery would bind it to the one on which its other apps route tasks.
    """
    if not key.startswith(KEY_PREFIX):
        raise ValueError(f"the name of queue {key!r} does not begin with {KEY_PREFIX!r}")
    name = key.removeprefix(KEY_PREFIX)
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


# PostgreSQL keeps results and retries; Celery carries messages and counts the parts of chords.
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
    # Celery only says, for each lost connection, that it does not do so.
    "worker_enable_prefetch_count_reduction": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "worker_max_memory_per_child": 400_000,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    # A broker that answers with an error, such as a primary that became a replica, is connected to anew.
    "broker_channel_error_retry": True,
}

# Of remote control and events: Celery's own names are those of every other app on the same broker.
_NAMES: dict[str, Any] = {
    "control_exchange": "pipeweave",
    "event_exchange": "pipeweave.events",
    "event_queue_prefix": "pipeweave.events",
}


def _transport(timeout: float, address: BrokerAddress) -> dict[str, Any]:
    """The settings of the broker connections: timeouts (s), tries, and no acknowledgements."""
    tls = dict(address.tls) or None
    few_tries = {"interval_start": 0, "interval_step": 0.1, "interval_max": 0.2}
    return {
        "broker_transport_options": {
            # PostgreSQL decides what still has to run. Emulated acknowledgements would halve a worker's
            # speed.
            "ack_emulation": False,
            "global_keyprefix": KEY_PREFIX,
            "socket_timeout": timeout,
            "socket_connect_timeout": 1,
            "socket_keepalive": True,
            "socket_keepalive_options": socket_options(),
            "health_check_interval": HEALTH_EVERY_S,
            "max_retries": 1,
            "priority_steps": list(LEVELS),
            **few_tries,
            **address.options,
        },
        "result_expires": 3600,
        "result_chord_expires": CHORD_LIFE_S,
        "result_backend_transport_options": {
            "result_chord_ordered": False,
            "global_keyprefix": KEY_PREFIX,
            "retry_policy": {"max_retries": 3, **few_tries},
            **address.options,
        },
        # Only where the URL does not say it: TLS behind sentinels.
        **({"broker_use_ssl": tls, "redis_backend_use_ssl": tls} if tls else {}),
        # redis_pipeline.py publishes over these connections, in workers too.
        "redis_socket_timeout": PUBLISHER_TIMEOUT_S,
        "redis_socket_connect_timeout": 1,
        "redis_retry_on_timeout": False,
    }
