"""How the main process of a worker takes a message of our two tasks: Celery's strategy, without what they
never have.

The guard in front of Celery (orchestrator/messaging/inbox.py) has read the message already. Its arguments go
to a child as they are: Celery would write them as JSON, read that here and read it once more in the child. No
message of ours has an ETA, expires or sends events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from celery import signals
from celery.utils.imports import symbol_by_name
from celery.worker import request as celery_request
from celery.worker import strategy
from celery.worker.state import task_reserved

from pipeweave.orchestrator.messaging import arguments_of

_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

# What Celery's consumer calls: (message, body, ack, reject, callbacks).
Handler = Callable[[Any, Any, Any, Any, Sequence[Any]], Any]


def for_task(task: Any, app: Any, consumer: Any) -> Handler:
    """What handles the messages of a task; Celery asks for it whenever it has connected to the broker."""
    celerys: Handler = strategy.default(task, app, consumer)
    if strategy.logger.isEnabledFor(logging.INFO):
        return celerys  # it has a line for each message
    base, eventer = symbol_by_name(task.Request), consumer.event_dispatcher
    make: Any = celery_request
    kind = make.create_request_cls(base, task, consumer.pool, consumer.hostname, eventer, app=app)
    revoked, bucket_of = consumer.controller.state.revoked, consumer.task_buckets.__getitem__
    same = {
        "app": app,
        "hostname": consumer.hostname,
        "eventer": eventer,
        "task": task,
        "connection_errors": consumer.connection_errors,
        "decoded": True,
    }

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Sequence[Any]) -> Any:
        arguments = arguments_of(message)
        if arguments is None or bucket_of(task.name):
            return celerys(message, body, ack, reject, callbacks)
        request = kind(
            message,
            on_ack=ack,
            on_reject=reject,
            body=(arguments, {}, _NOTHING_FOLLOWS),
            headers=message.headers,
            **same,
        )
        if request.id in revoked and request.revoked():
            return None
        signals.task_received.send(sender=consumer, request=request)
        task_reserved(request)
        for callback in callbacks:
            callback(request)
        return consumer.on_task_request(request)

    return handle
