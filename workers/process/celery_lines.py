"""Turns log lines of Celery and billiard into JSON with members, as our own lines are."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import billiard.util
from celery.exceptions import CPendingDeprecationWarning
from celery.signals import setup_logging
from celery.worker.consumer import consumer

from pipeweave.errors import Unavailable
from pipeweave.workers.process.failure_log import FailureLog

# Typed as Any because Celery's stubs lack its messages.
_messages: Any = consumer
_CANNOT_CONNECT: str = _messages.CONNECTION_ERROR
_CONNECTION_LOST: str = _messages.CONNECTION_RETRY
_LOST = FailureLog(logging.getLogger(__name__), "broker.lost")


def install() -> None:
    """Make Celery leave the logging as it is, and translate its lines. Called before the worker starts."""
    setup_logging.connect(_leave_as_it_is, weak=False)
    # By default billiard's logger keeps its lines to itself, and Celery gives it a format of its own.
    children: Any = billiard.util.get_logger()
    children.propagate = True
    children.setLevel(logging.ERROR)
    # Celery warns of a choice that is made here (celery_app.py) each time that the broker is away.
    warnings.simplefilter("ignore", CPendingDeprecationWarning)
    logging.getLogger(consumer.__name__).addFilter(_say_broker_away)
    logging.getLogger("celery.worker.request").addFilter(_is_news)


def _leave_as_it_is(**_: object) -> None:
    pass


def _say_broker_away(record: logging.LogRecord) -> bool:
    """Say with members what Celery says in three lines that end in `Trying again … (1/None)`."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    if record.msg == _CANNOT_CONNECT and len(arguments) == 3:
        broker, error, following = arguments
        following = str(following).partition("...")[0].lower()
        _say(record, "broker.unreachable", broker=str(broker), reason=str(error), then=following)
    elif arguments and arguments[0] == _CONNECTION_LOST:
        # Several times a second, while a broker that takes connections refuses what it is asked for.
        _LOST.failed(Unavailable(str(arguments[-1]), hint="connecting again"))
        return False
    return True


def _say(record: logging.LogRecord, message: str, **members: str) -> None:
    record.msg, record.args, record.exc_info = message, (), None
    vars(record).update(members)


def _is_news(record: logging.LogRecord) -> bool:
    """Not the end of a child process: `child.lost` says how it ended, and what became of its attempts."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "WorkerLostError"
