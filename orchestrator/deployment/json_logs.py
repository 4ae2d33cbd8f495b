"""Log lines as JSON on stderr, the same from every process."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

# LOG_LEVEL as the documents name it -> Python's level.
_LEVELS = {"minimal": logging.WARNING, "normal": logging.INFO, "detailed": logging.DEBUG}

# Attributes every LogRecord has; what else a record carries was put there by `extra`.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever the caller added."""

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
    """Send every logger's lines to stderr as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=_LEVELS.get(log_level, logging.INFO), handlers=[handler], force=True)
    # Celery says at INFO what it received and finished; our events say it better. botocore's DEBUG lines hold
    # session tokens.
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp", "botocore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def celery_level(log_level: str) -> str:
    """The same level by Celery's name."""
    return logging.getLevelName(_LEVELS.get(log_level, logging.INFO))
