"""Writes log lines as JSON to stderr, in the same form from every process."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import orjson

from pipeweave.orchestrator.deployment.log_context import TaskRunNames
from pipeweave.safe_text import call_safely, safe_text, storable

# A longer traceback loses its beginning, a longer text its end (characters).
MOST_OF_A_TRACEBACK = 16_000
MOST_OF_A_TEXT = 32_000
# A line that is too long loses further members, and keys lose their end (characters).
MOST_MEMBERS = 100
MOST_OF_A_KEY = 200

# LOG_LEVEL as the documents name it -> Python's level.
_LEVELS = {"minimal": logging.WARNING, "normal": logging.INFO, "detailed": logging.DEBUG}

# Attributes that every LogRecord has; further attributes of a record come from `extra`.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# Members of the line itself: a member of `extra` with such a name is called `extra_time` and so on.
_OWN = frozenset({"time", "level", "logger", "message", "exception", "exception_type"})

# Bound here, because a task may replace the functions of the module.
_dumps = orjson.dumps
_OPTIONS = orjson.OPT_NON_STR_KEYS


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the exception, and the caller's `extra`.

    A value of `extra` that JSON cannot hold is written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record)[:MOST_OF_A_TEXT],
        }
        for key, value in vars(record).items():
            if key not in _PLAIN and not str(key).startswith("_"):
                line[f"extra_{key}" if key in _OWN else key] = value
        if record.exc_info and record.exc_info[0] is not None:
            kind = record.exc_info[0]
            line["exception_type"] = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            traceback = storable(call_safely(lambda: self.formatException(record.exc_info), ""))  # type: ignore[arg-type]
            line["exception"] = traceback[-MOST_OF_A_TRACEBACK:]
        return _as_json(line)


def _message(record: logging.LogRecord) -> str:
    try:
        return storable(record.getMessage())
    except Exception as error:  # arguments that do not fit, or of a task's own type
        told = f"{safe_text(str, record.msg)} {safe_text(repr, record.args)}"
        return f"{told} (not formatted: {type(error).__name__}: {safe_text(str, error)})"


def _as_json(line: Mapping[str, Any]) -> str:
    try:
        text = _dumps(line, default=_as_text, option=_OPTIONS).decode()
    except Exception:  # a lone surrogate, a huge number, a value that holds itself
        text = ""
    if text and len(text) <= 2 * MOST_OF_A_TEXT:
        return text
    bounded = {storable(str(key))[:MOST_OF_A_KEY]: _bounded(value) for key, value in line.items()}
    return json.dumps(dict(islice(bounded.items(), MOST_MEMBERS)), ensure_ascii=False)


def _as_text(value: object) -> str:
    return (safe_text(str, value) or f"<{type(value).__name__}>")[:MOST_OF_A_TEXT]


def _bounded(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return storable(value)[:MOST_OF_A_TEXT]
    return value if isinstance(value, int) and abs(value) < 2**63 else _as_text(value)


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
