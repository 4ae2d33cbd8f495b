"""Writes log lines as JSON to stderr, in the same form from every process."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from pipeweave.log_lines import as_json, exception_of, extra_of, message_of
from pipeweave.orchestrator.deployment.log_context import TaskRunNames

# LOG_LEVEL as the documents name it -> Python's level.
_LEVELS = {"minimal": logging.WARNING, "normal": logging.INFO, "detailed": logging.DEBUG}

# Members of the line itself: a member of `extra` with such a name is called `extra_time` and so on.
_OWN = frozenset({"time", "level", "logger", "message", "exception", "exception_type"})


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the exception, and the caller's `extra`.

    A value of `extra` that JSON cannot hold is written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        for key, value in extra_of(record):
            line[f"extra_{key}" if key in _OWN else key] = value
        return as_json(line | exception_of(record))


def configure(log_level: str) -> None:
    """Send every logger's lines, and Python's warnings, to stderr as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(TaskRunNames())
    logging.basicConfig(level=_LEVELS.get(log_level, logging.INFO), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Celery logs each message it received and finished at INFO; our own events say more. botocore's DEBUG
    # lines hold session tokens.
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp", "botocore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def celery_level(log_level: str) -> str:
    """The level of LOG_LEVEL by Celery's name."""
    return logging.getLevelName(_LEVELS.get(log_level, logging.INFO))
