"""Writes log lines to stderr, in the same form from every process: as JSON, or for people at a terminal."""

from __future__ import annotations

import logging
import sys

from pipeweave.log_lines import LEVELS
from pipeweave.orchestrator.deployment.log_context import TaskRunNames
from pipeweave.settings import Settings, wants_colours
from pipeweave.terminal_lines import formatter


def configure(settings: Settings) -> None:
    """Send every logger's lines, and Python's warnings, to stderr.

    Args:
        settings: PIPEWEAVE_LOG_FORMAT of the lines, LOG_NAMES of their members, LOG_LEVEL of all loggers,
            LOG_LEVELS of those that have another one.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        formatter(settings.log_format, settings.log_names, sys.stderr, is_coloured=wants_colours())
    )
    handler.addFilter(TaskRunNames())
    logging.basicConfig(level=LEVELS.get(settings.log_level, logging.INFO), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Celery logs each message it received and finished at INFO; our own events say more. botocore's DEBUG
    # lines hold session tokens.
    chosen = dict(each.split("=") for each in settings.log_levels)
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp"):
        chosen.setdefault(noisy, "minimal")
    for name, level in (chosen | {"botocore": "minimal"}).items():
        logging.getLogger(name).setLevel(LEVELS[level])


def leave_out_places() -> None:
    """Let Python not find out for each line where in the code and in which thread it was written: ours do
    not say it. Not for processes in which users' code logs, whose own handlers may.
    """
    # So Python's documentation has it ("Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def celery_level(log_level: str) -> str:
    """The level of LOG_LEVEL by Celery's name."""
    return logging.getLevelName(LEVELS.get(log_level, logging.INFO))
