"""Writes log lines as JSON to stderr, in the same form from every process."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pipeweave.log_lines import LEVELS, JsonLines
from pipeweave.orchestrator.deployment.log_context import TaskRunNames


def configure(log_level: str, log_levels: Sequence[str] = ()) -> None:
    """Send every logger's lines, and Python's warnings, to stderr as JSON.

    Args:
        log_level: of all loggers.
        log_levels: `logger=level` of those that have another one.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(TaskRunNames())
    logging.basicConfig(level=LEVELS.get(log_level, logging.INFO), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Celery logs each message it received and finished at INFO; our own events say more. botocore's DEBUG
    # lines hold session tokens.
    chosen = dict(each.split("=") for each in log_levels)
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp"):
        chosen.setdefault(noisy, "minimal")
    for name, level in (chosen | {"botocore": "minimal"}).items():
        logging.getLogger(name).setLevel(LEVELS[level])


def celery_level(log_level: str) -> str:
    """The level of LOG_LEVEL by Celery's name."""
    return logging.getLevelName(LEVELS.get(log_level, logging.INFO))
