"""Turns log lines of Celery and billiard into JSON with members, as our own lines are."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import billiard.util
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from celery.signals import celeryd_after_setup, setup_logging
from celery.worker.consumer import connection, consumer

from pipeweave.errors import Unavailable
from pipeweave.failure_log import FailureLog

log = logging.getLogger(__name__)

# Typed as Any because Celery's stubs lack its messages.
_messages: Any = consumer
_CANNOT_CONNECT: str = _messages.CONNECTION_ERROR
_CONNECTION_LOST: str = _messages.CONNECTION_RETRY
# These have no name in Celery.
_CONNECTED = "Connected to %s"
_LOST_OFTEN = "Frequent restarts detected: %r"


def install(clock: Callable[[], float] = time.monotonic) -> None:
    """Make Celery leave the logging as it is, and translate its lines. Called before the worker starts.

    Args:
        clock: a monotonic clock (s).
    """
    setup_logging.connect(_leave_as_it_is, weak=False)
    celeryd_after_setup.connect(_ignore_choices, weak=False)
    # By default billiard's logger keeps its lines to itself, and Celery gives it a format of its own.
    children: Any = billiard.util.get_logger()
    children.propagate = True
    children.setLevel(logging.ERROR)
    broker = _BrokerLines(clock)
    logging.getLogger(consumer.__name__).addFilter(broker.of_consumer)
    logging.getLogger(connection.__name__).addFilter(broker.of_connection)
    logging.getLogger("celery.worker.request").addFilter(_is_news)
    logging.getLogger("py.warnings").addFilter(_shorten)


def _leave_as_it_is(**_: object) -> None:
    pass


def _ignore_choices(**_: object) -> None:
    """Celery warns of a choice that is made here (celery_app.py) each time that the broker is away. When it
    sets the logging up, it asks for these warnings; this comes after it.
    """
    warnings.simplefilter("ignore", CPendingDeprecationWarning)


class _BrokerLines:
    """Says with members what Celery says of its connection to the broker.

    A broker that lets a worker connect and then refuses a command is lost several times a second; that is
    said once a minute, as other failures are.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._losses = FailureLog(log, "broker.lost", clock)
        # Whether the end of the last connection was said.
        self._is_said = True

    def of_consumer(self, record: logging.LogRecord) -> bool:
        """Whether a line of the consumer stays."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        if record.msg == _CANNOT_CONNECT and len(arguments) == 3:
            broker, error, following = arguments
            # Celery says it in three lines that end in `Trying again … (1/None)`.
            following = str(following).partition("...")[0].lower()
            _say(record, "broker.unreachable", broker=str(broker), reason=str(error), then=following)
            self._is_said = True
        elif arguments and arguments[0] == _CONNECTION_LOST:
            reason = str(arguments[-1]) or repr(arguments[-1])
            self._is_said = self._losses.failed(Unavailable(reason, hint="connecting again"))
            return False
        # That the broker is lost often is what the count of `broker.lost` says.
        return record.msg != _LOST_OFTEN

    def of_connection(self, record: logging.LogRecord) -> bool:
        """Whether a line of the connection stays: a new one is news where the end of the old one was."""
        return record.msg != _CONNECTED or self._is_said


def _shorten(record: logging.LogRecord) -> bool:
    """Celery warns of root in six lines, of which the option that it names is none of ours."""
    if f": {SecurityWarning.__name__}: " in record.getMessage():
        _say(record, "worker.privileged", hint="start workers as a user without the rights of root")
    return True


def _say(record: logging.LogRecord, message: str, **members: str) -> None:
    record.msg, record.args, record.exc_info = message, (), None
    vars(record).update(members)


def _is_news(record: logging.LogRecord) -> bool:
    """Not the end of a child process: `child.lost` says how it ended, and what became of its attempts."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "WorkerLostError"
