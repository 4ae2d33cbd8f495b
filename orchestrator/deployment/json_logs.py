"""Writes log lines as JSON to stderr, in the same form from every process."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

# LOG_LEVEL as the documents name it -> Python's level.
_LEVELS = {"minimal": logging.WARNING, "normal": logging.INFO, "detailed": logging.DEBUG}

# Attributes that every LogRecord has; further attributes of a record come from `extra`.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the caller's `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {
            key: value for key, value in vars(record).items() if key not in _PLAIN and not key.startswith("_")
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(log_level: str) -> None:
    """Send every logger's lines, and Python's warnings, to stderr as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=_LEVELS.get(log_level, logging.INFO), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Celery logs each message it received and finished at INFO; our own events say more. botocore's DEBUG
    # lines hold session tokens.
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp", "botocore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def celery_level(log_level: str) -> str:
    """The level of LOG_LEVEL by Celery's name."""
    return logging.getLevelName(_LEVELS.get(log_level, logging.INFO))
