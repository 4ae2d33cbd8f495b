"""Writes log lines as JSON to stderr, in the same form from every process."""

from __future__ import annotations

import logging

from pipeweave.log_lines import LEVELS, JsonLines
from pipeweave.orchestrator.deployment.log_context import TaskRunNames


def configure(log_level: str) -> None:
    """Send every logger's lines, and Python's warnings, to stderr as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(TaskRunNames())
    logging.basicConfig(level=LEVELS.get(log_level, logging.INFO), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Celery logs each message it received and finished at INFO; our own events say more. botocore's DEBUG
    # lines hold session tokens.
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp", "botocore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def celery_level(log_level: str) -> str:
    """The level of LOG_LEVEL by Celery's name."""
    return logging.getLevelName(LEVELS.get(log_level, logging.INFO))
